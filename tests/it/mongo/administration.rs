//! Administration through a driver: `tests/clients/mongo_administration.py`.

use std::path::Path;

use super::{served, served_with, told_by};
use crate::support::{Home, PAST_S, Server, command, finish, line};
use serde_json::Value;

const FILE: &str = "mongo_administration.py";

/// Configuration of the streams with retention.
const RETENTION: &str = r#"
[stream.capped]
retention = { bytes = "1MiB" }
[stream.aged]
retention = { age = "1h" }
"#;

/// Ingests an access log of some hours, and seals it.
fn ingest(server: &Server) {
    let lines = (0..40).map(|n| line("203.0.113.1", PAST_S + n * 600, "/", 200, 10));
    server.ingest("access", lines.collect::<String>());
    server.seal();
}

/// Runs an act on a store with an access log. Returns the line that it prints.
#[track_caller]
fn act(name: &str) -> Option<String> {
    let home = Home::new();
    let (server, address) = served_with(&home, RETENTION);
    ingest(&server);
    let line = told_by(FILE, &address, &[name]);
    assert_eq!(server.stop(), Some(0));
    line
}

#[track_caller]
fn check(name: &str, expected: &str) {
    if let Some(line) = act(name) {
        assert_eq!(line, expected);
    }
}

#[test]
fn streams_and_levels_are_listed_as_collections() {
    check("lists", "access 12");
}

#[test]
fn a_collection_is_created_as_the_configuration_has_it() {
    check("creates", "created");
}

#[test]
fn indexes_are_created_listed_and_dropped() {
    check("indexes", "indexed");
}

#[test]
fn an_index_that_expires_events_is_retention_by_age_and_stays_after_a_kill() {
    let home = Home::new();
    let (server, address) = served_with(&home, RETENTION);
    let told = told_by(FILE, &address, &["retention"]);
    server.kill();
    let (server, address) = served_with(&home, RETENTION);
    if let Some(told) = told {
        assert_eq!(told, "retained");
        let kept = told_by(FILE, &address, &["kept"]);
        assert_eq!(kept.as_deref(), Some("kept"));
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_capped_collection_loses_its_oldest_days() {
    let home = Home::new();
    let (server, address) = served(&home);
    let lines = (0..40).map(|n| line("203.0.113.1", PAST_S + n / 8 * 86_400, "/", 200, 10));
    server.ingest("access", lines.collect::<String>());
    server.seal();
    if let Some(told) = told_by(FILE, &address, &["ring", "8"]) {
        assert_eq!(told, "ring 8");
        // The rollups count what is gone.
        let counted = "SELECT sum(hits) FROM traffic.yearly";
        assert_eq!(server.number(counted), 40);
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn collections_and_their_indexes_have_sizes() {
    check("sizes", "sized 40");
}

#[test]
fn a_collection_is_sharded_by_any_key_and_the_keys_are_measured() {
    check("sharding", "sharded");
}

#[test]
fn a_damaged_collection_is_not_valid() {
    let home = Home::new();
    let (server, address) = served(&home);
    ingest(&server);
    let told = told_by(FILE, &address, &["validates", "sound"]);
    let parts = server.sql("SELECT path FROM system.parts WHERE stream = 'access'");
    for part in &parts {
        let path = Path::new(&home.data).join(part["path"].as_str().expect("a path"));
        let mut bytes = std::fs::read(&path).expect("the part");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("the damaged part");
    }
    if let Some(told) = told {
        assert_eq!(told, "sound");
        let told = told_by(FILE, &address, &["validates", "damaged"]);
        assert_eq!(told.as_deref(), Some("damaged"));
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_state_of_the_server_is_told() {
    check("states", "7.0.0");
}

#[test]
fn a_running_query_is_listed_and_killed() {
    check("operations", "killed");
}

#[test]
fn administration_needs_the_rights_of_the_routes() {
    let home = Home::new();
    let (server, address) = served(&home);
    for stream in ["events", "hidden"] {
        server.ingest(stream, line("203.0.113.1", PAST_S, "/", 200, 1));
    }
    let token = |name: &str, role: &str| {
        let mut create = command();
        create.args(["token", "create", name, "--role", role]);
        create.args(["--stream", "events", "--output", "json", "--data"]);
        let created = finish(create.arg(&home.data), &[]).code(0).stdout;
        let created: Value = serde_json::from_str(&created).expect("JSON");
        created["token"].as_str().expect("a token").to_owned()
    };
    let (reader, shipper) = (token("reader", "read"), token("shipper", "ingest"));
    if let Some(line) = told_by(FILE, &address, &["rights", &reader, &shipper]) {
        assert_eq!(line, "refused");
    }
    assert_eq!(server.stop(), Some(0));
}
