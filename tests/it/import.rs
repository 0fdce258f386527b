//! `logmill import`: figures, compressed files, quarantine, exit codes.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Home, PAST_S, Server, assert_adds_up, base64, command, ended_within, fixture, fixture_bytes,
    line, run, run_with_input, sample,
};

fn counts(name: &str) -> Value {
    serde_json::from_slice(&fixture_bytes(name)).expect("counts of a fixture")
}

#[test]
fn the_sample_is_counted_as_it_was_made() {
    let home = Home::new();
    let wanted = counts("sample.counts.json");
    let figures = home.import(&sample(), &[]);
    for name in ["lines", "accepted", "quarantined", "empty", "bytes"] {
        assert_eq!(figures[name], wanted[name], "{name}");
    }
    let reasons = figures["quarantined_by_reason"].as_object();
    let reasons = reasons.expect("reasons").values().filter_map(Value::as_u64);
    assert_eq!(reasons.sum::<u64>(), figures["quarantined"], "{figures}");
    assert_eq!(home.count(), wanted["accepted"]);
    assert_eq!(
        home.number("SELECT count(*) FROM system.quarantine"),
        wanted["quarantined"]
    );
    let forms = home.sql(
        "SELECT count(*) FILTER (WHERE user_agent IS NULL AND referrer IS NULL AND extra IS NOT NULL) AS common, \
         count(*) FILTER (WHERE extra IS NOT NULL) AS extra FROM access",
    );
    let of = |name: &str| {
        wanted["forms"][name]
            .as_u64()
            .expect("a form of the sample")
    };
    assert_eq!(forms[0]["common"], of("common+extra"));
    assert_eq!(forms[0]["extra"], of("common+extra") + of("combined+extra"));
    // The sequence has no hole: accepted and quarantined lines share it.
    let seqs = home.sql(
        "SELECT count(*) AS n, max(s) - min(s) + 1 AS span, count(DISTINCT s) AS d FROM \
         (SELECT _seq AS s FROM access UNION ALL SELECT _seq AS s FROM system.quarantine) AS both",
    );
    let items = of("combined") + of("common") + of("combined+extra") + of("common+extra") + 22;
    assert_eq!(seqs[0], json!({ "n": items, "span": items, "d": items }));
}

#[test]
fn a_store_lies_wherever_its_path_leads() {
    let home = Home::new();
    home.import(&sample(), &[]);
    let asked = "SELECT host, path, status FROM access ORDER BY time, _seq LIMIT 5";
    let wanted = run(&["sql", "--data", &home.data, asked]).code(0).stdout;
    std::fs::create_dir_all(home.path("deep er/ä%2E")).expect("made");
    for by in ["deep er/../data", "deep er/ä%2E/../../data", "./data"] {
        let found = run(&["sql", "--data", &home.path(by), asked]).code(0);
        assert_eq!(found.stdout, wanted, "{by}");
    }
}

#[test]
fn the_documents_are_counted_as_they_were_made() {
    let home = Home::new();
    let wanted = counts("documents.counts.json");
    let file = fixture("documents.ndjson").display().to_string();
    let figures = home.import(&file, &["--format", "json"]);
    for name in ["lines", "accepted", "quarantined", "empty"] {
        assert_eq!(figures[name], wanted[name], "{name}");
    }
    let auto = Home::new();
    assert_eq!(auto.import(&file, &[])["accepted"], wanted["accepted"]);
    let rows = home.sql("SELECT time_source AS s, count(*) AS n FROM access GROUP BY 1");
    for row in rows {
        let source = row["s"].as_str().unwrap_or("field");
        assert_eq!(row["n"], wanted["time_source"][source], "{source}");
    }
    assert_eq!(
        home.number("SELECT sum(hits) FROM access_traffic.yearly"),
        wanted["accepted"]
    );
    // Nested fields by dotted name, and two types under one name.
    assert_eq!(
        home.number(r#"SELECT count(*) FROM access WHERE "http.status" = 404"#),
        21
    );
    let motley = home.number(
        "SELECT count(*) FROM access WHERE service = 'motley' AND (value IS NOT NULL OR attr(_rest, 'value') IS NOT NULL)",
    );
    // Eighteen values, of which one is null; an object becomes `value.deep`.
    assert_eq!(motley, 16);
}

#[test]
fn compressed_files_are_read_as_such() {
    let home = Home::new();
    let plain = fixture_bytes("sample.log");
    let (first, second) = plain.split_at(plain.len() / 3);
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    };
    let zst = |bytes: &[u8]| zstd::encode_all(bytes, 3).expect("memory");
    let bz2 = |bytes: &[u8]| {
        let mut out = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    };
    let xz = |bytes: &[u8]| {
        let mut out = liblzma::write::XzEncoder::new(Vec::new(), 6);
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    };
    let wanted = counts("sample.counts.json");
    for (ending, packed) in [
        ("gz", [gzip(first), gzip(second)]),
        ("zst", [zst(first), zst(second)]),
        ("bz2", [bz2(first), bz2(second)]),
        ("xz", [xz(first), xz(second)]),
    ] {
        // Two members one after the other, as appended logs have them.
        let file = home.file(&format!("sample.log.{ending}"), packed.concat());
        // The content is the same each time, and known.
        let figures = home.import(&file, &["--again"]);
        for name in ["lines", "accepted", "quarantined", "empty", "bytes"] {
            assert_eq!(figures[name], wanted[name], "{ending}: {name}");
        }
        assert_eq!(
            home.import(&file, &[])["skipped"],
            wanted["lines"],
            "{ending}"
        );
    }
    assert_eq!(
        home.count(),
        4 * wanted["accepted"].as_u64().expect("a number")
    );
    let cut = home.file("cut.log.gz", &gzip(&plain)[..2000]);
    let args = ["import", &cut, "--stream", "access", "--data", &home.data];
    let told = run(&args).code(1);
    assert!(told.stderr.contains("cut.log.gz"), "{}", told.stderr);
}

#[test]
fn standard_input_is_imported_each_time() {
    let home = Home::new();
    let lines = fixture_bytes("sample.log");
    for round in 1..=2_u64 {
        let args = [
            "import", "-", "--stream", "access", "--data", &home.data, "--output", "json",
        ];
        let figures = run_with_input(&args, &lines).code(0).json();
        assert_adds_up(&figures);
        assert_eq!(figures["accepted"], 619);
        assert_eq!(home.count(), round * 619);
    }
}

#[test]
fn strict_takes_whole_lines_only_and_ends_with_3() {
    let home = Home::new();
    let file = sample();
    let args = [
        "import", &file, "--stream", "access", "--data", &home.data, "--strict", "--output", "json",
    ];
    let figures = run(&args).code(3).json();
    assert_adds_up(&figures);
    // The eight lines that have more behind the record are whole lines of no format.
    assert_eq!(figures["accepted"], 619 - 8);
    assert_eq!(figures["quarantined"], 22 + 8);
    assert_eq!(home.count(), 611);
    let good = Home::new();
    let whole = good.file("good.log", line("203.0.113.1", PAST_S, "/", 200, 1));
    let figures = good.import(&whole, &["--strict"]);
    assert_eq!(figures["accepted"], 1);
}

#[test]
fn when_no_format_fits_plain_is_named_and_works() {
    let home = Home::new();
    let text = "the first words\n\nthe second words\n";
    let file = home.file("words.txt", text);
    let args = [
        "import", &file, "--stream", "notes", "--data", &home.data, "--output", "json",
    ];
    let told = run(&args).code(1);
    assert!(told.stderr.contains("--format plain"), "{}", told.stderr);
    let figures = told.json();
    assert_adds_up(&figures);
    assert_eq!(
        (&figures["quarantined"], &figures["accepted"]),
        (&json!(2), &json!(0))
    );
    // Nothing has decided yet what the stream holds, so it takes no names from an access log.
    let streams = home.sql("SELECT name FROM system.streams WHERE name = 'notes'");
    assert!(streams.is_empty(), "{streams:?}");
    // The command that the message recommends works.
    assert!(
        told.stderr.contains("--format plain --again"),
        "{}",
        told.stderr
    );
    let figures = run(&[&args[..], &["--format", "plain", "--again"]].concat())
        .code(0)
        .json();
    assert_eq!(
        (&figures["accepted"], &figures["empty"]),
        (&json!(2), &json!(1))
    );
    let rows = home.sql("SELECT line FROM notes ORDER BY _seq");
    assert_eq!(
        rows,
        [
            json!({ "line": "the first words" }),
            json!({ "line": "the second words" })
        ]
    );
    let hits = home.sql("SELECT count(*) AS n FROM notes WHERE time IS NULL");
    assert_eq!(hits[0]["n"], 0);
    let kinds = home.sql("SELECT kind FROM system.streams WHERE name = 'notes'");
    assert_eq!(kinds[0]["kind"], "documents");
}

#[test]
fn a_missing_file_is_named_before_anything_is_taken() {
    let home = Home::new();
    let (good, missing) = (sample(), home.path("nowhere.log"));
    let args = [
        "import", &good, &missing, "--stream", "access", "--data", &home.data,
    ];
    let told = run(&args).code(1);
    assert!(told.stderr.contains("nowhere.log"), "{}", told.stderr);
    assert!(!std::path::Path::new(&home.data).exists());
}

#[test]
fn a_folder_of_years_is_imported_once_and_goes_on_where_it_ended() {
    let home = Home::new();
    let logs = home.path("logs");
    std::fs::create_dir_all(format!("{logs}/2023")).expect("a folder");
    let day = |days: u64| std::time::SystemTime::now() - Duration::from_secs(days * 86_400);
    let write = |name: &str, path: &str, days: u64| {
        let lines: String = (0..100)
            .map(|n| line("203.0.113.9", PAST_S, &format!("{path}/{n}"), 200, 1))
            .collect();
        let name = format!("{logs}/{name}");
        let file = std::fs::File::create(&name).expect("a log");
        match name.ends_with(".gz") {
            true => {
                let mut packed = flate2::write::GzEncoder::new(&file, flate2::Compression::fast());
                Write::write_all(&mut packed, lines.as_bytes()).expect("a write");
                packed.finish().expect("a write");
            }
            false => Write::write_all(&mut &file, lines.as_bytes()).expect("a write"),
        }
        file.set_modified(day(days)).expect("a time");
    };
    write("2023/web.log.9.gz", "/oldest", 400);
    write("web.log.1", "/older", 2);
    write("web.log", "/new", 0);
    let import = |more: &[&str]| home.import(&logs, more);
    let figures = import(&["--since", "30d"]);
    assert_eq!(
        (&figures["accepted"], &figures["files_older"]),
        (&200.into(), &1.into())
    );
    // The events are in the order of the files, which is that of their ages.
    let first = home.sql("SELECT path FROM access ORDER BY _seq LIMIT 1");
    assert_eq!(first[0]["path"], "/older/0");
    let figures = import(&[]);
    assert_eq!(
        (&figures["accepted"], &figures["skipped"]),
        (&100.into(), &200.into())
    );
    assert_eq!(
        home.number("SELECT count(DISTINCT path) AS n FROM access"),
        300
    );
    let pattern = format!("{logs}/*.log");
    assert_eq!(home.import(&pattern, &[])["skipped"], 100);
    let none = [
        "import",
        &format!("{logs}/*.txt"),
        "--stream",
        "access",
        "--data",
        &home.data,
    ];
    assert!(run(&none).code(1).stderr.contains("no file matches"));
}

#[test]
fn wrong_usage_ends_with_2() {
    let home = Home::new();
    let file = sample();
    for wrong in [
        &["--stream", "Not A Name"][..],
        &["--stream", "_quarantine"],
        &["--stream", "access", "--format", "nonsense"],
        &["--stream", "access", "--w", "2"],
        &["--stream", "access", "--tz", "Atlantis/Capital"],
        &["--stream", "access", "--nonsense"],
        &[],
    ] {
        let told = run(&[&["import", &file, "--data", &home.data], wrong].concat()).code(2);
        assert!(!told.stderr.is_empty());
        assert!(!std::path::Path::new(&home.data).exists(), "{wrong:?}");
    }
}

#[test]
fn quarantine_keeps_raw_bytes() {
    let home = Home::new();
    let good = line("203.0.113.1", PAST_S, "/", 200, 1).into_bytes();
    let mut long = vec![b'x'; 1 << 20];
    long[77] = 0xfe;
    let bad: Vec<Vec<u8>> = vec![
        b"\0\0 NUL \0 and more".to_vec(),
        b"\xff\xfe\xc0\xaf\xed\xa0\x80".to_vec(),
        (0..=255).filter(|b| *b != b'\n').collect(),
        long,
        b"a carriage return \r inside".to_vec(),
    ];
    let mut file = Vec::new();
    let mut starts = Vec::new();
    for item in &bad {
        file.extend_from_slice(&good);
        starts.push(file.len());
        file.extend_from_slice(item);
        file.push(b'\n');
    }
    let path = home.file("bad.log", &file);
    let figures = home.import(&path, &[]);
    assert_eq!(
        (&figures["accepted"], &figures["quarantined"]),
        (&json!(5), &json!(5))
    );
    let rows = home.sql(
        "SELECT raw, line, byte, source, stream, reason, detail FROM system.quarantine ORDER BY line",
    );
    assert_eq!(rows.len(), bad.len());
    for (i, (row, item)) in rows.iter().zip(&bad).enumerate() {
        let raw = base64(row["raw"].as_str().expect("bytes as text"));
        assert!(
            raw == *item,
            "line {}: {} bytes kept of {}",
            row["line"],
            raw.len(),
            item.len()
        );
        assert_eq!(
            (&row["line"], &row["byte"]),
            (&json!(2 * i + 2), &json!(starts[i]))
        );
        assert_eq!(
            (&row["source"], &row["stream"]),
            (&json!(path), &json!("access"))
        );
        assert!(row["reason"].as_str().is_some_and(|r| !r.is_empty()));
        assert!(row["detail"].as_str().is_some_and(|d| !d.is_empty()));
    }
    let listed = run(&["quarantine", "list", "--data", &home.data]).code(0);
    assert!(listed.stdout.contains("not_combined"), "{}", listed.stdout);
}

#[test]
fn an_event_of_the_future_is_quarantined() {
    let home = Home::new();
    let now = chrono::Utc::now().timestamp();
    let lines = line("203.0.113.1", now + 300, "/soon", 200, 1)
        + &line("203.0.113.1", now + 3600, "/later", 200, 1);
    let figures = home.import(&home.file("future.log", lines), &[]);
    assert_eq!(
        (&figures["accepted"], &figures["quarantined"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(figures["quarantined_by_reason"], json!({ "future": 1 }));
}

/// The file is read ahead by a thread of its own, which must end with the import that failed.
#[test]
fn an_import_that_fails_in_the_middle_of_a_long_file_ends() {
    let home = Home::new();
    let small = [("LOGMILL_SERVER__BATCH_BYTES_MAX", "1MiB")];
    let server = Server::start_with(&home.data, &small);
    let file = home.file("long.log", ("m".repeat(1023) + "\n").repeat(40 << 10));
    let mut import = command()
        .args([
            "import",
            &file,
            "--stream",
            "access",
            "--server",
            &server.url,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an import");
    let ended = ended_within(&mut import, Duration::from_secs(20));
    if ended.is_none() {
        import.kill().expect("a signal to our own child");
        import.wait().expect("the killed import ends");
    }
    assert_eq!(ended, Some(1), "a refused import goes on for ever");
}
