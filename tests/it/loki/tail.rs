//! Live tail over a WebSocket: Grafana's `LiveStreams.ts`.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::socket::{Frame, Socket};
use super::{access, call};
use crate::support::{Home, PAST_S, Server, line, run};

/// Returns the paths of the lines in a message.
fn paths(message: &Value) -> Vec<String> {
    let streams = message["streams"].as_array().expect("streams").iter();
    let values = streams.flat_map(|s| s["values"].as_array().expect("values"));
    let mut found: Vec<(String, String)> = values
        .map(|value| {
            let line = value[1].as_str().expect("a line");
            let line: Value = serde_json::from_str(line).expect("JSON");
            let ns = value[0].as_str().expect("nanoseconds").to_owned();
            (ns, line["path"].as_str().expect("a path").to_owned())
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, path)| path).collect()
}

#[track_caller]
fn follow(server: &Server, parameters: &[(&str, &str)]) -> Socket {
    let path = call("tail", parameters);
    match Socket::connect(server, &path, &[]) {
        Ok(socket) => socket,
        Err((status, body)) => panic!("{status}: {body}"),
    }
}

#[test]
fn new_lines_arrive_once_after_those_from_before() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("web", access(0..10));
    server.seal();
    server.ingest("web", access(10..12));
    let query = r#"{stream="web"} |= "/page/1""#;
    let mut socket = follow(&server, &[("query", query), ("start", "0"), ("limit", "3")]);
    let first = socket.message();
    // Events 4, 7 and 10 are the newest three of page 1.
    assert_eq!(paths(&first), ["/page/1"; 3]);
    assert_eq!(first["dropped_entries"], json!([]));
    server.ingest("web", access(12..18));
    let next = socket.message();
    assert_eq!(paths(&next), ["/page/1"; 2]);
    let labels = &next["streams"][0]["stream"];
    assert_eq!(
        (&labels["stream"], &labels["path"]),
        (&json!("web"), &json!("/page/1"))
    );
    // A line that does not pass, and one of another stream.
    server.ingest("web", access(18..19));
    server.ingest("db", access(19..20));
    assert!(socket.is_silent(Duration::from_millis(300)));
    // A column that the stream did not have before.
    server.ingest("docs?format=json", "{\"line\":\"a\",\"level\":\"info\"}\n");
    let docs = [
        ("query", r#"{level="warn"} | extra > 1"#),
        ("start", "4000000000"),
    ];
    let mut docs = follow(&server, &docs);
    server.ingest(
        "docs?format=json",
        "{\"line\":\"b\",\"level\":\"warn\",\"extra\":2}\n{\"line\":\"c\",\"level\":\"warn\",\"extra\":1}\n",
    );
    let message = docs.message();
    assert_eq!(message["streams"][0]["values"][0][1], "b");
    assert_eq!(message["streams"].as_array().map(Vec::len), Some(1));
    // The client says goodbye.
    socket.send(8, &[3, 232]);
    while socket.frame() == Frame::Ping {}
}

#[test]
fn a_stopping_server_ends_its_tails() {
    let home = Home::new();
    let mut server = Server::start(&home.data);
    server.ingest("web", access(0..1));
    let mut socket = follow(&server, &[("query", "{}"), ("start", "4000000000")]);
    server.ingest("web", access(1..2));
    assert_eq!(paths(&socket.message()), ["/page/1"]);
    server.signal(Signal::TERM);
    let mut last = socket.frame();
    while last == Frame::Ping {
        last = socket.frame();
    }
    assert_eq!(last, Frame::Close(1001, "the server stops".to_owned()));
    assert_eq!(server.ended(crate::support::PATIENCE), 0);
}

#[test]
fn a_tail_obeys_rights_origins_and_limits() {
    let home = Home::new();
    let server = Server::start_with(&home.data, &[("LOGMILL_SERVER__TAILS_MAX", "2")]);
    for stream in ["web", "db"] {
        server.ingest(stream, access(0..3));
    }
    let path = |query: &str| call("tail", &[("query", query), ("start", "4000000000")]);
    let all = path("{}");
    let refused = |path: &str, headers: &[&str]| match Socket::connect(&server, path, headers) {
        Ok(_) => panic!("{path} is open"),
        Err((status, body)) => {
            let body: Value = serde_json::from_str(&body).expect("JSON");
            (
                status,
                body["message"].as_str().expect("a message").to_owned(),
            )
        }
    };
    assert_eq!(refused(&all, &["Origin: http://evil.example"]).0, 403);
    assert_eq!(refused(&all, &["Sec-Fetch-Site: cross-site"]).0, 403);
    assert_eq!(refused(&path("rate({}[1m])"), &[]).0, 400);
    assert_eq!(refused(&path("{stream=\"nothing\"}"), &[]).0, 400);
    assert!(refused(&path("{} | unpack"), &[]).1.contains("unpack"));
    let later = call("tail", &[("query", "{}"), ("delay_for", "6")]);
    assert!(refused(&later, &[]).1.contains("delay_for"));
    let plain = server.get(&all);
    assert!((400..500).contains(&plain.status), "{}", plain.text());
    let open: Vec<Socket> = (0..2)
        .map(|_| follow(&server, &[("query", "{}")]))
        .collect();
    let (status, told) = refused(&all, &[]);
    assert!(
        status == 503 && told.contains("limit of open tails"),
        "{told}"
    );
    drop(open);

    let made = run(&[
        "token", "create", "own", "--role", "read", "--stream", "web", "--data", &home.data,
        "--output", "json",
    ]);
    let token = made.code(0).json();
    let token = token["token"].as_str().expect("a token");
    assert_eq!(refused(&all, &[]).0, 401);
    let header = format!("Authorization: Bearer {token}");
    assert_eq!(refused(&path(r#"{stream="db"}"#), &[&header]).0, 400);
    // The places of the two tails from before are free once the server has seen their end.
    let mut own = loop {
        match Socket::connect(&server, &all, &[&header]) {
            Ok(socket) => break socket,
            Err((status, body)) => assert!(matches!(status, 429 | 503), "{status} {body}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let writer = run(&[
        "token", "create", "writer", "--role", "ingest", "--data", &home.data, "--output", "json",
    ]);
    let writer = writer.code(0).json();
    let writer = format!("Bearer {}", writer["token"].as_str().expect("a token"));
    for stream in ["db", "web"] {
        let path = format!("/api/v1/ingest/{stream}");
        let headers = [("Authorization", writer.as_str())];
        server
            .post(&path, &headers, access(5..6).as_bytes())
            .status(200);
    }
    let message = own.message();
    assert_eq!(message["streams"][0]["stream"]["stream"], "web");
    assert!(own.is_silent(Duration::from_millis(300)), "lines of db");
    run(&["token", "revoke", "own", "--data", &home.data]).code(0);
    let mut last = own.frame();
    while last == Frame::Ping {
        last = own.frame();
    }
    let Frame::Close(1011, why) = &last else {
        panic!("{last:?}");
    };
    assert!(why.contains("the account of this tail"), "{why}");
}

#[test]
fn a_stream_that_appears_is_followed_from_its_first_line() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("web", access(0..3));
    let query = r#"{stream=~"web|new.*"}"#;
    let mut socket = follow(&server, &[("query", query), ("start", "4000000000")]);
    server.ingest("newer", access(0..2));
    server.ingest("other", access(0..2));
    let first = socket.message();
    assert_eq!(first["streams"][0]["stream"]["stream"], "newer");
    assert_eq!(paths(&first), ["/page/0", "/page/1"]);
    server.ingest("newer", access(2..3));
    assert_eq!(paths(&socket.message()), ["/page/2"]);
    assert!(socket.is_silent(Duration::from_millis(300)));
}

#[test]
fn a_client_that_reads_too_slowly_is_told_where_lines_are_missing() {
    /// Lines of a request, about 2.5 kB each in a message.
    const LINES: i64 = 500;
    /// More than the buffers of the connection and the feed hold together.
    const REQUESTS: i64 = 80;
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("web", access(0..1));
    let mut socket = follow(&server, &[("query", "{}"), ("start", "4000000000")]);
    let long = "x".repeat(1000);
    for request in 0..REQUESTS {
        let lines = (0..LINES).map(|nth| {
            let at_s = PAST_S + request * LINES + nth;
            line("203.0.113.9", at_s, &format!("/{long}"), 200, 1)
        });
        server.ingest("web", lines.collect::<String>());
    }
    // The last line comes when all others were sent or dropped.
    let (mut next_s, mut missed, mut was_dropped) = (PAST_S, 0, false);
    while next_s < PAST_S + REQUESTS * LINES {
        let message = socket.message();
        for entry in message["dropped_entries"].as_array().expect("a list") {
            assert_eq!(entry["labels"]["stream"], "web", "{entry}");
            let number = entry["labels"]["missed"].as_str().expect("a number");
            missed += number.parse::<i64>().expect("a number");
            let ns = entry["timestamp"].as_str().expect("a time");
            assert!(ns.parse::<i64>().is_ok_and(|ns| ns > 0), "{entry}");
            was_dropped = true;
        }
        let streams = message["streams"].as_array().expect("streams");
        let values = streams
            .iter()
            .flat_map(|s| s["values"].as_array().expect("values"));
        let times = values.map(|value| {
            let ns = value[0].as_str().expect("nanoseconds").parse::<i64>();
            ns.expect("a number") / 1_000_000_000
        });
        for at_s in times {
            assert!(
                at_s == next_s || (at_s > next_s && was_dropped),
                "{next_s}, then {at_s}"
            );
            (next_s, was_dropped) = (at_s + 1, false);
        }
        if was_dropped {
            server.ingest(
                "web",
                line("203.0.113.9", PAST_S + REQUESTS * LINES, "/", 200, 1),
            );
        }
    }
    assert!(missed > 0, "nothing was dropped");
}
