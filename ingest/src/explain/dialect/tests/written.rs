//! Whole lines of each dialect, of what its programs seldom write.

use serde_json::{Value, json};

/// The name of a dialect, a line, and its time.
type Case = (&'static str, Value, &'static str);

const QUARTER: &str = "2026-05-01T09:00:00.250000Z";

pub(super) fn all() -> Vec<Case> {
    [
        of_services(),
        of_systems(),
        of_proxies(),
        of_scripts(),
        of_go(),
    ]
    .concat()
}

/// A level can be indented, and a stack trace be a list.
fn of_services() -> Vec<Case> {
    let with_dots = json!({
        "@timestamp": "2026-05-01T09:00:00.250Z", "log.level": " WARN", "message": "no answer",
        "ecs.version": "1.2.0", "service.name": "shop", "process.thread.name": "worker-1",
        "log.logger": "shop.Client", "error.type": "shop.Gone", "error.message": "<gone> & away",
        "error.stack_trace": ["shop.Gone: <gone>", "\tat shop.Client.run(Client.java:12)"],
        "log.origin": { "file.name": "Client.java", "file.line": 12, "function": "run" },
    });
    let nested = json!({
        "@timestamp": "2026-05-01T11:00:00.25+02:00", "message": "", "labels": {},
        "log": { "level": "info", "syslog": { "priority": 14 } }, "error": null,
        "event": { "duration": 18_446_744_073_709_551_615_u64, "outcome": "success" },
        "host": { "ip": ["::1", "192.0.2.7"], "uptime": 0 }, "geo": { "lat": -48.5, "lon": 1.5e-7 },
        "agent": { "id": null, "is_new": false },
    });
    vec![("ECS", with_dots, QUARTER), ("ECS", nested, QUARTER)]
}

/// A field of the journal is a list of its values, a list of bytes, or null if it is too long.
fn of_systems() -> Vec<Case> {
    let long = json!({
        "__CURSOR": "s=e9;i=3;b=a1;m=7;t=1;x=2", "__REALTIME_TIMESTAMP": "1777626000250000",
        "__SEQNUM": "77", "__SEQNUM_ID": "a1b2", "MESSAGE": null, "COREDUMP_FILENAME": "/a/b.zst",
        "_CMDLINE": "/bin/sh -c \"a | b\"", "_CAP_EFFECTIVE": "1ffffffffff", "PRIORITY": "2",
    });
    let several = json!({
        "__CURSOR": "s=e9;i=4", "__REALTIME_TIMESTAMP": "1777626000250000", "MESSAGE": "löschen",
        "DOCUMENTATION": ["man:a(8)", [0, 27, 255], null], "_SELINUX_CONTEXT": [117, 10],
        "SYSLOG_RAW": [60, 51, 48, 62], "SYSLOG_TIMESTAMP": "May  1 09:00:00 ",
    });
    let labels = json!({
        "log": "<b>fett & grün</b> \u{2028}\u{0}\u{1f600}\n", "stream": "stdout",
        "attrs": {
            "com.example.team": "shop", "tag": "shop/web/0a1b", "EMPTY": "",
            "org.label-schema.schema-version": "= 1.0",
        },
        "time": "2026-05-01T09:00:00.25Z",
    });
    let partial = json!({ "log": "x".repeat(16 << 10), "stream": "stderr",
        "time": "2026-05-01T09:00:00.250000999Z" });
    vec![
        ("journald", long, QUARTER),
        ("journald", several, QUARTER),
        ("Docker (json-file)", labels, QUARTER),
        ("Docker (json-file)", partial, QUARTER),
    ]
}

/// Traefik had the address of a server as an object; Caddy writes errors, times and durations in
/// forms that its configuration names.
fn of_proxies() -> Vec<Case> {
    let object = json!({
        "ClientAddr": "[2001:db8::7]:51000", "ClientHost": "2001:db8::7", "ClientUsername": "-",
        "DownstreamContentSize": 0, "DownstreamStatus": 499, "Duration": 0, "Overhead": -1,
        "RequestMethod": "GET", "RequestPath": "/a?b=<c>&d", "RetryAttempts": 0,
        "ServiceURL": { "Scheme": "http", "Opaque": "", "User": null, "Host": "10.0.0.1:80",
            "Path": "", "ForceQuery": false },
        "StartLocal": "2026-05-01T11:00:00.25+02:00", "StartUTC": "2026-05-01T09:00:00.25Z",
        "entryPointName": "web", "level": "info", "msg": "",
        "request_X-Forwarded-For": "192.0.2.1, 192.0.2.2", "time": "2026-05-01T09:00:00.25Z",
    });
    let request = |own: Value| {
        let mut request = json!({ "remote_ip": "2001:db8::7", "proto": "HTTP/3.0", "method": "GET",
            "host": "[2001:db8::5]:8443", "uri": "/grüße?a=\"b\"" });
        let fields = request.as_object_mut().unwrap();
        fields.extend(own.as_object().unwrap().clone());
        request
    };
    let line = |ts: Value, duration: Value, own: Value| {
        let of_tls = json!({ "headers": { "X-A": ["1", "a, \"b\""], "Cookie": ["REDACTED"] },
            "tls": { "resumed": true, "client_common_name": "ann", "client_serial": "17e1" } });
        let mut line = json!({ "level": "info", "ts": ts, "logger": "http.log.access.shop",
            "msg": "handled request", "request": request(of_tls), "bytes_read": 0, "user_id": "",
            "duration": duration, "size": 0, "status": 0, "resp_headers": {} });
        line.as_object_mut()
            .unwrap()
            .extend(own.as_object().unwrap().clone());
        line
    };
    let error = json!({ "level": "error", "logger": "http.log.error", "err_id": "a1b2",
        "msg": "dial tcp 10.0.0.1:80: connect: connection refused",
        "err_trace": "proxy.run (a.go:7)",
        "resp_headers": null, "status": 502 });
    let caddy = "Caddy (access log)";
    vec![
        ("Traefik (access log)", object, QUARTER),
        (
            caddy,
            line(json!(1_777_626_000.25), json!(0.000_012_5), error),
            QUARTER,
        ),
        (
            caddy,
            line(
                json!("2026-05-01T11:00:00.250+0200"),
                json!("1.5ms"),
                json!({}),
            ),
            QUARTER,
        ),
        (
            caddy,
            line(json!(1_777_626_000_250.5), json!(1_500_000), json!({})),
            "2026-05-01T09:00:00.250500Z",
        ),
        (
            caddy,
            line(json!(1_777_626_000_250_000_999_i64), json!(0), json!({})),
            QUARTER,
        ),
    ]
}

fn of_scripts() -> Vec<Case> {
    let bunyan = json!({
        "name": "shop/child", "hostname": "web-1.example", "pid": 1, "level": 50, "v": 0,
        "time": "2026-05-01T09:00:00.250Z", "msg": "löschen: \"a\\b\"\r\n\u{7}",
        "err": { "message": "gone", "name": "TypeError", "code": "ENOENT", "signal": null,
            "stack": "TypeError: gone\n    at Shop.run (/app/shop.js:7:5)" },
        "id": 12_345_678_901_234_567_890_u64, "list": [[], {}, [1, [2.5, "x", true, null]]],
        "options": {}, "ratio": 1e300, "few": -0.1,
    });
    let cause = json!({
        "level": 50, "time": "2026-05-01T09:00:00.250Z", "pid": 7, "hostname": "web1",
        "err": { "type": "AggregateError", "message": "all: gone", "stack": "AggregateError\n at a",
            "aggregateErrors": [{ "type": "Error", "message": "gone", "stack": "at b" }],
            "cause": { "type": "Error", "code": 7 } },
        "req": { "id": "req-1", "headers": { "user-agent": "a/1 \"b\"", "x-ids": ["1", "2"] },
            "query": {}, "params": {}, "remotePort": 51000 },
        "msg": "request errored", "responseTime": 0.125,
    });
    let seconds = json!({ "level": 35, "time": 1_777_626_000, "pid": 7, "hostname": "web1",
        "big": 9_223_372_036_854_775_808_u64, "small": i64::MIN, "list": [], "msg": "[Circular]" });
    vec![
        ("bunyan", bunyan, QUARTER),
        ("pino", cause, QUARTER),
        ("pino", seconds, "2026-05-01T09:00:00Z"),
    ]
}

/// Numbers of Go that JSON has not are texts of zap, and bytes are in base64.
fn of_go() -> Vec<Case> {
    let kinds = json!({
        "level": "info", "ts": 1_777_626_000.25, "logger": "shop.store", "caller": "store/a.go:7",
        "msg": "löschen <a> & \"b\"", "took": 0.000_012_5, "none": "NaN", "all": "+Inf",
        "point": "1+2i", "bytes": "AAEC/w==", "at": 1_777_626_000.125, "nothing": null,
        "counts": { "read": 0, "written": 18_446_744_073_709_551_615_u64 }, "flags": [true, false],
        "shop": { "id": 7, "owner": { "name": "ann" } },
    });
    let error = json!({
        "level": "error", "ts": 1_777_626_000.25, "caller": "store/a.go:9", "msg": "failed",
        "error": "open /a: no such file",
        "errorVerbose": "open /a: no such file\nmain.run\n\t/a.go:9",
        "errorCauses": [{ "error": "a" }, { "error": "b", "errorVerbose": "b\nmain.b" }],
        "userError": "PANIC=nil pointer", "stacktrace": "main.run\n\t/app/store/a.go:9\nmain.main",
    });
    vec![("zap", kinds, QUARTER), ("zap", error, QUARTER)]
}
