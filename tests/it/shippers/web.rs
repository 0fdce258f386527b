//! rsyslog and syslog-ng over HTTP, configured by the snippets of `docs/shippers/http.md`, while
//! the server or the client is killed.

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

/// Waits for all messages. Returns how often each is stored.
fn wait_for_all(server: &Server) -> BTreeMap<String, u64> {
    let stored = wait_for_numbers(server, "syslog", SENT);
    let quarantined = server.number("SELECT count(*) AS n FROM system.quarantine");
    assert_eq!(quarantined, 0);
    assert_eq!(stored.len(), SENT);
    stored
}

/// Returns a block of the page, with the port of the server.
fn at(server: &Server, contains: &str) -> String {
    let (_, port) = server.address.rsplit_once(':').expect("an address");
    let block = snippet("http.md", contains);
    assert!(block.contains("7070"), "{block}");
    block.replace("7070", port)
}

/// Starts rsyslog, if it and its module are installed.
fn start_rsyslog(home: &Home, server: &Server) -> Option<Background> {
    let program = installed("rsyslogd")?;
    if !is_there("rsyslog/omelasticsearch.so") {
        println!("skipped: rsyslog-elasticsearch is not installed");
        return None;
    }
    let errors = home.path("errors");
    let snippet = at(server, "omelasticsearch").replace("/var/log/rsyslog-errors.json", &errors);
    Some(rsyslog(&program, home, &snippet))
}

/// Starts syslog-ng, if it and its module are installed.
fn start_syslog_ng(home: &Home, server: &Server) -> Option<Background> {
    run_syslog_ng(home, "d_http", &at(server, "d_http"), Some("libhttp.so"))
}

type Start = fn(&Home, &Server) -> Option<Background>;

/// Kills the server when the first messages are stored, and starts it again. Without keys, the
/// messages of a request whose answer was lost are stored twice: `batch` of them at most.
fn through_a_kill_of_the_server(start: Start, batch: usize) {
    let home = Home::new();
    let server = Server::start(&home.data);
    home.file("numbers", numbers(SENT));
    let Some(_running) = start(&home, &server) else {
        return;
    };
    wait_for_the_first(&server);
    let address = server.address.clone();
    server.kill();
    let server = Server::start_at(&home.data, &address, &[]);
    let stored = wait_for_all(&server);
    let twice = stored.values().filter(|times| **times == 2).count();
    assert!(stored.values().all(|times| *times <= 2));
    assert!(twice <= batch, "{twice} messages are stored twice");
    println!("{SENT} messages, {twice} stored twice");
}

/// Kills the client when the first messages are stored, and starts it again: it sends what it does
/// not remember to have sent, and nothing is missing.
fn through_a_kill_of_the_client(start: Start) {
    let home = Home::new();
    let server = Server::start(&home.data);
    home.file("numbers", numbers(SENT));
    let Some(first) = start(&home, &server) else {
        return;
    };
    wait_for_the_first(&server);
    drop(first);
    let _second = start(&home, &server).expect("the client starts again");
    let again: u64 = wait_for_all(&server).values().map(|times| times - 1).sum();
    println!("{SENT} messages, {again} sent again");
}

#[test]
fn rsyslog_sends_to_bulk_through_a_kill() {
    // `queue.dequeueBatchSize`, which is 1,024 of the main queue.
    through_a_kill_of_the_server(start_rsyslog, 1024);
}

#[test]
fn syslog_ng_posts_through_a_kill() {
    through_a_kill_of_the_server(start_syslog_ng, 500);
}

#[test]
fn rsyslog_loses_nothing_when_it_is_killed() {
    through_a_kill_of_the_client(start_rsyslog);
}

#[test]
fn syslog_ng_loses_nothing_when_it_is_killed() {
    through_a_kill_of_the_client(start_syslog_ng);
}
