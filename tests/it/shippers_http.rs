//! The protocols of shippers over HTTP: bodies as their specifications have them, and real clients.
//!
//! Bodies of protobuf are written by a few lines here, which share nothing with the decoder.

mod clients;
mod grpc;
mod journald;
mod pino;
mod protobuf;

use serde_json::{Value, json};

use crate::support::{Answer, Home, PAST_S, Server, run};
use protobuf::{Field, bytes, fixed64, message, snappy, varint};

const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");
/// A time of the past, in nanoseconds, that is no whole microsecond.
const NS: i64 = PAST_S * 1_000_000_000 + 123_456_789;

/// Returns the rows of a query as one JSON value.
fn rows(server: &Server, query: &str) -> Value {
    Value::Array(server.sql(query))
}

/// Returns the time of `NS` plus so many seconds, as SQL answers it.
fn time(seconds: i64) -> String {
    let server_form = ["2024-03-01T00:00:00.123456Z", "2024-03-01T00:00:01.123456Z"];
    assert_eq!(PAST_S, 1_709_251_200);
    server_form[usize::try_from(seconds).expect("0 or 1")].to_owned()
}

#[test]
fn bulk_answers_for_each_item_and_a_retry_with_a_key_stores_nothing_twice() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let body = [
        r#"{"create":{"_index":"logs-app-2024.03.01"}}"#,
        r#"{"@timestamp":"2024-03-01T00:00:00Z","message":"a","n":1}"#,
        r#"{"index":{"_index":"web","_id":"own-1"}}"#,
        r#"{"@timestamp":"2024-03-01T00:00:01Z","n":2}"#,
        r#"{"update":{"_index":"web","_id":"own-1"}}"#,
        r#"{"doc":{"n":3}}"#,
        r#"{"index":{"_index":"web"}}"#,
        r#"{"@timestamp":"2024-03-01T00:00:02Z","n":"#,
        r#"{"delete":{"_index":"web","_id":"own-1"}}"#,
        r#"{"index":{"_index":"web"}}"#,
        r#"{"@timestamp":"2024-03-01T00:00:03Z","n":4}"#,
        "",
    ]
    .join("\n");
    let headers = [
        ("Idempotency-Key", "k-1"),
        ("Content-Type", "application/x-ndjson"),
    ];
    let path = "/_bulk?w=1&j=true&refresh=wait_for&filter_path=errors";
    for _ in 0..3 {
        let answer = server.post(path, &headers, body.as_bytes()).status(200);
        assert_eq!(answer.header("x-elastic-product"), "Elasticsearch");
        let answer = answer.json();
        assert_eq!(answer["errors"], true);
        let items = answer["items"].as_array().expect("items");
        let outcomes: Vec<_> = items
            .iter()
            .map(|item| {
                let (action, item) = item.as_object().and_then(|i| i.iter().next()).expect("one");
                (action.as_str(), item["status"].as_u64().expect("a status"))
            })
            .collect();
        let expected = [
            ("create", 201),
            ("index", 201),
            ("update", 400),
            ("index", 400),
            ("delete", 400),
            ("index", 201),
        ];
        assert_eq!(outcomes, expected, "{answer:#}");
        assert_eq!(items[0]["create"]["_index"], "logs-app-2024.03.01");
        assert_eq!(items[1]["index"]["_id"], "own-1");
        let reason = items[3]["index"]["error"]["reason"]
            .as_str()
            .expect("a reason");
        assert!(
            reason.contains("bad_json") && reason.contains("quarantine"),
            "{reason}"
        );
    }
    let of_web = rows(
        &server,
        "SELECT _id = 'own-1' AS own, n FROM web ORDER BY time",
    );
    let nulls = json!([{"own": true, "n": 2}, {"own": false, "n": 4}]);
    assert_eq!(of_web, nulls);
    // Each item is answered with the sequence number of its event.
    let again = server
        .post(path, &headers, body.as_bytes())
        .status(200)
        .json();
    let seqs = rows(&server, "SELECT _seq FROM web ORDER BY time");
    let answered = [1, 5].map(|item| again["items"][item]["index"]["_seq_no"].clone());
    assert_eq!(
        [&seqs[0]["_seq"], &seqs[1]["_seq"]],
        [&answered[0], &answered[1]]
    );
    let of_app = rows(&server, "SELECT message, n FROM logs_app");
    assert_eq!(of_app, json!([{"message": "a", "n": 1}]));
    assert_eq!(
        server.number("SELECT count(*) AS n FROM system.quarantine"),
        1
    );
    // The same key with another body is an error of its sender.
    let other = server.post(
        "/_bulk",
        &headers,
        b"{\"index\":{\"_index\":\"web\"}}\n{\"n\":9}\n",
    );
    let other = other.status(422).json();
    assert_eq!(other["status"], 422, "{other}");
    let malformed = server
        .post("/web/_bulk", &[], b"{\"index\":{}}\n")
        .status(400)
        .json();
    assert_eq!(
        malformed["error"]["type"], "illegal_argument_exception",
        "{malformed}"
    );
    let fixed = "/elasticsearch/anything/_bulk?stream=fixed";
    server
        .post(fixed, &[], b"{\"index\":{}}\n{\"n\":1}\n")
        .status(200);
    assert_eq!(server.number("SELECT count(*) AS n FROM fixed"), 1);
}

#[test]
fn clients_of_elasticsearch_are_greeted_and_browsers_get_the_page() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for path in ["/", "/elasticsearch", "/elasticsearch/"] {
        let answer = server
            .get_with(path, &[("Accept", "application/json")])
            .status(200);
        assert_eq!(
            answer.header("x-elastic-product"),
            "Elasticsearch",
            "{path}"
        );
        assert_eq!(answer.json()["tagline"], "You Know, for Search");
    }
    for accept in ["text/html,application/xhtml+xml,*/*;q=0.8", "*/*"] {
        let page = server.get_with("/", &[("Accept", accept)]).status(200);
        assert!(
            page.header("content-type").starts_with("text/html"),
            "{accept}"
        );
    }
    for path in [
        "/_license",
        "/_cluster/health",
        "/elasticsearch/_ilm/policy/filebeat",
    ] {
        server.get(path).status(200);
    }
    let unknown = server.get("/_search").status(404);
    assert_eq!(unknown.header("x-elastic-product"), "Elasticsearch");
}

#[test]
fn a_push_of_loki_is_stored_from_json_and_from_protobuf() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let labels = json!({"service_name": "Check-Out", "level": "warn"});
    let body = json!({"streams": [{"stream": labels, "values": [
        [NS.to_string(), "first"],
        [(NS + 1_000_000_000).to_string(), "second", {"trace": "t1"}],
    ]}]});
    let answer = server.post("/loki/api/v1/push", &[], body.to_string().as_bytes());
    answer.status(204);
    let query =
        "SELECT time, time_nanos, line, level, service_name, trace FROM check_out ORDER BY time";
    let row = |seconds, line: &str, trace: Value| {
        json!({"time": time(seconds), "time_nanos": 789, "line": line, "level": "warn",
            "service_name": "Check-Out", "trace": trace})
    };
    let expected = json!([row(0, "first", Value::Null), row(1, "second", json!("t1"))]);
    assert_eq!(rows(&server, query), expected);

    let entry = |ns: i64, line: &str, metadata: &[(&str, &str)]| {
        let time = message(&[
            Field(1, varint(ns / 1_000_000_000)),
            Field(2, varint(ns % 1_000_000_000)),
        ]);
        let mut fields = vec![Field(1, bytes(&time)), Field(2, bytes(line.as_bytes()))];
        for (name, value) in metadata {
            let pair = message(&[
                Field(1, bytes(name.as_bytes())),
                Field(2, bytes(value.as_bytes())),
            ]);
            fields.push(Field(3, bytes(&pair)));
        }
        message(&fields)
    };
    let stream = message(&[
        Field(1, bytes(br#"{service_name="Check-Out", level="warn"}"#)),
        Field(2, bytes(&entry(NS, "first", &[]))),
        Field(
            2,
            bytes(&entry(NS + 1_000_000_000, "second", &[("trace", "t1")])),
        ),
        Field(3, varint(99)),
    ]);
    let pushed = snappy(&message(&[Field(1, bytes(&stream))]));
    let path = "/loki/api/v1/push?stream=again&j=true";
    server.post(path, &[PROTOBUF], &pushed).status(204);
    assert_eq!(
        rows(&server, &query.replace("check_out", "again")),
        expected
    );

    let bad = br#"{"streams":[{"stream":{},"values":[["x","kept"],["1","old"]]}]}"#;
    let answer = server
        .post("/loki/api/v1/push", &[], bad)
        .status(400)
        .json();
    assert!(
        answer["message"]
            .as_str()
            .expect("a message")
            .contains("1 entries"),
        "{answer}"
    );
    assert_eq!(
        server.number("SELECT count(*) AS n FROM system.quarantine"),
        1
    );
    assert_eq!(server.number("SELECT count(*) AS n FROM loki"), 1);
    server
        .post("/loki/api/v1/push", &[PROTOBUF], b"nonsense")
        .status(400);
}

/// Returns an export of one record of OTLP.
fn export(ns: i64, body: &str) -> Vec<u8> {
    let text = |text: &str| message(&[Field(1, bytes(text.as_bytes()))]);
    let pair = |key: &str, value: &str| {
        message(&[
            Field(1, bytes(key.as_bytes())),
            Field(2, bytes(&text(value))),
        ])
    };
    let record = message(&[
        Field(1, fixed64(ns)),
        Field(2, varint(17)),
        Field(3, bytes(b"ERROR")),
        Field(5, bytes(&text(body))),
        Field(6, bytes(&pair("http.route", "/cart"))),
        Field(9, bytes(&[0xab; 16])),
    ]);
    let resource = message(&[Field(1, bytes(&pair("service.name", "cart")))]);
    let scope = message(&[Field(2, bytes(&record))]);
    let of_resource = message(&[Field(1, bytes(&resource)), Field(2, bytes(&scope))]);
    message(&[Field(1, bytes(&of_resource))])
}

#[test]
fn an_export_of_otlp_is_stored_and_its_bad_records_are_told() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let answer = server
        .post("/v1/logs", &[PROTOBUF], &export(NS, "over protobuf"))
        .status(200);
    assert_eq!(answer.header("content-type"), "application/x-protobuf");
    assert!(answer.body.is_empty(), "a message without fields");
    let of_json = json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "cart"}}]},
        "scopeLogs": [{"logRecords": [{
            "timeUnixNano": (NS + 1_000_000_000).to_string(), "severityText": "ERROR",
            "severityNumber": 17, "body": {"stringValue": "over JSON"},
            "attributes": [{"key": "http.route", "value": {"stringValue": "/cart"}}],
            "traceId": "abababababababababababababababab",
        }]}],
    }]});
    let json_type = [("Content-Type", "application/json")];
    let answer = server.post(
        "/v1/logs?j=true",
        &json_type,
        of_json.to_string().as_bytes(),
    );
    assert_eq!(answer.status(200).json(), json!({}));
    let query = r#"SELECT time, line, level, severity_number, "http.route", trace_id,
        "resource.service.name" FROM cart ORDER BY time"#;
    let row = |seconds, line: &str| {
        json!({"time": time(seconds), "line": line, "level": "ERROR", "severity_number": 17,
            "http.route": "/cart", "trace_id": "ab".repeat(16), "resource.service.name": "cart"})
    };
    assert_eq!(
        rows(&server, query),
        json!([row(0, "over protobuf"), row(1, "over JSON")])
    );

    // A record of the future is quarantined: the exporter must not send it again.
    let future = export(4_000_000_000_000_000_000, "future");
    let answer = server.post("/v1/logs", &[PROTOBUF], &future).status(200);
    assert!(
        answer.body.starts_with(&[0x0a]),
        "partial_success: {:?}",
        answer.body
    );
    assert!(
        answer.text().contains("quarantine: future"),
        "{}",
        answer.text()
    );
    let refused = server.post("/v1/logs", &[PROTOBUF], b"{}").status(400);
    assert_eq!(refused.header("content-type"), "application/x-protobuf");
    assert!(
        refused.text().contains("no export of logs"),
        "{}",
        refused.text()
    );
    let traces = server
        .post("/v1/traces", &json_type, b"{}")
        .status(404)
        .json();
    assert!(
        traces["message"]
            .as_str()
            .expect("a message")
            .contains("stores logs"),
        "{traces}"
    );
}

#[test]
fn splunks_collector_takes_events_and_lines_and_acknowledges_them() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let body = concat!(
        r#"{"time":1709251200.123456,"host":"web1","sourcetype":"t","event":"text","fields":{"a":"b"}}"#,
        r#"{"time":"1709251201.123456","event":{"message":"object","host":"inner"},"index":"main"}"#,
    );
    let channel = (
        "X-Splunk-Request-Channel",
        "0aeeac95-ac74-4aa9-b30d-6c4c0ac581ba",
    );
    let path = "/services/collector/event?j=true&host=fallback";
    let answer = server
        .post(path, &[channel], body.as_bytes())
        .status(200)
        .json();
    assert_eq!(
        (&answer["text"], &answer["code"]),
        (&json!("Success"), &json!(0))
    );
    let id = answer["ackId"].as_u64().expect("a number");
    let asked = format!("{{\"acks\":[{id}]}}");
    let path = "/services/collector/ack?channel=x";
    let told = server.post(path, &[], asked.as_bytes()).status(200).json();
    assert_eq!(told, json!({"acks": {id.to_string(): true}}));
    let of_splunk = rows(
        &server,
        "SELECT time, line, host, sourcetype, a FROM splunk",
    );
    let expected = json!([{"time": time(0), "line": "text", "host": "web1", "sourcetype": "t",
        "a": "b"}]);
    assert_eq!(of_splunk, expected);
    let of_main = rows(
        &server,
        r#"SELECT time, message, host, "event.host" FROM main"#,
    );
    let expected = json!([{"time": time(1), "message": "object", "host": "fallback",
        "event.host": "inner"}]);
    assert_eq!(of_main, expected);
    let lines = "/services/collector/raw?index=raw&source=f";
    server.post(lines, &[], b"one\r\n\ntwo\n").status(200);
    let of_raw = rows(&server, "SELECT line, source FROM raw ORDER BY line");
    assert_eq!(
        of_raw,
        json!([{"line": "one", "source": "f"}, {"line": "two", "source": "f"}])
    );
    let refused = |body: &[u8]| {
        server
            .post("/services/collector", &[], body)
            .status(400)
            .json()
    };
    let missing = refused(b"{\"event\":1}{\"host\":\"a\"}");
    assert_eq!(
        (&missing["code"], &missing["invalid-event-number"]),
        (&json!(12), &json!(1))
    );
    assert_eq!(refused(b"")["code"], 5);
    assert_eq!(
        server.get("/services/collector/health").status(200).json()["code"],
        17
    );
}

#[test]
fn a_token_of_some_streams_writes_into_no_other_whatever_the_body_names() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let token = |name: &str, role: &str, stream: &[&str]| {
        let mut args = vec!["token", "create", name, "--role", role, "--output", "json"];
        args.extend(stream.iter().flat_map(|stream| ["--stream", *stream]));
        args.extend(["--data", &home.data]);
        let created = run(&args).code(0).json();
        created["token"].as_str().expect("a token").to_owned()
    };
    let web = format!("ApiKey {}", token("web", "ingest", &["web*"]));
    let all = token("admin", "admin", &[]);
    let headers = [("Authorization", web.as_str())];
    let body = b"{\"index\":{\"_index\":\"web\"}}\n{\"n\":1}\n{\"index\":{\"_index\":\"db\"}}\n{\"n\":2}\n";
    let answer = server.post("/_bulk", &headers, body).status(200).json();
    assert_eq!(answer["items"][0]["index"]["status"], 201, "{answer}");
    assert_eq!(answer["items"][1]["index"]["status"], 403, "{answer}");
    let only_db = b"{\"index\":{\"_index\":\"db\"}}\n{\"n\":2}\n";
    let refused = |answer: Answer, status| answer.status(status).json();
    let answer = refused(server.post("/_bulk", &headers, only_db), 403);
    assert_eq!(answer["error"]["type"], "security_exception", "{answer}");
    let push = br#"{"streams":[{"stream":{"job":"db"},"values":[["1","x"]]}]}"#;
    refused(server.post("/loki/api/v1/push", &headers, push), 403);
    let splunk = format!("Splunk {}", headers[0].1.replace("ApiKey ", ""));
    let splunk = [("Authorization", splunk.as_str())];
    let answer = server.post("/services/collector?index=db", &splunk, b"{\"event\":1}");
    assert_eq!(refused(answer, 403)["code"], 4);
    let answer = server.post("/services/collector", &[], b"{\"event\":1}");
    assert_eq!(refused(answer, 401)["code"], 2);
    server
        .post(
            "/v1/logs?stream=db",
            &[headers[0], PROTOBUF],
            &export(NS, "x"),
        )
        .status(403);
    let admin = format!("Authorization: Bearer {all}");
    let streams = server.sql_as(
        &admin,
        "SELECT name FROM system.streams WHERE name NOT LIKE '\\_%'",
    );
    assert_eq!(streams, json!([{"name": "web"}]));
}

#[test]
fn what_arrives_is_counted_by_protocol_and_stream() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let key = [PROTOBUF, ("Idempotency-Key", "one")];
    for _ in 0..3 {
        server
            .post("/v1/logs", &key, &export(NS, "one"))
            .status(200);
    }
    let future = export(4_000_000_000_000_000_000, "future");
    server.post("/v1/logs", &[PROTOBUF], &future).status(200);
    let items = "{\"create\":{}}\n{\"n\":1}\n{\"create\":{}}\n{\"n\":2}\n";
    let json_lines = [("Content-Type", "application/x-ndjson")];
    server
        .post("/web/_bulk", &json_lines, items.as_bytes())
        .status(200);
    server.ingest("web?format=json", "{\"n\":3}\n");
    let query = "SELECT producer, received, stored, quarantined, duplicates, refused, state,
        last_at IS NOT NULL AS has_come FROM system.sources ORDER BY producer";
    let row = |producer: &str, [received, stored, quarantined, duplicates]: [u64; 4]| {
        json!({"producer": producer, "received": received, "stored": stored,
            "quarantined": quarantined, "duplicates": duplicates, "refused": 0,
            "state": "listening", "has_come": true})
    };
    assert_eq!(
        rows(&server, query),
        json!([
            row("elasticsearch/web", [2, 2, 0, 0]),
            row("logmill/web", [1, 1, 0, 0]),
            row("otlp/cart", [4, 1, 1, 2]),
        ])
    );
    let metrics = server.get("/metrics").text();
    for sample in [
        "logmill_arrivals_stored_total{protocol=\"elasticsearch\",stream=\"web\"} 2\n",
        "logmill_arrivals_duplicates_total{protocol=\"otlp\",stream=\"cart\"} 2\n",
        "logmill_arrivals_quarantined_total{protocol=\"otlp\",stream=\"cart\"} 1\n",
    ] {
        assert!(metrics.contains(sample), "{sample} is not in {metrics}");
    }
}
