use serde_json::{Value, json};

use crate::{Format, ParseOptions, explain};

/// Lines of each dialect as its documentation shows them, with the time of each.
fn lines() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "ECS",
            json!({ "@timestamp": "2026-05-01T09:00:00.5Z", "log.level": "info",
                "message": "started", "ecs.version": "8.11.0", "process": { "pid": 7 } }),
            "2026-05-01T09:00:00.500000Z",
        ),
        (
            "journald",
            json!({ "__CURSOR": "s=e9;i=3", "__REALTIME_TIMESTAMP": "1777626000000001",
                "_PID": "184", "PRIORITY": "6", "MESSAGE": [72, 105], "_HOSTNAME": "web1" }),
            "2026-05-01T09:00:00.000001Z",
        ),
        (
            "Traefik (access log)",
            json!({ "StartUTC": "2026-05-01T08:59:59.123456789Z", "RequestMethod": "GET",
                "Duration": 1_234_567, "DownstreamStatus": 200, "level": "info", "msg": "",
                "time": "2026-05-01T09:00:00Z" }),
            "2026-05-01T09:00:00Z",
        ),
        (
            "Traefik (access log)",
            json!({ "StartUTC": "2026-05-01T08:59:59.123456789Z", "RequestMethod": "GET",
                "Duration": 1_234_567 }),
            "2026-05-01T08:59:59.123456Z",
        ),
        (
            "Caddy (access log)",
            json!({ "level": "info", "ts": 1_777_626_000.25, "logger": "http.log.access",
                "msg": "handled request", "request": { "method": "GET", "uri": "/" },
                "duration": 0.001, "size": 12, "status": 200 }),
            "2026-05-01T09:00:00.250000Z",
        ),
        (
            "bunyan",
            json!({ "name": "app", "hostname": "web1", "pid": 7, "level": 30, "msg": "started",
                "time": "2026-05-01T09:00:00.001Z", "v": 0 }),
            "2026-05-01T09:00:00.001000Z",
        ),
        (
            "pino",
            json!({ "level": 50, "time": 1_777_626_000_123_i64, "pid": 7, "hostname": "web1",
                "msg": "failed", "err": { "type": "Error", "stack": "at x" } }),
            "2026-05-01T09:00:00.123000Z",
        ),
        (
            "Docker (json-file)",
            json!({ "log": "started\n", "stream": "stderr",
                "time": "2026-05-01T09:00:00.123456789Z" }),
            "2026-05-01T09:00:00.123456Z",
        ),
        (
            "zap",
            json!({ "level": "warn", "ts": 1_777_626_000.5, "caller": "a/b.go:7", "msg": "slow",
                "took": 1.5 }),
            "2026-05-01T09:00:00.500000Z",
        ),
    ]
}

/// Returns the scalars of an object with their dotted names, but for the field of the time itself.
fn scalars(value: &Value, name: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = match name {
                    "" => key.clone(),
                    name => format!("{name}.{key}"),
                };
                scalars(value, &name, found);
            }
        }
        _ if name == "time" => {}
        value => found.push((name.to_owned(), value.clone())),
    }
}

#[test]
fn every_dialect_has_its_time_its_name_and_all_of_its_values() {
    for (name, line, time) in lines() {
        let options = ParseOptions {
            received_us: 1_800_000_000_000_000,
            ..ParseOptions::default()
        };
        let sample = format!("{line}\n{line}\n");
        let told = explain("a.json", sample.as_bytes(), options).unwrap();
        assert_eq!((told.format, told.events), (Format::Json, 2), "{name}");
        assert_eq!(told.dialect, Some(name), "{line}");
        let event = told.first_event.unwrap();
        assert_eq!(event["time"], time, "{name}");
        assert!(event.get("time_source").is_none(), "{name}");
        let mut expected = Vec::new();
        scalars(&line, "", &mut expected);
        let rest = event.get("_rest").cloned().unwrap_or_default();
        for (field, value) in expected {
            let stored = event.get(&field).unwrap_or(&rest[&field]);
            assert_eq!(*stored, value, "{name}: {field}");
        }
    }
}

#[test]
fn json_of_no_dialect_has_none() {
    for sample in [
        "{\"time\":\"2026-05-01T09:00:00Z\",\"level\":\"info\"}\n",
        "{}\n",
        "x\n",
    ] {
        let told = explain("a.json", sample.as_bytes(), ParseOptions::default()).unwrap();
        assert_eq!(told.dialect, None, "{sample}");
    }
    // A line of another program among them is enough.
    let mixed = "{\"level\":30,\"time\":1,\"pid\":7,\"hostname\":\"a\"}\n{\"time\":2}\n";
    let told = explain("a.json", mixed.as_bytes(), ParseOptions::default()).unwrap();
    assert_eq!(told.dialect, None);
}
