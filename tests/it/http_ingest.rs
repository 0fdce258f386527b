//! `POST /api/v1/ingest/{stream}`: bulk requests with bad items, write concerns, idempotency keys,
//! encodings, and what is refused.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, PATIENCE, Server, base64, line};

fn good(path: &str) -> String {
    line("203.0.113.1", PAST_S, path, 200, 10)
}

/// Returns ten lines: six good ones, bad ones at 2, 5 and 7, an empty one at 8.
fn mixed_lines() -> String {
    (0..10)
        .map(|i| match i {
            2 => "the first bad line\n".to_owned(),
            5 => "203.0.113.1 - - [not a time] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n".to_owned(),
            7 => "the last bad line\n".to_owned(),
            8 => "\n".to_owned(),
            i => good(&format!("/{i}")),
        })
        .collect()
}

fn mixed_documents() -> String {
    (0..10)
        .map(|i| match i {
            2 => "{\"cut\":\"of\n".to_owned(),
            5 => "[\"no\", \"object\"]\n".to_owned(),
            7 => "{'time':1}\n".to_owned(),
            8 => "\n".to_owned(),
            i => format!("{{\"ts\":{},\"path\":\"/{i}\"}}\n", PAST_S + i),
        })
        .collect()
}

fn indexes(answer: &Value) -> Vec<u64> {
    let errors = answer["errors"].as_array().expect("errors");
    for error in errors {
        let reason = error["reason"].as_str().unwrap_or("");
        assert!(!reason.is_empty(), "{error}");
    }
    errors.iter().filter_map(|e| e["index"].as_u64()).collect()
}

/// Returns the number of sequence numbers that an answer names.
fn span(answer: &Value) -> u64 {
    match (answer["first_seq"].as_u64(), answer["last_seq"].as_u64()) {
        (Some(first), Some(last)) => last - first + 1,
        _ => 0,
    }
}

#[track_caller]
fn assert_answer(answer: &Value, accepted: u64, quarantined: u64, empty: u64) {
    let found = [
        &answer["accepted"],
        &answer["quarantined"],
        &answer["empty"],
    ];
    assert_eq!(
        found,
        [&json!(accepted), &json!(quarantined), &json!(empty)],
        "{answer}"
    );
    assert_eq!(span(answer), accepted + quarantined, "{answer}");
}

#[test]
fn unordered_bulk_reports_every_bad_item_and_stores_the_rest() {
    for (format, body) in [("auto", mixed_lines()), ("json", mixed_documents())] {
        let home = Home::new();
        let server = Server::start(&home.data);
        let answer = server.ingest(&format!("events?format={format}&ordered=false"), &body);
        assert_answer(&answer, 6, 3, 1);
        assert_eq!(indexes(&answer), [2, 5, 7], "{answer}");
        assert_eq!(answer["errors_omitted"], 0);
        assert_eq!(answer["concern"], json!({ "w": 1, "j": false }));
        // Unordered is the default.
        let again = server.ingest(&format!("events?format={format}"), &body);
        assert_eq!(indexes(&again), [2, 5, 7]);
        let paths =
            server.sql("SELECT path, count(*) AS n FROM events GROUP BY path ORDER BY path");
        let wanted: Vec<Value> = ["/0", "/1", "/3", "/4", "/6", "/9"]
            .map(|path| json!({ "path": path, "n": 2 }))
            .to_vec();
        assert_eq!(paths, wanted);
        assert_quarantined(&server, &body, &[2, 5, 7]);
    }
}

#[test]
fn ordered_bulk_stops_at_the_first_bad_item_and_keeps_what_came_before() {
    for (format, body) in [("auto", mixed_lines()), ("json", mixed_documents())] {
        let home = Home::new();
        let server = Server::start(&home.data);
        let answer = server.ingest(&format!("events?format={format}&ordered=true"), &body);
        assert_answer(&answer, 2, 1, 0);
        assert_eq!(indexes(&answer), [2], "{answer}");
        let paths = server.sql("SELECT path FROM events ORDER BY path");
        assert_eq!(paths, [json!({ "path": "/0" }), json!({ "path": "/1" })]);
        assert_quarantined(&server, &body, &[2]);
    }
}

/// Checks that the quarantine holds the raw bytes of these lines of `body`, and of no others.
#[track_caller]
fn assert_quarantined(server: &Server, body: &str, wanted: &[usize]) {
    let lines: Vec<&str> = body.split('\n').collect();
    let rows = server.sql(
        "SELECT item, raw FROM system.quarantine WHERE stream = 'events' GROUP BY item, raw ORDER BY item",
    );
    let found: Vec<(usize, Vec<u8>)> = rows
        .iter()
        .map(|row| {
            let item = row["item"].as_u64().expect("an index") as usize;
            (item, base64(row["raw"].as_str().expect("bytes as text")))
        })
        .collect();
    let wanted: Vec<(usize, Vec<u8>)> = wanted
        .iter()
        .map(|i| (*i, lines[*i].as_bytes().to_vec()))
        .collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_thousand_errors_are_listed_and_the_others_counted() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let answer = server.ingest("access?format=combined", "bad\n".repeat(1500));
    assert_answer(&answer, 0, 1500, 0);
    assert_eq!(indexes(&answer), (0..1000).collect::<Vec<u64>>());
    assert_eq!(answer["errors_omitted"], 500);
    assert_eq!(
        server.number("SELECT count(*) FROM system.quarantine"),
        1500
    );
    let nothing = server.ingest("access", "\n\n\r\n");
    assert_answer(&nothing, 0, 0, 3);
    assert_eq!(
        (&nothing["first_seq"], &nothing["last_seq"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn sequence_numbers_of_batches_lie_side_by_side() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let mut next = 0;
    for i in 0..20 {
        let answer = server.ingest("access", mixed_lines());
        assert_eq!(answer["first_seq"], next, "batch {i}");
        next = answer["last_seq"].as_u64().expect("a number") + 1;
        if i % 7 == 3 {
            server.seal();
        }
    }
    assert_eq!(next, 20 * 9);
}

#[test]
fn a_repeated_key_gives_the_first_answer_and_stores_nothing() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let send = |server: &Server, stream: &str, key: &str, body: &str| {
        let path = format!("/api/v1/ingest/{stream}");
        server.post(&path, &[("Idempotency-Key", key)], body.as_bytes())
    };
    let first = send(&server, "access", "key-1", &mixed_lines())
        .status(200)
        .json();
    assert_eq!(first["duplicate"], false);
    let same_as_first = |answer: Value| {
        let mut wanted = first.clone();
        wanted["duplicate"] = json!(true);
        assert_eq!(answer, wanted);
    };
    same_as_first(
        send(&server, "access", "key-1", &mixed_lines())
            .status(200)
            .json(),
    );
    let refused = send(&server, "access", "key-1", &good("/other"))
        .status(422)
        .json();
    for member in ["code", "message", "hint"] {
        assert!(refused["error"].get(member).is_some(), "{refused}");
    }
    assert_eq!(server.number("SELECT count(*) FROM access"), 6);
    // A key belongs to its own stream only.
    let other = send(&server, "other", "key-1", &good("/other"))
        .status(200)
        .json();
    assert_eq!(other["duplicate"], false);
    // The key is known after a seal, after a clean stop, and after a kill.
    server.seal();
    same_as_first(
        send(&server, "access", "key-1", &mixed_lines())
            .status(200)
            .json(),
    );
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&home.data);
    same_as_first(
        send(&server, "access", "key-1", &mixed_lines())
            .status(200)
            .json(),
    );
    server.kill();
    let server = Server::start(&home.data);
    same_as_first(
        send(&server, "access", "key-1", &mixed_lines())
            .status(200)
            .json(),
    );
    send(&server, "access", "key-1", &good("/other")).status(422);
    assert_eq!(server.number("SELECT count(*) FROM access"), 6);
}

#[test]
fn one_of_many_requests_with_one_key_stores_the_batch() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for round in 0..20 {
        let key = format!("round-{round}");
        let body = good(&format!("/round/{round}"));
        let firsts: usize = std::thread::scope(|scope| {
            let senders: Vec<_> = (0..6)
                .map(|_| {
                    scope.spawn(|| {
                        let headers = [("Idempotency-Key", key.as_str())];
                        let answer =
                            server.post("/api/v1/ingest/access?j=true", &headers, body.as_bytes());
                        answer.status(200).json()["duplicate"] == false
                    })
                })
                .collect();
            let senders = senders.into_iter();
            senders
                .map(|s| usize::from(s.join().expect("a sender")))
                .sum()
        });
        assert_eq!(firsts, 1, "round {round}");
    }
    assert_eq!(server.number("SELECT count(*) FROM access"), 20);
}

#[test]
fn write_concerns_are_kept_or_refused_never_lowered() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for (asked, concern) in [
        ("w=1", json!({ "w": 1, "j": false })),
        ("j=true", json!({ "w": 1, "j": true })),
        ("w=1&j=true", json!({ "w": 1, "j": true })),
        ("w=0&j=true", json!({ "w": 1, "j": true })),
        ("w=majority", json!({ "w": 1, "j": true })),
    ] {
        let answer = server.ingest(&format!("access?{asked}"), good("/"));
        assert_eq!(answer["concern"], concern, "{asked}");
    }
    for asked in ["w=2", "w=3&j=true", "w=all", "j=perhaps"] {
        let path = format!("/api/v1/ingest/access?{asked}");
        let refused = server
            .post(&path, &[], good("/").as_bytes())
            .status(400)
            .json();
        assert!(refused["error"]["message"].is_string(), "{refused}");
    }
    assert_eq!(server.number("SELECT count(*) FROM access"), 5);
    let path = "/api/v1/ingest/access?w=0";
    server
        .post(path, &[], good("/unacknowledged").as_bytes())
        .status(202);
    let until = Instant::now() + Duration::from_secs(20);
    while server.number("SELECT count(*) FROM access") < 6 {
        assert!(Instant::now() < until, "a batch with w=0 does not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn past_wtimeout_the_batch_is_stored_and_its_sequence_told() {
    let home = Home::new();
    // Nothing is synced within the limits below.
    let late = [("LOGMILL_STORAGE__SYNC_INTERVAL", "1h")];
    let server = Server::start_with(&home.data, &late);
    // The limit is long enough to write the batch, and to create the stream, on a busy machine.
    let path = "/api/v1/ingest/access?j=true&wtimeout=2000";
    let answer = server.post(path, &[], mixed_lines().as_bytes());
    let told = answer.status(504).json();
    assert_eq!(told["error"]["code"], "write_concern_timeout", "{told}");
    assert_eq!(span(&told), 9, "{told}");
    assert_eq!(server.number("SELECT count(*) FROM access"), 6);
    // A concern that is reached in time is acknowledged as ever; 0 is no limit.
    for asked in ["w=1&wtimeout=30000", "wtimeout=0", "j=true&wtimeout=0"] {
        let answer = server.ingest(&format!("access?{asked}"), good("/"));
        assert_eq!(answer["accepted"], 1, "{asked}");
    }
    let path = "/api/v1/ingest/access?wtimeout=soon";
    server.post(path, &[], good("/").as_bytes()).status(400);
    drop(server);
    let server = Server::start(&home.data);
    let answer = server.ingest("access?j=true&wtimeout=30000", good("/"));
    assert_eq!(answer["concern"], json!({ "w": 1, "j": true }));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

#[test]
fn bodies_may_be_compressed() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let lines = mixed_lines();
    let path = "/api/v1/ingest/access";
    let zstd = zstd::encode_all(lines.as_bytes(), 3).expect("memory");
    for (encoding, body) in [
        ("gzip", gzip(lines.as_bytes())),
        ("zstd", zstd),
        ("identity", lines.clone().into_bytes()),
    ] {
        let answer = server.post(path, &[("Content-Encoding", encoding)], &body);
        assert_answer(&answer.status(200).json(), 6, 3, 1);
    }
    let cut = &gzip(lines.as_bytes())[..40];
    server
        .post(path, &[("Content-Encoding", "gzip")], cut)
        .status(400);
    server
        .post(path, &[("Content-Encoding", "gzip")], b"no gzip")
        .status(400);
    server
        .post(path, &[("Content-Encoding", "zstd")], b"no zstd")
        .status(400);
    server
        .post(path, &[("Content-Encoding", "br")], b"what")
        .status(415);
    assert_eq!(server.number("SELECT count(*) FROM access"), 18);
}

#[test]
fn a_body_that_turns_out_long_is_stored_once() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let lines = good("/").repeat(20_000);
    assert!(lines.len() > 1 << 20);
    let (packed, gzip_header) = (gzip(lines.as_bytes()), [("Content-Encoding", "gzip")]);
    assert!(packed.len() < 100_000, "short until it is decompressed");
    let answer = server.post("/api/v1/ingest/access", &gzip_header, &packed);
    assert_eq!(answer.status(200).json()["accepted"], 20_000);
    let answer = server.post("/api/v1/ingest/access?w=0", &gzip_header, &packed);
    answer.status(202);
    let answer = server.post("/api/v1/ingest/access?bulk=true", &gzip_header, &packed);
    assert_eq!(answer.status(200).json()["accepted"], 20_000);
    let count = || server.number("SELECT count(*) FROM access");
    let end = Instant::now() + PATIENCE;
    while count() < 60_000 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count(), 60_000);
}

#[test]
fn a_body_that_is_too_large_is_refused_before_and_after_decompression() {
    let home = Home::new();
    let limit = [("LOGMILL_SERVER__BATCH_BYTES_MAX", "1MiB")];
    let server = Server::start_with(&home.data, &limit);
    let path = "/api/v1/ingest/access";
    let plain = good("/").repeat((1 << 20) / good("/").len() + 1);
    let refused = server.post(path, &[], plain.as_bytes()).status(413).json();
    assert_eq!(refused["error"]["code"], "too_large", "{refused}");
    // The body has 256 MiB, compressed to a quarter of a megabyte.
    let bomb = gzip(&vec![b'a'; 256 << 20]);
    assert!(bomb.len() < 1 << 19);
    server
        .post(path, &[("Content-Encoding", "gzip")], &bomb)
        .status(413);
    let bomb = zstd::encode_all(std::io::repeat(b'\n').take(256 << 20), 3).expect("memory");
    server
        .post(path, &[("Content-Encoding", "zstd")], &bomb)
        .status(413);
    let names = server.get("/api/v1/streams").status(200).json();
    assert_eq!(names, json!([]), "nothing was stored");
    // The server works as before.
    server.ingest("access", good("/"));
    assert_eq!(server.number("SELECT count(*) FROM access"), 1);
}

#[test]
fn wrong_requests_are_refused_with_a_reason() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for (path, named) in [
        ("/api/v1/ingest/access?colour=blue", "colour"),
        ("/api/v1/ingest/access?format=nonsense", "nonsense"),
        ("/api/v1/ingest/access?tz=Atlantis", "Atlantis"),
        ("/api/v1/ingest/access?ordered=perhaps", "perhaps"),
        ("/api/v1/ingest/Not-A-Name", "Not-A-Name"),
        ("/api/v1/ingest/1st", "1st"),
        ("/api/v1/ingest/a%20b", "a b"),
        ("/api/v1/ingest/_quarantine", "_quarantine"),
    ] {
        let refused = server
            .post(path, &[], good("/").as_bytes())
            .status(400)
            .json();
        let message = refused["error"]["message"].as_str().unwrap_or("");
        assert!(message.contains(named), "{path}: {refused}");
        assert!(refused["error"]["code"].is_string(), "{path}: {refused}");
    }
    let long = format!("/api/v1/ingest/{}", "a".repeat(64));
    server.post(&long, &[], good("/").as_bytes()).status(400);
    assert_eq!(server.get("/api/v1/streams").json(), json!([]));
}

#[test]
fn debug_tells_what_would_be_and_stores_nothing() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let answer = server.ingest("access?debug=1", mixed_lines());
    assert_eq!(
        (&answer["accepted"], &answer["quarantined"]),
        (&json!(6), &json!(3))
    );
    assert_eq!(indexes(&answer), [2, 5, 7]);
    assert_eq!(
        (&answer["first_seq"], &answer["last_seq"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(server.get("/api/v1/streams").json(), json!([]));
    let stored = server.ingest("access", good("/"));
    assert_eq!(stored["first_seq"], 0);
    assert_eq!(server.number("SELECT count(*) FROM system.quarantine"), 0);
}

#[test]
fn site_and_zone_of_a_request_reach_its_events() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?site=shop.example", good("/a"));
    server.ingest(
        "access?format=vhost_combined",
        format!("other.example:443 {}", good("/b")),
    );
    server.ingest(
        "events?format=json&tz=Asia/Tokyo",
        "{\"time\":\"2024-03-01T09:00:00\"}\n",
    );
    assert_eq!(
        server.sql("SELECT path, site FROM access ORDER BY path"),
        [
            json!({ "path": "/a", "site": "shop.example" }),
            json!({ "path": "/b", "site": "other.example" })
        ]
    );
    assert_eq!(
        server.sql("SELECT time FROM events"),
        [json!({ "time": "2024-03-01T00:00:00Z" })]
    );
}
