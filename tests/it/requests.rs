//! Requests of unexpected forms and sizes: JSON that is not one object to a line, keys and names
//! of any length, small bodies that would become large.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, import, line, only_number, run, run_with_input, sql};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(body).expect("memory");
    out.finish().expect("memory")
}

/// Forms of the documents `{"n":0}` to `{"n":3}`; none has one document to a line.
const FORMS: [&str; 5] = [
    "[{\"n\":0},{\"n\":1},{\"n\":2},{\"n\":3}]",
    "[\n  {\n    \"n\": 0\n  },\n  {\n    \"n\": 1\n  },\n  {\"n\": 2},\n  {\"n\": 3}\n]\n",
    "{\"n\":0}{\"n\":1} {\"n\":2}\n{\"n\":3}",
    "{\n  \"n\": 0\n}\n{\n  \"n\": 1\n}\n{\"n\":2}{\"n\":3}\n",
    "\u{feff}[{\"n\":0}, {\"n\":1}, {\"n\":2}, {\"n\":3}]",
];

#[test]
fn json_that_is_not_one_object_to_a_line_is_taken() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for (i, form) in FORMS.into_iter().enumerate() {
        for format in ["auto", "json"] {
            let stream = format!("{format}{i}");
            let answer = server.ingest(&format!("{stream}?format={format}"), form);
            assert_eq!(
                (
                    &answer["accepted"],
                    &answer["quarantined"],
                    &answer["empty"]
                ),
                (&json!(4), &json!(0), &json!(0)),
                "{form}: {answer}"
            );
            assert_eq!(server.number(&format!("SELECT sum(n) FROM {stream}")), 6);
        }
    }
    // The index of a bad item is its place among them, and the others are accepted.
    let body = "[{\"n\":0}, 17, {\"n\":2, \"n\" 3}, {\"n\":4},\n \"text\", {\"n\":5";
    let answer = server.ingest("bad", body);
    let errors = answer["errors"].as_array().expect("errors");
    let indexes: Vec<&Value> = errors.iter().map(|e| &e["index"]).collect();
    assert_eq!(answer["accepted"], 2, "{answer}");
    assert_eq!(indexes, [&json!(1), &json!(2), &json!(4), &json!(5)]);
    let kept = server
        .sql("SELECT item, line, byte FROM system.quarantine WHERE stream = 'bad' ORDER BY item");
    let wanted = [(1, 1, 10), (2, 1, 14), (4, 2, 40), (5, 2, 48)];
    let wanted = wanted.map(|(i, l, b)| json!({ "item": i, "line": l, "byte": b }));
    assert_eq!(kept, wanted);
    // An empty array is nothing, and no error.
    assert_eq!(server.ingest("none", "[]\n")["accepted"], 0);
}

#[test]
fn json_that_is_not_one_object_to_a_line_is_imported() {
    for through_server in [false, true] {
        let home = Home::new();
        let server = through_server.then(|| Server::start(&home.data));
        let place = match &server {
            Some(server) => ["--server", server.url.as_str()],
            None => ["--data", home.data.as_str()],
        };
        let count = || only_number(&sql(&place, "SELECT count(*) FROM access"));
        for (i, form) in FORMS.into_iter().enumerate() {
            let file = home.file(&format!("{i}.json"), form);
            let figures = import(&place, &file, &[]);
            assert_eq!(figures["accepted"], 4, "{form}: {figures}");
            assert_eq!(import(&place, &file, &[])["accepted"], 0, "{form}");
            assert_eq!(count(), 4 * (i as u64 + 1));
        }
        // The file has many blocks, and is longer when it comes again.
        let text = "x".repeat(2000);
        let object = |n: u32| format!("{{\n  \"n\": {n},\n  \"text\": \"{text}\"\n}}");
        let objects: Vec<String> = (0..3000).map(object).collect();
        let file = home.file("long.json", format!("[{}\n", objects[..2900].join(",\n")));
        assert_eq!(import(&place, &file, &[])["accepted"], 2900);
        let file = home.file("long.json", format!("[{}]\n", objects.join(",\n")));
        assert_eq!(import(&place, &file, &[])["accepted"], 100);
        assert_eq!(import(&place, &file, &[])["accepted"], 0);
        assert_eq!(count(), 20 + 3000);
    }
}

/// Status 200 for unreadable lines would mean that they became events.
#[test]
fn lines_of_no_format_are_kept_and_refused() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let refused = server
        .post("/api/v1/ingest/notes", &[], b"first words\n\nother words\n")
        .status(400)
        .json();
    assert_eq!(refused["error"]["code"], "no_format", "{refused}");
    assert_eq!(refused["quarantined"], 2);
    assert_eq!(
        server.number("SELECT count(*) FROM system.quarantine WHERE stream = 'notes'"),
        2
    );
    // One good line makes a format, and an empty body is no failure.
    let mixed = "no line of a log\n".to_owned() + &line("203.0.113.1", PAST_S, "/", 200, 1);
    assert_eq!(server.ingest("notes", mixed)["accepted"], 1);
    assert_eq!(server.ingest("notes", "\n\n")["empty"], 2);
    let file = home.file("words.txt", "the first words\nthe second words\n");
    let args = ["import", &file, "--stream", "words", "--output", "json"];
    let told = run(&[&args[..], &["--server", &server.url]].concat()).code(1);
    assert_eq!(
        told.json()["quarantined_by_reason"],
        json!({ "no_format": 2 })
    );
    assert!(told.stderr.contains("--format plain"), "{}", told.stderr);
}

#[test]
fn names_and_keys_have_a_length() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let body = line("203.0.113.1", PAST_S, "/", 200, 1);
    for (name, max) in [("site", 1024), ("source", 1024), ("producer", 8192)] {
        let range = if name == "producer" {
            "from=0&to=9&"
        } else {
            ""
        };
        let at_most = format!("/api/v1/ingest/access?{range}{name}={}", "x".repeat(max));
        server.post(&at_most, &[], body.as_bytes()).status(200);
        let refused = server.post(&format!("{at_most}x"), &[], body.as_bytes());
        let refused = refused.status(400).text();
        assert!(
            refused.contains(name) && refused.contains(&max.to_string()),
            "{refused}"
        );
    }
    let key = "k".repeat(255);
    let path = "/api/v1/ingest/access";
    let keyed = |key: &str| server.post(path, &[("Idempotency-Key", key)], body.as_bytes());
    keyed(&key).status(200);
    let refused = keyed(&format!("{key}k")).status(400).text();
    assert!(refused.contains("255"), "{refused}");
    let file = home.file("a.log", &body);
    let site = "s".repeat(1025);
    let args = ["import", &file, "--stream", "access", "--site", &site];
    run(&[&args[..], &["--server", &server.url]].concat()).code(2);
}

/// The meaning of the bytes is part of a key's fingerprint; the way they were sent is not.
#[test]
fn a_key_stands_for_what_is_made_of_the_body() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let body = line("203.0.113.1", PAST_S, "/", 200, 1);
    let post = |query: &str, encoding: &[(&str, &str)], body: &[u8]| {
        let headers = [&[("Idempotency-Key", "one")], encoding].concat();
        server.post(&format!("/api/v1/ingest/access{query}"), &headers, body)
    };
    let first = post("", &[], body.as_bytes()).status(200).json();
    for (query, encoding, body) in [
        ("", &[][..], body.clone().into_bytes()),
        (
            "?j=true",
            &[("Content-Encoding", "gzip")],
            gzip(body.as_bytes()),
        ),
        ("?format=auto", &[], body.clone().into_bytes()),
    ] {
        let again = post(query, encoding, &body).status(200).json();
        assert_eq!(again["duplicate"], true, "{query}: {again}");
        assert_eq!(again["first_seq"], first["first_seq"]);
    }
    for query in [
        "?site=shop",
        "?format=combined",
        "?strict=true",
        "?tz=Asia/Tokyo",
        "?ordered=1",
    ] {
        let refused = post(query, &[], body.as_bytes()).status(422).json();
        assert_eq!(refused["error"]["code"], "key_reused", "{query}: {refused}");
    }
    post("", &[], (body.clone() + &body).as_bytes()).status(422);
    assert_eq!(server.number("SELECT count(*) FROM access"), 1);
}

/// Earlier versions remember a key with the body as it was sent, and nothing else.
#[test]
fn a_key_that_an_earlier_version_stored_is_known() {
    let home = Home::new();
    let body = line("203.0.113.1", PAST_S, "/", 200, 1);
    let sent = gzip(body.as_bytes());
    let received_us = chrono::Utc::now().timestamp_micros();
    let options = ingest::ParseOptions {
        received_us,
        ..ingest::ParseOptions::default()
    };
    let parsed = ingest::Parser::new(options).parse(body.as_bytes());
    let parsed = parsed.expect("a line");
    let batch = storage::Batch {
        stream: storage::Name::new("access").expect("a name"),
        kind: parsed.kind,
        received_us,
        source: "http".into(),
        events: parsed.events,
        quarantine: parsed.quarantine,
        identity: Some(storage::Identity::Key {
            key: "access\0old".into(),
            body_hash: xxhash_rust::xxh3::xxh3_64(&sent),
        }),
    };
    let data = std::path::Path::new(&home.data);
    let store = storage::Store::open(data, storage::Options::default()).expect("a store");
    let first = store.write(batch, storage::WriteConcern::JOURNALED);
    let first = first.expect("an acknowledgement");
    store.close().expect("a clean end");
    let server = Server::start(&home.data);
    let headers = [("Idempotency-Key", "old"), ("Content-Encoding", "gzip")];
    let again = server.post("/api/v1/ingest/access", &headers, &sent);
    let again = again.status(200).json();
    assert_eq!(again["duplicate"], true, "{again}");
    assert_eq!(again["first_seq"].as_u64(), first.first_seq);
    let other = server.post("/api/v1/ingest/access", &headers[..1], b"other");
    other.status(422);
    assert_eq!(server.number("SELECT count(*) FROM access"), 1);
}

/// A line of one byte takes hundreds of bytes in quarantine, and a site is repeated for each line.
#[test]
fn what_a_small_body_becomes_is_bounded() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let many = b"x\n".repeat(1 << 20);
    let post =
        |path: &str, body: &[u8]| server.post(path, &[("Content-Encoding", "gzip")], &gzip(body));
    let refused = post("/api/v1/ingest/web", &many).status(413).json();
    assert_eq!(refused["error"]["code"], "too_large", "{refused}");
    let short = b"h - - [10/Oct/2000:13:55:36 -0700] \"\" 200 0\n".repeat(300_000);
    let site = "s".repeat(1024);
    post(&format!("/api/v1/ingest/web?site={site}"), &short).status(413);
    post(
        &format!("/api/v1/ingest/web?format=plain&site={site}"),
        &many,
    )
    .status(413);
    // Each event has a column of its own, and takes space in the columns of all others too.
    let sparse: String = (0..6000).map(|i| format!("{{\"a{i}\":1}}\n")).collect();
    let journal_bytes = |home: &Home| {
        let files = std::fs::read_dir(home.path("data/journal")).expect("the journal");
        let len = |f: std::fs::DirEntry| f.metadata().expect("a file").len();
        files.map(|f| len(f.expect("a file"))).sum::<u64>()
    };
    assert!(journal_bytes(&home) < 1 << 20);
    let answer = server.post("/api/v1/ingest/docs", &[], sparse.as_bytes());
    assert!([200, 413].contains(&answer.status), "{}", answer.text());
    assert!(journal_bytes(&home) < 128 << 20);
    assert_eq!(server.number("SELECT count(*) FROM system.quarantine"), 0);
    // As many lines as a request may hold are accepted, and an import cuts its pieces by itself.
    let answer = post("/api/v1/ingest/web?format=combined", &many[..20_000]);
    assert_eq!(answer.status(200).json()["quarantined"], 10_000);
    let args = [
        "import", "-", "--stream", "web", "--format", "combined", "--output", "json",
    ];
    let args = [&args[..], &["--server", &server.url]].concat();
    let figures = run_with_input(&args, &many[..300_000]).code(0).json();
    assert_eq!(figures["quarantined"], 150_000);
    assert_eq!(
        figures["quarantined_by_reason"],
        json!({ "not_combined": 150_000 })
    );
}

#[test]
fn the_mark_of_utf_8_is_no_part_of_a_line() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let access = "\u{feff}".to_owned() + &line("2001:db8::17", PAST_S, "/", 200, 1);
    assert_eq!(server.ingest("access", &access)["accepted"], 1);
    let hosts = server.sql("SELECT host FROM access");
    assert_eq!(hosts, [json!({ "host": "2001:db8::17" })]);
    for format in ["auto", "json"] {
        let body = "\u{feff}{\"a\":1}\n{\"a\":2}\n";
        let answer = server.ingest(&format!("docs?format={format}"), body);
        assert_eq!(answer["accepted"], 2, "{answer}");
    }
    let file = home.file("a.log", access);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(home.import(&file, &["--format", "combined"])["accepted"], 1);
}

#[test]
fn compressed_standard_input_is_read_as_such() {
    let home = Home::new();
    let text = line("203.0.113.1", PAST_S, "/", 200, 1).repeat(50);
    let zst = zstd::encode_all(text.as_bytes(), 3).expect("memory");
    let mut bz2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    bz2.write_all(text.as_bytes()).expect("memory");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(text.as_bytes()).expect("memory");
    let packed = [
        gzip(text.as_bytes()),
        zst,
        bz2.finish().expect("memory"),
        xz.finish().expect("memory"),
    ];
    for input in packed {
        let args = ["import", "-", "--stream", "access", "--output", "json"];
        let figures = run_with_input(&[&args[..], &["--data", &home.data]].concat(), &input);
        let figures = figures.code(0).json();
        assert_eq!(
            (&figures["accepted"], &figures["bytes"]),
            (&json!(50), &json!(text.len()))
        );
    }
}

#[test]
fn a_file_of_nothing_and_one_of_a_very_long_line_are_explained() {
    let home = Home::new();
    let empty = home.file("empty.log", "");
    let told = run(&["parse", "--explain", &empty]).code(0).stdout;
    assert!(!told.contains("0 values"), "{told}");
    let good = line("203.0.113.1", PAST_S, "/", 200, 1);
    let long = "x".repeat(20 << 20) + "\n" + &good + &good;
    let file = home.file("long.log", long);
    let told = run(&["parse", "--explain", &file, "--output", "json"])
        .code(0)
        .json();
    assert_eq!(
        (&told["lines"], &told["events"], &told["quarantined"]),
        (&json!(3), &json!(2), &json!(1)),
        "{told}"
    );
}

#[test]
fn a_body_in_an_unknown_transfer_coding_is_refused_and_ends_its_connection() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for coding in ["gzip, chunked", "chunked, chunked", "identity"] {
        let answers = server.raw_whole(&format!(
            "POST /api/v1/ingest/access HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: {host}\r\n\r\n",
            host = server.address
        ));
        assert_eq!(
            answers.matches("HTTP/1.1 ").count(),
            1,
            "{coding}: {answers}"
        );
        let status = &answers[9..12];
        assert!(["400", "501"].contains(&status), "{coding}: {answers}");
    }
    assert_eq!(server.number("SELECT count(*) FROM system.streams"), 0);
}
