//! Ten lines of each dialect in the form that its documentation gives, with the time of each.

use serde_json::{Value, json};

/// The name of a dialect, what its lines have in common, and of each line its own fields and its
/// time. A field of a line that is `null` is one that the line does not have.
pub(super) type Dialect = (&'static str, Value, Vec<(Value, &'static str)>);

const NINE: &str = "2026-05-01T09:00:00Z";

pub(super) fn all() -> Vec<Dialect> {
    vec![
        ecs(),
        journald(),
        traefik(),
        traefik_by_start(),
        caddy(),
        bunyan(),
        pino(),
        docker(),
        zap(),
    ]
}

fn ecs() -> Dialect {
    let common = json!({ "@timestamp": "2026-05-01T09:00:00.5Z", "log.level": "info",
        "message": "started", "ecs.version": "8.11.0" });
    let half = "2026-05-01T09:00:00.500000Z";
    let lines = vec![
        (
            json!({ "process": { "pid": 7, "thread": { "name": "main" } } }),
            half,
        ),
        (
            json!({ "@timestamp": "2026-05-01T11:00:00.000+02:00", "ecs.version": "1.6.0" }),
            NINE,
        ),
        (
            json!({ "log.level": "ERROR", "error.type": "io", "error.message": "broken pipe",
            "error.stack_trace": "at a\n\tat b" }),
            half,
        ),
        (
            json!({ "service.name": "shop", "service.environment": "live", "labels": { "team": "a" } }),
            half,
        ),
        (
            json!({ "http": { "request": { "method": "GET" }, "response": { "status_code": 503 } },
            "url": { "path": "/a", "query": "b=c" } }),
            half,
        ),
        (
            json!({ "log.level": null, "log": { "level": "warn", "logger": "a.b.C" } }),
            half,
        ),
        (
            json!({ "ecs.version": null, "ecs": { "version": "8.17.0" }, "event": { "duration": 1_500_000 } }),
            half,
        ),
        (
            json!({ "tags": ["a", "b"], "event.dataset": "shop.log" }),
            half,
        ),
        (
            json!({ "trace.id": "4bf92f3577b34da6", "transaction.id": "00f067aa", "span": { "id": "b9c7" } }),
            half,
        ),
        (
            json!({ "@timestamp": "2026-05-01T09:00:00.123456789Z", "message": "grüße \"an\" alle" }),
            "2026-05-01T09:00:00.123456Z",
        ),
    ];
    ("ECS", common, lines)
}

fn journald() -> Dialect {
    let common = json!({ "__CURSOR": "s=e9;i=3", "__REALTIME_TIMESTAMP": "1777626000000001",
        "__MONOTONIC_TIMESTAMP": "712345", "_BOOT_ID": "a1", "MESSAGE": "Started a unit.", "_HOSTNAME": "web1" });
    let time = "2026-05-01T09:00:00.000001Z";
    let lines = vec![
        (
            json!({ "_PID": "184", "PRIORITY": "6", "MESSAGE": [72, 105] }),
            time,
        ),
        (
            json!({ "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel" }),
            time,
        ),
        (
            json!({ "MESSAGE": "one line\nand another", "PRIORITY": "3" }),
            time,
        ),
        (
            json!({ "UNIT": "nginx.service", "_SYSTEMD_UNIT": "init.scope", "_UID": "0", "_GID": "0" }),
            time,
        ),
        // A field that an entry has twice, and one that is too long to be shown.
        (
            json!({ "OBJECT": ["first", "second"], "COREDUMP": null }),
            time,
        ),
        (
            json!({ "__REALTIME_TIMESTAMP": "1777626000000000", "MESSAGE": "" }),
            NINE,
        ),
        (
            json!({ "_SOURCE_REALTIME_TIMESTAMP": "1777625999999000", "SYSLOG_PID": "7" }),
            time,
        ),
        (
            json!({ "CODE_FILE": "src/a.c", "CODE_LINE": "12", "CODE_FUNC": "main" }),
            time,
        ),
        (
            json!({ "MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf", "JOB_RESULT": "done" }),
            time,
        ),
        (
            json!({ "CONTAINER_NAME": "shop", "CONTAINER_TAG": "a/b:1", "MESSAGE": "{\"a\":1}" }),
            time,
        ),
    ];
    ("journald", common, lines)
}

fn traefik() -> Dialect {
    let common = json!({ "StartUTC": "2026-05-01T08:59:59.123456789Z", "RequestMethod": "GET",
        "RequestPath": "/", "Duration": 1_234_567, "DownstreamStatus": 200, "level": "info", "msg": "",
        "time": "2026-05-01T09:00:00Z" });
    let lines = vec![
        (
            json!({ "ClientAddr": "192.0.2.7:51000", "ClientHost": "192.0.2.7", "ClientPort": "51000" }),
            NINE,
        ),
        (
            json!({ "ClientUsername": "-", "ServiceURL": "http://10.0.0.1:80", "ServiceName": "a@docker" }),
            NINE,
        ),
        (
            json!({ "OriginStatus": 0, "DownstreamStatus": 502, "OriginDuration": 0, "Overhead": 77 }),
            NINE,
        ),
        (
            json!({ "RequestMethod": "POST", "RequestContentSize": 512, "RetryAttempts": 2 }),
            NINE,
        ),
        (
            json!({ "request_User-Agent": "curl/8.5.0", "downstream_Content-Type": "text/html" }),
            NINE,
        ),
        (
            json!({ "entryPointName": "websecure", "TLSVersion": "1.3", "TLSCipher": "TLS_AES_128_GCM_SHA256" }),
            NINE,
        ),
        (
            json!({ "RequestHost": "[2001:db8::1]", "RequestPort": "-", "RequestProtocol": "HTTP/2.0" }),
            NINE,
        ),
        (
            json!({ "time": "2026-05-01T11:00:00+02:00", "RequestCount": 9_007_199_254_740_993_i64 }),
            NINE,
        ),
        (
            json!({ "RequestPath": "/a?b=c&d=%22", "RouterName": "shop@file", "StartLocal": "2026-05-01T10:59:59.1+02:00" }),
            NINE,
        ),
        (
            json!({ "RequestScheme": "https", "GzipRatio": 2.5, "OriginContentSize": 100 }),
            NINE,
        ),
    ];
    ("Traefik (access log)", common, lines)
}

/// Its fields can be chosen, and the time be left out.
fn traefik_by_start() -> Dialect {
    let common = json!({ "StartUTC": "2026-05-01T08:59:59.123456789Z", "RequestMethod": "GET", "Duration": 1_234_567 });
    let lines = vec![(json!({}), "2026-05-01T08:59:59.123456Z")];
    ("Traefik (access log)", common, lines)
}

fn caddy() -> Dialect {
    let common = json!({ "level": "info", "ts": 1_777_626_000.25, "logger": "http.log.access",
        "msg": "handled request", "request": { "method": "GET", "uri": "/" }, "duration": 0.001,
        "size": 12, "status": 200 });
    let quarter = "2026-05-01T09:00:00.250000Z";
    let lines = vec![
        (
            json!({ "request": { "remote_ip": "192.0.2.7", "remote_port": "51000", "client_ip": "192.0.2.7",
            "proto": "HTTP/2.0", "method": "GET", "host": "example.org", "uri": "/a?b=c" } }),
            quarter,
        ),
        (
            json!({ "logger": "http.log.access.log0", "user_id": "ann" }),
            quarter,
        ),
        (
            json!({ "request": { "method": "GET", "uri": "/", "headers": { "User-Agent": ["curl/8.5.0"] } } }),
            quarter,
        ),
        (
            json!({ "resp_headers": { "Server": ["Caddy"], "Content-Type": ["text/html", "charset=utf-8"] } }),
            quarter,
        ),
        (
            json!({ "request": { "method": "GET", "uri": "/", "tls": { "resumed": false, "version": 772,
            "cipher_suite": 4865, "proto": "h2", "server_name": "example.org" } } }),
            quarter,
        ),
        (
            json!({ "level": "error", "status": 502, "bytes_read": 0 }),
            quarter,
        ),
        (json!({ "ts": 1_777_626_000, "duration": 0 }), NINE),
        (
            json!({ "ts": 1_777_626_000.000_001, "size": 4_294_967_296_i64 }),
            "2026-05-01T09:00:00.000001Z",
        ),
        (
            json!({ "request": { "method": "PUT", "uri": "/%C3%BC", "remote_ip": "2001:db8::1" } }),
            quarter,
        ),
        (
            json!({ "duration": 1.5e-5, "bytes_read": 33, "status": 304, "size": 0 }),
            quarter,
        ),
    ];
    ("Caddy (access log)", common, lines)
}

fn bunyan() -> Dialect {
    let common = json!({ "name": "app", "hostname": "web1", "pid": 7, "level": 30, "msg": "started",
        "time": "2026-05-01T09:00:00.001Z", "v": 0 });
    let time = "2026-05-01T09:00:00.001000Z";
    let lines = vec![
        (json!({}), time),
        (json!({ "level": 10, "msg": "" }), time),
        (
            json!({ "level": 60, "err": { "name": "Error", "message": "gone", "stack": "Error: gone\n    at x" } }),
            time,
        ),
        (
            json!({ "component": "store", "widget_type": "wuzzle" }),
            time,
        ),
        (
            json!({ "req": { "method": "GET", "url": "/a?b=c", "headers": { "host": "h" }, "remotePort": 51000 } }),
            time,
        ),
        (
            json!({ "res": { "statusCode": 200, "header": "HTTP/1.1 200 OK\r\n" }, "level": 40 }),
            time,
        ),
        (
            json!({ "src": { "file": "/app/a.js", "line": 20, "func": "run" } }),
            time,
        ),
        (
            json!({ "time": "2026-05-01T09:00:00Z", "pid": 2_147_483_648_i64 }),
            NINE,
        ),
        (
            json!({ "time": "2026-05-01T11:00:00.001+02:00", "tags": ["a", 1, null] }),
            time,
        ),
        (
            json!({ "msg": "two\nlines \u{1f600}", "level": 35, "latency": 0.25, "is_cached": true }),
            time,
        ),
    ];
    ("bunyan", common, lines)
}

fn pino() -> Dialect {
    let common = json!({ "level": 30, "time": 1_777_626_000_123_i64, "pid": 7, "hostname": "web1", "msg": "started" });
    let time = "2026-05-01T09:00:00.123000Z";
    let lines = vec![
        (
            json!({ "level": 50, "msg": "failed", "err": { "type": "Error", "message": "gone", "stack": "at x" } }),
            time,
        ),
        (json!({ "level": 60, "msg": "" }), time),
        (json!({ "name": "shop" }), time),
        (json!({ "msg": null, "a": 1 }), time),
        (
            json!({ "req": { "id": 1, "method": "GET", "url": "/", "remoteAddress": "::1" }, "responseTime": 3 }),
            time,
        ),
        (
            json!({ "res": { "statusCode": 500, "headers": { "x": ["1", "2"] } }, "level": 40 }),
            time,
        ),
        (
            json!({ "time": 1_777_626_000_000_i64, "module": "child" }),
            NINE,
        ),
        (
            json!({ "nested": { "deep": { "er": [1, { "a": 2 }] } } }),
            time,
        ),
        (json!({ "level": 20, "msg": "grüße \"an\" alle\n" }), time),
        (
            json!({ "password": "[Redacted]", "ok": false, "share": 0.5 }),
            time,
        ),
    ];
    ("pino", common, lines)
}

fn docker() -> Dialect {
    let common =
        json!({ "log": "started\n", "stream": "stdout", "time": "2026-05-01T09:00:00.123456789Z" });
    let time = "2026-05-01T09:00:00.123456Z";
    let lines = vec![
        (json!({ "stream": "stderr" }), time),
        // A line of more than 16 KiB comes in pieces, of which only the last ends.
        (json!({ "log": "a piece" }), time),
        (json!({ "log": "\n" }), time),
        (json!({ "log": "{\"level\":\"info\"}\n" }), time),
        (json!({ "log": "\u{1b}[32mgreen\u{1b}[0m\r\n" }), time),
        (json!({ "attrs": { "tag": "shop/1", "env": "live" } }), time),
        (json!({ "time": "2026-05-01T09:00:00Z" }), NINE),
        (
            json!({ "time": "2026-05-01T09:00:00.1Z", "log": "\tat a.b(C.java:7)\n" }),
            "2026-05-01T09:00:00.100000Z",
        ),
        (
            json!({ "log": "\u{fffd}grüße\n", "stream": "stderr" }),
            time,
        ),
        (
            json!({ "log": "192.0.2.7 - - [01/May/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n" }),
            time,
        ),
    ];
    ("Docker (json-file)", common, lines)
}

fn zap() -> Dialect {
    let common =
        json!({ "level": "info", "ts": 1_777_626_000.5, "caller": "a/b.go:7", "msg": "slow" });
    let half = "2026-05-01T09:00:00.500000Z";
    let lines = vec![
        (json!({ "level": "warn", "took": 1.5 }), half),
        (
            json!({ "level": "error", "error": "gone", "stacktrace": "main.run\n\t/a/b.go:7" }),
            half,
        ),
        (json!({ "level": "debug", "logger": "shop.store" }), half),
        (json!({ "level": "dpanic", "msg": "" }), half),
        (
            json!({ "ts": 1_777_626_000, "attempt": 3, "backoff": "1s" }),
            NINE,
        ),
        (
            json!({ "ts": 1_777_626_000.123_456_7, "url": "http://example.org" }),
            "2026-05-01T09:00:00.123456Z",
        ),
        (
            json!({ "errors": [{ "error": "a" }, { "error": "b" }] }),
            half,
        ),
        (json!({ "request": { "method": "GET", "size": 7 } }), half),
        (
            json!({ "level": "fatal", "caller": "net/http/server.go:3086", "ok": true }),
            half,
        ),
        (
            json!({ "big": 9_007_199_254_740_993_i64, "text": "grüße\tan\u{0}alle" }),
            half,
        ),
    ];
    ("zap", common, lines)
}
