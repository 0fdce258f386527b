//! Tails over several servers: each event once, and no server is left out silently.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{patiently, three};
use crate::loki::socket::Socket;
use crate::support::{Home, PAST_S, Server, line};

/// Time of a tail. Its comments come even where events do not.
const TAIL_MAX: Duration = Duration::from_secs(120);
/// Rounds of each sender beside a tail that begins.
const ROUNDS: usize = 60;

/// Follows a stream; returns what comes, each with its kind: `event`, `missed` or `error`.
pub(crate) fn follow(
    server: &Server,
    query: &str,
) -> impl Iterator<Item = (String, Value)> + use<> {
    let mut socket = TcpStream::connect(&server.address).expect("the server listens");
    let within = socket.set_read_timeout(Some(TAIL_MAX));
    within.expect("a socket that can wait");
    let host = &server.address;
    write!(
        socket,
        "GET /api/v1/tail?{query} HTTP/1.1\r\nHost: {host}\r\n\r\n"
    )
    .expect("the server reads");
    let until = Instant::now() + TAIL_MAX;
    let lines = BufReader::new(socket).lines();
    let mut lines = lines
        .map_while(Result::ok)
        .take_while(move |_| Instant::now() < until);
    let status = lines.next().expect("a status");
    assert!(status.contains(" 200 "), "{status}");
    let begun = lines.by_ref().find(|line| line == ": following");
    assert!(begun.is_some(), "the stream does not begin");
    let mut kind = "event".to_owned();
    lines.filter_map(move |line| {
        if let Some(named) = line.strip_prefix("event: ") {
            named.clone_into(&mut kind);
        }
        let data = line.strip_prefix("data: ")?;
        let data = serde_json::from_str(data).expect("JSON");
        Some((std::mem::replace(&mut kind, "event".to_owned()), data))
    })
}

fn event(path: &str, status: u16) -> String {
    line("203.0.113.9", PAST_S, path, status, 1)
}

#[test]
fn a_tail_has_the_events_of_all_servers_that_pass() {
    let all = three();
    let servers = [&all.front, &all.first, &all.second];
    patiently(|| all.front.post("/api/v1/sql", &[], b"SELECT 1"));
    // A column that one store alone has.
    let note =
        |level: &str| format!("{{\"time\":\"2026-11-01T00:00:00Z\",\"level\":\"{level}\"}}\n");
    all.second.ingest("notes", note("info"));
    let mut errors = follow(&all.front, "stream=access&where=status%20%3E%3D%20500");
    let mut notes = follow(&all.front, "stream=notes&where=level%20%3D%20%27bad%27");
    let lines = "/loki/api/v1/tail?query=%7Bstream%3D%22access%22%7D%20%7C%3D%20%22%2Fnew%22";
    let mut socket = Socket::connect(&all.front, lines, &[]).unwrap_or_else(|e| panic!("{e:?}"));
    // Only the second store has one of these streams now, and another comes to the first.
    let selected = "/loki/api/v1/tail?query=%7Bstream%3D~%22not.%2B%22%7D%20%7C%3D%20%22bad%22";
    let mut others = Socket::connect(&all.front, selected, &[]).unwrap_or_else(|e| panic!("{e:?}"));
    all.first.ingest("notices", note("bad"));
    for (nth, server) in servers.into_iter().enumerate() {
        server.ingest("access", event(&format!("/new/{nth}"), 500));
        server.ingest("access", event("/new/good", 200));
        server.ingest("notes", note("info") + &note("bad"));
    }
    let mut paths: Vec<String> = errors
        .by_ref()
        .take(3)
        .map(|(_, event)| event["path"].to_string())
        .collect();
    paths.sort();
    assert_eq!(paths, ["\"/new/0\"", "\"/new/1\"", "\"/new/2\""]);
    let found: Vec<(String, Value)> = notes.by_ref().take(3).collect();
    for (kind, note) in found {
        assert_eq!((&*kind, &note["level"]), ("event", &json!("bad")));
    }
    let mut seen = 0;
    while seen < 6 {
        seen += socket.message().to_string().matches("/new/").count();
    }
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let message = others.message();
        for stream in message["streams"].as_array().into_iter().flatten() {
            let lines = stream["values"].as_array().map_or(0, Vec::len);
            let name = stream["stream"]["stream"].as_str().expect("a name");
            seen.extend(std::iter::repeat_n(name.to_owned(), lines));
        }
    }
    seen.sort();
    assert_eq!(seen, ["notes", "notes", "notes", "notices"]);
    let wrong = all
        .front
        .get("/api/v1/tail?stream=access&where=colour%20%3D%201");
    let told = wrong.status(400).text();
    assert!(told.contains("colour"), "{told}");
    all.front.get("/api/v1/tail?stream=nowhere").status(404);
    // Followers keep no server from stopping.
    let super::Three { first, front, .. } = all;
    assert_eq!(first.stop(), Some(0));
    assert_eq!(front.stop(), Some(0));
}

/// The events from before and the following ones leave no gap, and none comes twice.
#[test]
fn a_tail_begins_in_the_midst_of_events_of_all_servers() {
    let all = three();
    patiently(|| all.front.post("/api/v1/sql", &[], b"SELECT 1"));
    let found = thread::scope(|scope| {
        for (nth, server) in [&all.front, &all.first, &all.second]
            .into_iter()
            .enumerate()
        {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    server.ingest("access", event(&format!("/{nth}/{round}"), 200));
                }
            });
        }
        thread::sleep(Duration::from_millis(100));
        let mut found: BTreeMap<String, u32> = BTreeMap::new();
        for (kind, event) in follow(&all.front, "stream=access&last=1000") {
            assert_eq!(kind, "event", "{event}");
            let path = event["path"].as_str().expect("a path").to_owned();
            if !path.starts_with("/of/") {
                *found.entry(path).or_default() += 1;
            }
            if found.len() == 3 * ROUNDS {
                break;
            }
        }
        found
    });
    assert_eq!(found.len(), 3 * ROUNDS, "some are missing");
    let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn a_tail_goes_on_with_a_peer_that_is_back_and_ends_without_one_that_is_gone() {
    let (home, front) = (Home::new(), Home::new());
    let peer = Server::start(&home.data);
    peer.ingest("access", event("/before", 200));
    let (address, url) = (peer.address.clone(), peer.url.clone());
    let front = Server::start_over(&front.data, &[&url]);
    let mut tail = follow(&front, "stream=access");
    peer.kill();
    let again = Server::start_at(&home.data, &address, &[]);
    let (kind, _) = tail.next().expect("told");
    assert_eq!(kind, "missed");
    again.ingest("access", event("/after", 200));
    front.ingest("access", event("/after", 200));
    for _ in 0..2 {
        let (kind, event) = tail.next().expect("an event");
        assert_eq!((&*kind, &event["path"]), ("event", &json!("/after")));
    }
    again.kill();
    let began = Instant::now();
    let (kind, error) = tail.next().expect("told");
    assert_eq!(kind, "error", "{error}");
    assert!(error.to_string().contains(&url), "{error}");
    assert!(began.elapsed() > Duration::from_secs(5), "at once");
    assert_eq!(tail.next(), None);
    let refused = front.get("/api/v1/tail?stream=access").status(503).text();
    assert!(refused.contains(&url), "{refused}");
}
