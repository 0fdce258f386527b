//! A driver of MongoDB writes events: `tests/clients/mongo.py` with pymongo.

mod administration;
mod drivers;
mod recipe;
mod specifications;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, command, finish, knob, line, seed};

const ENVIRONMENT: (&str, &str) = ("LOGMILL_SERVER__MONGO", "127.0.0.1:0");

/// Serves a store for MongoDB clients. Returns the address for them, too.
fn served(home: &Home) -> (Server, String) {
    served_with(home, "")
}

/// The same with a configuration.
fn served_with(home: &Home, configuration: &str) -> (Server, String) {
    let config = home.file("logmill.toml", configuration);
    let mut program = command();
    program.args(["--config", &config]);
    let server = Server::try_start(program, &home.data, &[ENVIRONMENT]).expect("a server");
    let address = address_of(&server);
    (server, address)
}

fn address_of(server: &Server) -> String {
    let uri = server.announced("MongoDB clients: mongodb://");
    uri.strip_suffix("/logmill").expect("a database").to_owned()
}

/// Returns the command of the client; `None` without a Python that has clients.
fn client(address: &str, act: &[&str]) -> Option<Command> {
    script("mongo.py", address, act)
}

fn script(file: &str, address: &str, act: &[&str]) -> Option<Command> {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with clients");
        return None;
    };
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut client = Command::new(python);
    client.arg(clients.join(file)).arg(address).args(act);
    client.env("PYTHONDONTWRITEBYTECODE", "1");
    Some(client)
}

/// Runs the client. Returns the line that it prints; `None` if it is not there.
#[track_caller]
fn told(address: &str, act: &[&str]) -> Option<String> {
    told_by("mongo.py", address, act)
}

#[track_caller]
fn told_by(file: &str, address: &str, act: &[&str]) -> Option<String> {
    let told = finish(&mut script(file, address, act)?, &[]).code(0);
    let line = told.stdout.trim_end().to_owned();
    if line.starts_with("skipped") {
        println!("{line}");
        return None;
    }
    Some(line)
}

#[test]
fn a_write_concern_is_given_or_refused() {
    let home = Home::new();
    let (server, address) = served(&home);
    let Some(line) = told(&address, &["concerns"]) else {
        return;
    };
    assert_eq!(line, "stored 13");
    // The one without an acknowledgement may come last.
    let stored = || server.number("SELECT count(*) AS n FROM events");
    for _ in 0..100 {
        if stored() == 13 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(stored(), 13);
    let rows = server.sql("SELECT * EXCEPT (_id) FROM events LIMIT 1");
    assert_eq!(rows[0]["time"], "2000-10-10T20:55:36Z");
    assert_eq!(rows[0]["status"], 200);
    assert_eq!(rows[0]["path"], "/apache_pb.gif");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn every_failed_document_is_told_with_its_index() {
    let home = Home::new();
    let (server, address) = served(&home);
    let Some(line) = told(&address, &["bulk"]) else {
        return;
    };
    assert_eq!(line, "ordered 2, unordered 3, types 1, many 25000");
    let numbers = |stream: &str| -> Vec<u64> {
        let rows = server.sql(&format!("SELECT n FROM {stream} ORDER BY n"));
        rows.iter().filter_map(|row| row["n"].as_u64()).collect()
    };
    assert_eq!(numbers("ordered"), [0, 1]);
    assert_eq!(numbers("unordered"), [0, 1, 4]);
    assert_eq!(numbers("many"), (0..25000).collect::<Vec<_>>());
    let bad = server.sql("SELECT stream, reason FROM system.quarantine");
    assert_eq!(
        bad,
        [json!({ "stream": "unordered", "reason": "too_deep" })]
    );
    let rows = server.sql("SELECT * FROM types");
    let row = &rows[0];
    assert_eq!(row["_id"], "507f1f77bcf86cd799439011");
    assert_eq!(row["date"], "2026-01-02T03:04:05.678Z");
    assert_eq!(row["long"], 1_u64 << 40);
    assert_eq!(row["inside.b.c"], true);
    let rest = row["_rest"].to_string();
    for kept in ["decimal", "list", "nothing", "bytes"] {
        assert!(rest.contains(kept), "{rest}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_client_logs_in_by_scram_or_with_a_token() {
    let home = Home::new();
    let (server, address) = served(&home);
    server.ingest("hidden", line("203.0.113.1", PAST_S, "/", 200, 1));
    let run = |args: &[&str]| -> String {
        let mut command = command();
        command.args(args).args(["--data", &home.data]);
        command.env("LOGMILL_PASSWORD", "correct horse, battery=staple");
        finish(&mut command, &[]).code(0).stdout
    };
    run(&["user", "add", "o.neil@example", "--role", "admin"]);
    let token = |name: &str, role: &str| {
        let create = [
            "token", "create", name, "--role", role, "--stream", "events",
        ];
        let created = run(&[&create[..], &["--output", "json"]].concat());
        let created: Value = serde_json::from_str(&created).expect("JSON");
        created["token"].as_str().expect("a token").to_owned()
    };
    let act = [
        "login",
        "o.neil@example",
        "correct horse, battery=staple",
        &token("shipper", "ingest"),
        &token("reader", "read"),
    ];
    if let Some(line) = told(&address, &act) {
        assert_eq!(line, "stored 3");
    }
    assert_eq!(server.stop(), Some(0));
}

/// A proxy breaks connections before an insert reaches the server, and behind its effect: the
/// driver repeats it under the same number.
#[test]
fn a_repeated_insert_is_stored_once() {
    let home = Home::new();
    let (server, address) = served(&home);
    let count = knob("LOGMILL_MONGO_INSERTS", 1000);
    let act = ["retries", &count.to_string(), &seed().to_string()];
    let Some(line) = told(&address, &act) else {
        return;
    };
    println!("{line}");
    let broken = line.split("broken ").nth(1).expect("counts");
    assert!(!broken.contains(" 0"), "{line}");
    assert_eq!(server.number("SELECT count(*) AS n FROM retried"), count);
    assert_eq!(
        server.number("SELECT count(DISTINCT n) AS n FROM retried"),
        count
    );
    assert_eq!(server.stop(), Some(0));
}

/// Three clients insert documents with `j`, and the server is killed again and again.
#[test]
fn acknowledged_documents_are_stored_once_through_kills() {
    const CLIENTS: u64 = 3;
    let home = Home::new();
    let (mut server, address) = served(&home);
    let http = server.address.clone();
    let (kills, each) = (knob("LOGMILL_KILLS", 4), 400);
    let mut running = Vec::new();
    for client_number in 0..CLIENTS {
        let first = (client_number * each).to_string();
        let Some(mut client) = client(&address, &["numbers", &first, &each.to_string()]) else {
            return;
        };
        let mut child = client
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let told = std::thread::spawn(move || {
            let lines = lines.map(|line| line.expect("a line"));
            lines.collect::<Vec<String>>()
        });
        running.push((child, told));
    }
    let mut random = SmallRng::seed_from_u64(seed());
    for _ in 0..kills {
        std::thread::sleep(std::time::Duration::from_millis(
            random.random_range(300..1500),
        ));
        server.kill();
        let environment = [("LOGMILL_SERVER__MONGO", address.as_str())];
        server = Server::start_at(&home.data, &http, &environment);
    }
    let mut expected = BTreeMap::new();
    for (mut child, told) in running {
        assert!(child.wait().expect("the client ends").success());
        for line in told.join().expect("a thread") {
            let Some((fate, number)) = line.split_once(' ').filter(|(f, _)| *f != "skipped:")
            else {
                println!("{line}");
                return;
            };
            expected.insert(number.parse::<u64>().expect("a number"), fate == "inserted");
        }
    }
    let rows = server.sql("SELECT n, count(*) AS times FROM numbers GROUP BY n");
    let stored: BTreeMap<u64, u64> = rows
        .iter()
        .filter_map(|row| Some((row["n"].as_u64()?, row["times"].as_u64()?)))
        .collect();
    assert_eq!(expected.len() as u64, CLIENTS * each);
    let acknowledged = expected.values().filter(|inserted| **inserted).count();
    for (number, inserted) in &expected {
        let times = stored.get(number).copied().unwrap_or(0);
        assert!(
            times == 1 || times == 0 && !inserted,
            "{number}: {times} times"
        );
    }
    println!(
        "{acknowledged} of {} acknowledged, {kills} kills",
        expected.len()
    );
    assert_eq!(server.stop(), Some(0));
}

/// Documents of many types, in the memtable and in parts, against an evaluation of its own.
#[test]
fn random_filters_find_the_documents_that_match() {
    let home = Home::new();
    let (server, address) = served(&home);
    let (seed, filters) = (
        seed().to_string(),
        knob("LOGMILL_MONGO_FILTERS", 150).to_string(),
    );
    for (documents, seals) in [(300, true), (450, true), (600, false)] {
        let count = documents.to_string();
        let Some(line) = told(&address, &["fill", &count, &seed]) else {
            return;
        };
        assert_eq!(line, format!("stored {documents}"));
        if seals {
            server.seal();
        }
        let line = told(&address, &["finds", &filters, &count, &seed]).expect("pymongo");
        println!("{line}");
    }
    assert_eq!(server.stop(), Some(0));
}

/// Pipelines over documents of many types, against a model that shares no code.
#[test]
fn random_pipelines_give_the_results_of_a_model() {
    let home = Home::new();
    let (server, address) = served(&home);
    let count = knob("LOGMILL_MONGO_PIPELINES", 200).to_string();
    let act = [&*count, &seed().to_string()];
    if let Some(line) = told_by("pipelines/compare.py", &address, &act) {
        println!("{line}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_cursor_gives_every_document_in_batches() {
    let home = Home::new();
    let (server, address) = served(&home);
    if let Some(line) = told(&address, &["cursors"]) {
        assert_eq!(line, "read 5000");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_tailable_cursor_has_each_event_once() {
    let home = Home::new();
    let (server, address) = served(&home);
    let count = knob("LOGMILL_MONGO_TAILED", 1500).to_string();
    if let Some(line) = told_by("mongo_tail.py", &address, &[&count, &seed().to_string()]) {
        assert_eq!(line, format!("followed {count}"));
    }
    assert_eq!(server.stop(), Some(0));
}

/// The question of on-call engineers: a host on one date.
#[test]
fn the_events_of_an_access_log_are_documents() {
    let home = Home::new();
    let (server, address) = served(&home);
    let day_s = PAST_S - PAST_S % 86_400;
    let event = |n: i64| {
        let host = format!("203.0.113.{}", n % 3);
        line(&host, day_s + n * 3_600, &format!("/page/{n}"), 200, 10)
    };
    server.ingest("access", (0..40).map(event).collect::<String>());
    server.seal();
    server.ingest("access", (40..60).map(event).collect::<String>());
    let day = chrono::DateTime::from_timestamp(day_s + 86_400, 0).expect("a day");
    let day = day.format("%Y-%m-%d").to_string();
    if let Some(paths) = told(&address, &["access", "203.0.113.1", &day]) {
        let expected: Vec<String> = (24..48)
            .filter(|n| n % 3 == 1)
            .map(|n| format!("'/page/{n}'"))
            .collect();
        assert_eq!(paths, format!("[{}]", expected.join(", ")));
    }
    assert_eq!(server.stop(), Some(0));
}
