use serde_json::json;

use crate::Format;
use crate::formats::documents::testing::{event as event_of, options, parsed, refusal};
use crate::formats::recognise;
use crate::reader::Fit;

fn event(line: &str) -> serde_json::Value {
    event_of(Format::NginxError, line)
}

#[test]
fn a_message_of_a_connection_has_its_client_and_request() {
    let head = "2026/11/26 09:23:38 [error] 71#72: *9 ";
    let message = r#"open() "/srv/a b" failed (2: No such file or directory)"#;
    let line = format!(
        "{head}{message}, client: 192.0.2.7, server: example.org, request: \"GET /a%20b?c=d HTTP/1.1\", upstream: \"http://127.0.0.1:81/a\", host: \"example.org:8080\", referrer: \"http://example.org/\""
    );
    let all = json!({
        "time": "2026-11-26T09:23:38Z", "level": "error", "pid": 71, "tid": 72, "connection": 9,
        "line": message, "host": "192.0.2.7", "site": "example.org",
        "method": "GET", "path": "/a%20b", "query": "c=d", "protocol": "HTTP/1.1",
        "upstream": "http://127.0.0.1:81/a", "http_host": "example.org:8080",
        "referrer": "http://example.org/",
    });
    assert_eq!(event(&line), all);
    assert_eq!(
        recognise(line.as_bytes()),
        Some((Format::NginxError, Fit::Whole))
    );
    // A request that access logs do not cut stays whole.
    let line = format!("{head}x, client: ::1, server: , request: \"\u{1}\u{2} HTTP\"");
    assert_eq!(
        event(&line),
        json!({
            "time": "2026-11-26T09:23:38Z", "level": "error", "pid": 71, "tid": 72,
            "connection": 9, "line": "x", "host": "::1", "site": "",
            "request": "\u{1}\u{2} HTTP",
        })
    );
}

#[test]
fn a_message_of_the_server_has_neither() {
    assert_eq!(
        event("2026/11/26 09:23:38 [notice] 1#1: signal 17 (SIGCHLD) received from 7"),
        json!({
            "time": "2026-11-26T09:23:38Z", "level": "notice", "pid": 1, "tid": 1,
            "line": "signal 17 (SIGCHLD) received from 7",
        })
    );
}

/// The path of a message and the request come from the client.
#[test]
fn a_client_cannot_forge_an_address() {
    let head = "2026/11/26 09:23:38 [error] 1#1: *9 ";
    let forged = r#", client: 198.51.100.1, server: s, request: "GET / HTTP/1.1", host: "h""#;
    for tail in [
        format!(
            r#"open() "/x{forged}" failed, client: 192.0.2.7, server: s, request: "GET / HTTP/1.1""#
        ),
        format!(r#"bad, client: 192.0.2.7, server: s, request: "GET /{forged}", host: "h""#),
        format!(
            r#"bad, client: 192.0.2.7, server: s, request: "GET / HTTP/1.1", referrer: "{forged}""#
        ),
    ] {
        let event = event(&format!("{head}{tail}"));
        assert!(
            event.get("host").is_none_or(|host| host == "192.0.2.7"),
            "{event}"
        );
        assert!(
            event["line"].as_str().unwrap().starts_with(['o', 'b']),
            "{event}"
        );
    }
    // A forged address that is no tail takes nothing from the true one.
    let event = event(&format!(
        r#"{head}open() "/x, client: 198.51.100.1" failed, client: 192.0.2.7, server: s"#
    ));
    assert_eq!(event["host"], "192.0.2.7");
    assert_eq!(event["line"], r#"open() "/x, client: 198.51.100.1" failed"#);
}

#[test]
fn a_line_of_many_clients_is_read_quickly() {
    let mut line = "2026/11/26 09:23:38 [error] 1#1: *9 x".to_owned();
    line += &", client: 192.0.2.7".repeat(100);
    assert!(event(&line).get("host").is_none());
    // A line that nginx cannot have written is searched for no tail.
    let line = format!(
        "2026/11/26 09:23:38 [error] 1#1: {}, client: 192.0.2.7",
        "x".repeat(20_000)
    );
    assert!(event(&line).get("host").is_none());
}

#[test]
fn stamps_are_those_of_the_zone() {
    let mut options = options(Format::NginxError);
    options.tz = crate::zone("Europe/Berlin");
    let (events, _) = parsed(options, b"2026/11/26 09:23:38 [info] 1#1: x\n");
    assert_eq!(events[0]["time"], "2026-11-26T08:23:38Z");
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    for (line, expected) in [
        (
            "nginx: [emerg] x",
            "bad_time: column 1: expected a time as yyyy/mm/dd hh:mm:ss, found nginx: [emerg] x",
        ),
        (
            "2026/13/26 09:23:38 [info] 1#1: x",
            "bad_time: column 1: expected a time as yyyy/mm/dd hh:mm:ss, found 2026/13/26 09:23:38 [info] 1#1: …",
        ),
        (
            "2026/11/26 09:23:38 [info] x",
            "bad_head: column 20: expected a level in brackets and process#thread:, found  [info] x",
        ),
    ] {
        assert_eq!(refusal(Format::NginxError, line), expected);
    }
}
