//! The table of write concerns in the README, its column of `kill -9`. The table's answers are
//! tested in `http_ingest`, its column of power loss on the simulated disk of storage.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;

use crate::support::{Batch, Home, Ledger, Outcome, Server};

/// Nothing is synced unless a client waits for it.
const NO_SYNC: (&str, &str) = ("LOGMILL_STORAGE__SYNC_INTERVAL", "1h");
const BATCHES: u64 = 20;

#[test]
fn what_is_acknowledged_survives_a_kill_with_the_answer() {
    let concerns = ["", "w=1", "j=true", "w=majority", "w=0&j=true"];
    for concern in concerns {
        let mut random = SmallRng::seed_from_u64(0);
        let home = Home::new();
        let mut ledger = Ledger::default();
        let server = Server::start_with(&home.data, &[NO_SYNC]);
        for number in 0..BATCHES {
            let mut batch = Batch::new(number.to_string(), concern, &mut random);
            assert_eq!(batch.send(&server), Some(200), "{concern}");
            ledger.batches.push(batch);
        }
        server.kill_now();
        drop(server);
        // A reader is checked first, before any recovery.
        ledger.assert_held(|query| home.sql(query));
        let server = Server::start(&home.data);
        ledger.assert_exact(&server);
        for batch in &mut ledger.batches {
            batch.send_again(&server, true);
        }
    }
}

#[test]
fn what_is_not_acknowledged_is_there_whole_or_not_at_all_after_a_kill() {
    let mut random = SmallRng::seed_from_u64(0);
    let home = Home::new();
    let mut server = Server::start_with(&home.data, &[NO_SYNC]);
    let mut ledger = Ledger::begin(&server, &mut random);
    for round in 0..5 {
        for number in 0..BATCHES {
            let key = format!("{round}-{number}");
            let mut batch = Batch::new(key, "w=1", &mut random);
            let headers = [("Idempotency-Key", batch.key.as_str())];
            let path = "/api/v1/ingest/access?w=0";
            let answer = server.post(path, &headers, batch.body.as_bytes());
            assert_eq!(answer.status(202).json(), json!({}));
            batch.outcome = Outcome::Unknown;
            ledger.batches.push(batch);
        }
        server.kill_now();
        drop(server);
        ledger.assert_held(|query| home.sql(query));
        server = Server::start_with(&home.data, &[NO_SYNC]);
        let settled = ledger.settle(&server);
        println!("round {round}: {settled:?}");
        ledger.assert_exact(&server);
    }
}

/// The acknowledgement says nothing of the batch's fate: it is sent before the batch is read.
#[test]
fn what_is_not_to_be_acknowledged_is_answered_before_it_is_read() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let path = "/api/v1/ingest/access?w=0";
    let headers = [("Content-Encoding", "gzip")];
    let answer = server.post(path, &headers, b"this is no gzip");
    assert_eq!(answer.status(202).json(), json!({}));
    let path = "/api/v1/ingest/access?w=1";
    server.post(path, &headers, b"this is no gzip").status(400);
}
