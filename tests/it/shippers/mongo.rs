//! rsyslog's ommongodb and syslog-ng's mongodb(), configured by the snippets of
//! `docs/shippers/mongodb.md`, while the server is killed.

use super::clients::{is_there, rsyslog, run_syslog_ng};
use super::{Background, installed, numbers, snippet, wait_for};
use crate::support::{Home, Server};

/// Messages that each client sends, each an insert.
const SENT: usize = 3000;
const COLUMN: &str = "msg";

fn mongo_address(server: &Server) -> String {
    let uri = server.announced("MongoDB clients: mongodb://");
    uri.strip_suffix("/logmill").expect("a database").to_owned()
}

/// Returns a block of the page, with the address of the server.
fn to(address: &str, contains: &str) -> String {
    let block = snippet("mongodb.md", contains);
    assert!(block.contains("127.0.0.1:27017"), "{block}");
    block.replace("127.0.0.1:27017", address)
}

fn stored(server: &Server, what: &str) -> u64 {
    let query = format!("SELECT {what} AS n FROM syslog WHERE {COLUMN} LIKE '%number %'");
    let answer = server.post("/api/v1/sql", &[], query.as_bytes());
    match answer.status {
        200 => answer.json()["rows"][0]["n"].as_u64().unwrap_or(0),
        // The stream does not exist yet.
        _ => 0,
    }
}

/// Kills the server when the first messages are stored, and starts it again. A message whose answer
/// was lost is stored twice.
fn through_a_kill(start: impl Fn(&Home, &str) -> Option<Background>) {
    let home = Home::new();
    let server = Server::start_with(&home.data, &[("LOGMILL_SERVER__MONGO", "127.0.0.1:0")]);
    home.file("numbers", numbers(SENT));
    let address = mongo_address(&server);
    let Some(running) = start(&home, &address) else {
        return;
    };
    wait_for(|| stored(&server, "count(*)") > 0);
    let http = server.address.clone();
    server.kill();
    let server = Server::start_at(&home.data, &http, &[("LOGMILL_SERVER__MONGO", &address)]);
    let distinct = format!("count(DISTINCT {COLUMN})");
    wait_for(|| stored(&server, &distinct) >= SENT as u64);
    let twice = stored(&server, "count(*)") - SENT as u64;
    assert!(twice <= 2, "{twice} are stored twice: {}", running.log());
    println!("{SENT} messages, {twice} stored twice");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn rsyslog_inserts_documents_through_a_kill() {
    let Some(program) = installed("rsyslogd") else {
        return;
    };
    if !is_there("rsyslog/ommongodb.so") {
        println!("skipped: rsyslog-mongodb is not installed");
        return;
    }
    through_a_kill(|home, address| Some(rsyslog(&program, home, &to(address, "ommongodb"))));
}

#[test]
fn syslog_ng_inserts_documents_through_a_kill() {
    through_a_kill(|home, address| {
        run_syslog_ng(
            home,
            "d_mongo",
            &to(address, "d_mongo"),
            Some("libafmongodb.so"),
        )
    });
}
