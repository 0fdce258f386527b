//! rsyslog and syslog-ng over HTTP and through Kafka, configured by the snippets of
//! `docs/shippers`, while the server is killed.

use std::collections::BTreeMap;

use super::clients::{is_there, rsyslog, run_syslog_ng};
use super::{Background, installed, numbers, snippet, wait_for, wait_for_numbers};
use crate::support::{Home, Server};

/// Messages that each client sends, many batches of them.
const SENT: usize = 20_000;

fn wait_for_the_first(server: &Server) {
    wait_for(|| {
        let query = b"SELECT count(*) AS n FROM syslog";
        let answer = server.post("/api/v1/sql", &[], query);
        answer.status == 200 && answer.json()["rows"][0]["n"] != 0
    });
}

/// Kills the server when the first messages are stored, and starts it again. Returns how often each
/// message is stored once all are.
fn through_a_kill(home: &Home, server: Server) -> BTreeMap<String, u64> {
    let address = server.address.clone();
    wait_for_the_first(&server);
    server.kill();
    let server = Server::start_at(&home.data, &address, &[]);
    let stored = wait_for_numbers(&server, "syslog", SENT);
    let quarantined = server.number("SELECT count(*) AS n FROM system.quarantine");
    assert_eq!(quarantined, 0);
    assert_eq!(stored.len(), SENT);
    stored
}

/// Kills the client when the first messages are stored, and starts it again: it sends what it does
/// not remember to have sent, and nothing is missing.
fn through_a_kill_of_the_client(server: &Server, start: impl Fn() -> Option<Background>) {
    let Some(first) = start() else { return };
    wait_for_the_first(server);
    drop(first);
    let second = start();
    assert!(second.is_some());
    let stored = wait_for_numbers(server, "syslog", SENT);
    assert_eq!(stored.len(), SENT);
    let quarantined = server.number("SELECT count(*) AS n FROM system.quarantine");
    assert_eq!(quarantined, 0);
    let again: u64 = stored.values().map(|times| times - 1).sum();
    println!("{SENT} messages, {again} sent again");
}

/// Without keys, the messages of a request whose answer was lost are stored twice.
fn assert_few_twice(stored: &BTreeMap<String, u64>, batch: usize) {
    let twice = stored.values().filter(|times| **times == 2).count();
    assert!(stored.values().all(|times| *times <= 2));
    assert!(twice <= batch, "{twice} messages are stored twice");
    println!("{SENT} messages, {twice} stored twice");
}

fn rsyslog_with(home: &Home, module: &str, snippet: &str) -> Option<Background> {
    let program = installed("rsyslogd")?;
    if !is_there(&format!("rsyslog/{module}.so")) {
        println!("skipped: {module} of rsyslog is not installed");
        return None;
    }
    Some(rsyslog(&program, home, snippet))
}

/// Returns a block of a page with its address and its path of a file replaced.
fn at(page: &str, contains: &str, address: &str, file: &str) -> String {
    let (_, port) = address.rsplit_once(':').expect("an address");
    let block = snippet(page, contains);
    assert!(block.contains("7070"), "{block}");
    block
        .replace("7070", port)
        .replace("/var/log/rsyslog-errors.json", file)
}

#[test]
fn rsyslog_sends_to_bulk_through_a_kill() {
    let home = Home::new();
    let server = Server::start(&home.data);
    home.file("numbers", numbers(SENT));
    let errors = home.path("errors");
    let snippet = at("http.md", "omelasticsearch", &server.address, &errors);
    let Some(_running) = rsyslog_with(&home, "omelasticsearch", &snippet) else {
        return;
    };
    let stored = through_a_kill(&home, server);
    // `queue.dequeueBatchSize`, which is 1,024 of the main queue.
    assert_few_twice(&stored, 1024);
}

#[test]
fn syslog_ng_posts_through_a_kill() {
    let home = Home::new();
    let server = Server::start(&home.data);
    home.file("numbers", numbers(SENT));
    let snippet = at("http.md", "d_http", &server.address, "");
    let Some(_running) = run_syslog_ng(&home, "d_http", &snippet, Some("libhttp.so")) else {
        return;
    };
    let stored = through_a_kill(&home, server);
    assert_few_twice(&stored, 500);
}

#[test]
fn rsyslog_loses_nothing_when_it_is_killed() {
    let home = Home::new();
    let server = Server::start(&home.data);
    home.file("numbers", numbers(SENT));
    let snippet = at(
        "http.md",
        "omelasticsearch",
        &server.address,
        &home.path("errors"),
    );
    through_a_kill_of_the_client(&server, || rsyslog_with(&home, "omelasticsearch", &snippet));
}

#[test]
fn syslog_ng_loses_nothing_when_it_is_killed() {
    let home = Home::new();
    let server = Server::start(&home.data);
    home.file("numbers", numbers(SENT));
    let snippet = at("http.md", "d_http", &server.address, "");
    let start = || run_syslog_ng(&home, "d_http", &snippet, Some("libhttp.so"));
    through_a_kill_of_the_client(&server, start);
}
