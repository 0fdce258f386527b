//! rsyslog and syslog-ng over HTTP, configured by the snippets of `docs/shippers/http.md`, while
//! the server or the client is killed.

use super::clients::{is_there, rsyslog, run_syslog_ng};
use super::kills::Way;
use super::{Background, installed, snippet};
use crate::support::{Home, Server};

/// Returns a block of the page, with the port of an address.
fn at(address: &str, contains: &str) -> String {
    let (_, port) = address.rsplit_once(':').expect("an address");
    let block = snippet("http.md", contains);
    assert!(block.contains("7070"), "{block}");
    block.replace("7070", port)
}

/// Starts rsyslog, if it and its module are installed.
fn start_rsyslog(home: &Home, address: &str) -> Option<Background> {
    let program = installed("rsyslogd")?;
    if !is_there("rsyslog/omelasticsearch.so") {
        println!("skipped: rsyslog-elasticsearch is not installed");
        return None;
    }
    let errors = home.path("errors");
    let snippet = at(address, "omelasticsearch").replace("/var/log/rsyslog-errors.json", &errors);
    Some(rsyslog(&program, home, &snippet))
}

/// Starts syslog-ng, if it and its module are installed.
fn start_syslog_ng(home: &Home, address: &str) -> Option<Background> {
    run_syslog_ng(home, "d_http", &at(address, "d_http"), Some("libhttp.so"))
}

fn serve(home: &Home, address: &str) -> (Server, String) {
    let server = Server::start_at(&home.data, address, &[]);
    let address = server.address.clone();
    (server, address)
}

fn way(start: &dyn Fn(&Home, &str) -> Option<Background>) -> Way<'_> {
    Way {
        stream: "syslog",
        serve: &serve,
        start,
    }
}

#[test]
fn rsyslog_sends_to_bulk_through_a_kill() {
    // `queue.dequeueBatchSize`, which is 1,024 of the main queue.
    way(&start_rsyslog).through_a_kill_of_the_server(1024);
}

#[test]
fn syslog_ng_posts_through_a_kill() {
    way(&start_syslog_ng).through_a_kill_of_the_server(500);
}

#[test]
fn rsyslog_loses_nothing_when_it_is_killed() {
    way(&start_rsyslog).through_a_kill_of_the_sender();
}

#[test]
fn syslog_ng_loses_nothing_when_it_is_killed() {
    way(&start_syslog_ng).through_a_kill_of_the_sender();
}
