use serde_json::json;

use crate::Format;
use crate::formats::documents::testing::{
    assert_fields, event as event_of, options, parsed, refusal,
};
use crate::formats::recognise;
use crate::reader::Fit;

const CLIENT: &str = "192.0.2.7:33317 [06/Feb/2026:12:14:14.655]";

fn event(line: &str) -> serde_json::Value {
    event_of(Format::Haproxy, line)
}

#[test]
fn a_line_of_http_has_every_field() {
    let line = format!(
        r#"Feb  6 12:14:14 lb1 haproxy[14389]: {CLIENT} http-in~ static/srv1 10/0/30/69/109 200 2750 c=1 - --NI 1/2/3/4/0 5/6 {{example.org|curl}} {{gzip}} "GET /a?b=c HTTP/1.1""#
    );
    assert_eq!(
        event(&line),
        json!({
            "time": "2026-02-06T12:14:14.655000Z", "hostname": "lb1", "app": "haproxy",
            "pid": 14389, "host": "192.0.2.7", "client_port": 33317, "frontend": "http-in",
            "tls": true, "backend": "static", "server": "srv1",
            "header_time_ms": 10, "queue_time_ms": 0, "connect_time_ms": 30,
            "response_time_ms": 69, "request_time_ms": 109, "status": 200, "bytes_sent": 2750,
            "request_cookie": "c=1", "termination_state": "--NI",
            "actconn": 1, "feconn": 2, "beconn": 3, "srv_conn": 4, "retries": 0,
            "srv_queue": 5, "backend_queue": 6,
            "captured_request_headers": "example.org|curl", "captured_response_headers": "gzip",
            "method": "GET", "path": "/a", "query": "b=c", "protocol": "HTTP/1.1",
        })
    );
    assert_eq!(
        recognise(line.as_bytes()),
        Some((Format::Haproxy, Fit::Whole))
    );
}

#[test]
fn a_line_of_tcp_has_every_field() {
    let line = format!("{CLIENT} fnt bck/srv1 0/3/5007 212 -- 1/2/3/4/5 6/7");
    assert_eq!(
        event(&line),
        json!({
            "time": "2026-02-06T12:14:14.655000Z", "host": "192.0.2.7", "client_port": 33317,
            "frontend": "fnt", "backend": "bck", "server": "srv1", "queue_time_ms": 0,
            "connect_time_ms": 3, "session_time_ms": 5007, "bytes_sent": 212,
            "termination_state": "--", "actconn": 1, "feconn": 2, "beconn": 3, "srv_conn": 4,
            "retries": 5, "srv_queue": 6, "backend_queue": 7,
        })
    );
    assert_eq!(
        recognise(line.as_bytes()),
        Some((Format::Haproxy, Fit::Whole))
    );
}

#[test]
fn lines_of_every_kind_are_read() {
    let behind = "- - ---- 1/1/1/1/0 0/0";
    let get = "\"GET / HTTP/1.1\"";
    for (line, expected) in [
        (
            format!("haproxy[1]: {CLIENT} f b/s 1/2/3/4/5 200 1 {behind} {get}"),
            json!({ "pid": 1, "app": "haproxy", "hostname": null, "request_time_ms": 5 }),
        ),
        (
            format!(
                "<134>Feb  6 12:14:15 haproxy[2]: {CLIENT} f b/s 1/2/3/4/5 200 1 {behind} {get}"
            ),
            json!({ "facility": "local0", "level": "info", "pid": 2, "status": 200 }),
        ),
        (
            format!(
                "<134>1 2026-02-06T12:14:15+01:00 lb haproxy 3 - - {CLIENT} f b/s 1/2/3/4/5 200 1 {behind} {get}"
            ),
            json!({ "hostname": "lb", "pid": 3, "time": "2026-02-06T12:14:14.655000Z" }),
        ),
        (
            format!(
                "2026-02-06T12:14:15+01:00 lb haproxy[4]: {CLIENT} f b/s 1/2/3/4/5 200 1 {behind} {get}"
            ),
            json!({ "hostname": "lb", "pid": 4, "host": "192.0.2.7" }),
        ),
        // No request, no server: every time is -1.
        (
            format!(
                "{CLIENT} f f/<NOSRV> -1/-1/-1/-1/10000 408 0 - - cR-- 2/2/0/0/0 0/0 \"<BADREQ>\""
            ),
            json!({ "header_time_ms": null, "response_time_ms": null, "request_time_ms": 10000,
                "server": "<NOSRV>", "request": "<BADREQ>", "method": null }),
        ),
        (
            format!("{CLIENT} f b/s 9/0/7/-1/+30 -1 +243 {behind} {get}"),
            json!({ "status": null, "request_time_ms": 30, "bytes_sent": 243, "logged_early": true,
                "redispatched": null }),
        ),
        (
            format!("{CLIENT} f b/s 0/0/+5007 +212 SD 1/1/1/1/+2 0/0"),
            json!({ "session_time_ms": 5007, "logged_early": true, "retries": 2,
                "redispatched": true, "termination_state": "SD" }),
        ),
        (
            format!("{CLIENT} f b/s 1/2/3/4/5 200 1 {behind} {{one}} {get}"),
            json!({ "captured_headers": "one", "captured_request_headers": null }),
        ),
        (
            format!(
                "2001:db8::7:443 [06/Feb/2026:12:14:14.655] f b/s 1/2/3/4/5 200 1 {behind} {get}"
            ),
            json!({ "host": "2001:db8::7", "client_port": 443 }),
        ),
        // HAProxy cuts off the end of the request and its quote.
        (
            format!("{CLIENT} f b/s 1/2/3/4/5 200 1 {behind} \"GET /long/pa"),
            json!({ "method": "GET", "path": "/long/pa", "protocol": null }),
        ),
        (
            format!(
                "{CLIENT} f b/s 1/2/3/4/5 200 1 {behind} {get} 0/0/0/0/1 example.org/TLSv1.3/X"
            ),
            json!({ "extra": "0/0/0/0/1 example.org/TLSv1.3/X" }),
        ),
        (
            format!("{CLIENT} f b/s 1/2/3/4/5 200 1 {behind} {{a b|}} {{}} {get}"),
            json!({ "captured_request_headers": "a b|", "captured_response_headers": "" }),
        ),
    ] {
        assert_fields(Format::Haproxy, &line, expected);
        assert_eq!(
            recognise(line.as_bytes()),
            Some((Format::Haproxy, Fit::Whole)),
            "{line}"
        );
    }
}

#[test]
fn stamps_are_those_of_the_zone() {
    let mut options = options(Format::Haproxy);
    options.tz = crate::zone("Europe/Berlin");
    let line = format!("{CLIENT} f b/s 0/0/7 1 -- 1/1/1/1/2 0/0\n");
    let (events, _) = parsed(options, line.as_bytes());
    assert_eq!(events[0]["time"], "2026-02-06T11:14:14.655000Z");
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    for (line, expected) in [
        (
            "haproxy[1]: Proxy f started.".to_owned(),
            "not_haproxy: column 13: expected an address and a port, found Proxy f started.",
        ),
        (
            "haproxy[1]: ::1:80 [06/Feb/2026] f b/s".to_owned(),
            "bad_time: column 20: expected a time as [06/Feb/2009:12:14:14.655], found [06/Feb/2026] f b/s",
        ),
        (
            format!("{CLIENT} f b/s 1/2 3"),
            "not_haproxy: column 50: expected the numbers [\"queue_time_ms\", \"connect_time_ms\", \"session_time_ms\"], found 1/2 3",
        ),
        (
            format!("{CLIENT} f b/s 1/2/3 4 ---- 1/1/1/1/1 0/0"),
            "not_haproxy: column 58: expected the state at the end, as ---- or --, found ---- 1/1/1/1/1 0/0",
        ),
        (
            format!("{CLIENT} f b/s 1/2/3/4/5 200 1 - - ---- 1/1/1/1/0 0/0 GET"),
            "not_haproxy: column 89: expected a request in quotes, found GET",
        ),
    ] {
        assert_eq!(refusal(Format::Haproxy, &line), expected);
    }
}

/// Most files of syslog hold more than requests.
#[test]
fn other_messages_behind_a_header_are_kept_with_its_time() {
    for (line, hostname, text) in [
        (
            "2026-02-06T12:14:14Z lb haproxy[1]: Proxy f started.",
            "lb",
            "Proxy f started.",
        ),
        (
            "2026-02-06T12:14:14Z db sshd[7]: Accepted key for root from ::1:80 port 22",
            "db",
            "Accepted key for root from ::1:80 port 22",
        ),
    ] {
        let expected = json!({ "hostname": hostname, "line": text });
        assert_fields(Format::Haproxy, line, expected);
        let (events, _) = parsed(options(Format::Haproxy), format!("{line}\n").as_bytes());
        assert_eq!(events[0]["time"], "2026-02-06T12:14:14Z");
        assert_eq!(
            crate::detect(line.as_bytes(), None).format,
            Some(Format::Syslog)
        );
    }
}
