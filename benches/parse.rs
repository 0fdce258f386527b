//! Parsing of real logs on one core: lines and bytes a second by format.
//!
//!     LOGMILL_TEST_DATA=FOLDER cargo bench --bench parse -- [--mib 64] [--runs 5]
//!
//! Each log is repeated to `--mib` MiB and parsed in blocks as an import cuts them, to the columns
//! that a store takes. The clock is the kernel's account of the thread's CPU time, and the figure
//! the best of `--runs`. Beside it are the counting of line ends (`wc -l`), for access logs the
//! crate `regex` with an expression for the whole line, of which each group is copied, and for JSON
//! the crates `arrow-json`, which makes columns too (of a schema that it has found out before the
//! clock runs), and `serde_json`, whose trees are dropped line by line.

use std::hint::black_box;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema;
use ingest::{BLOCK_BYTES, Format, ParseOptions, Parser};
use regex::bytes::Regex;

/// Formats, each with a log of the test data.
const CASES: [(&str, &str); 13] = [
    ("combined", "access/elastic_apache_logs.log.zst"),
    ("common", "access/ezproxy_medium.log.zst"),
    ("apache:combined", "access/elastic_apache_logs.log.zst"),
    ("json", "json/wikipedia_edits_part1.ndjson.zst"),
    ("json", "json/github_events_2021-07-21T06-07.ndjson.zst"),
    ("logfmt", "edge/lnav_logfile_logfmt.0"),
    ("syslog", "syslog/loghub_OpenSSH_2k.log"),
    ("apache_error", "apps/loghub_Apache_2k.log"),
    (
        r"regex:(?<time>\S+ \S+) - (?<level>\w+) +\[(?<thread>.*)\] - (?<line>.*)",
        "apps/loghub_Zookeeper_2k.log",
    ),
    (
        r"grok:%{TIMESTAMP_ISO8601:time} - %{LOGLEVEL:level} +\[%{DATA:thread}\] - %{GREEDYDATA:line}",
        "apps/loghub_Zookeeper_2k.log",
    ),
    ("w3c", "edge/matomo_iis.log"),
    ("plain", "apps/loghub_HDFS_2k.log"),
    ("auto", "access/netnea_extended_2013.log.zst"),
];

/// Formats of which the test data has no log, each with a line of its documentation's form.
const MADE: [(&str, &str); 4] = [
    (
        "alb",
        r#"https 2026-07-02T22:23:00.186641Z app/lb/50dc 192.0.2.7:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.org:443/a/b?c=d HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:eu-west-1:1:targetgroup/t/7 "Root=1-5833-abc" "www.example.org" "arn:aws:acm:eu-west-1:1:certificate/1" 0 2026-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1"#,
    ),
    (
        "s3_access",
        r#"7cd47ef2be79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e logs [06/Feb/2026:00:01:57 +0000] 192.0.2.3 arn:aws:iam::1:user/u DD6CC733 REST.GET.OBJECT a/c.txt "GET /logs/a/c.txt?versionId=3 HTTP/1.1" 206 - 4406 3462992 70 10 "-" "S3Console/0.4" - s9lzHY= SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader logs.s3.eu-west-1.amazonaws.com TLSV1.2 - -"#,
    ),
    (
        "haproxy",
        r#"Feb  6 12:14:14 lb1 haproxy[14389]: 192.0.2.7:33317 [06/Feb/2026:12:14:14.655] http-in~ static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {example.org} {} "GET /index.html?a=b HTTP/1.1""#,
    ),
    (
        "csv:time,level,host,status,bytes,took,message",
        r#"2026-11-26T09:00:00.123Z,info,192.0.2.7,200,15824,0.043,"a message, with a comma""#,
    ),
];

const COMBINED: &str = r#"^(\S+) (\S+) (\S+) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"$"#;

/// Passes over a log that count its line ends.
const PASSES: u32 = 32;

fn main() {
    let (mut mib, mut runs) = (64_usize, 5_usize);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().and_then(|v| v.parse().ok()).expect("a number");
        match arg.as_str() {
            "--mib" => mib = value(),
            "--runs" => runs = value(),
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    let Some(data) = std::env::var_os("LOGMILL_TEST_DATA").map(PathBuf::from) else {
        println!("skipped: LOGMILL_TEST_DATA does not name a folder of real logs");
        return;
    };
    println!(
        "| format | log | million lines/s | MB/s | lines that are no events |\n|---|---|---|---|---|"
    );
    for (format, log) in CASES {
        let (text, lines) = repeated(&data.join(log), mib << 20);
        measure(format, log, (&text, lines), runs);
    }
    for (_, log) in CASES.into_iter().filter(|(format, _)| *format == "json") {
        let (text, lines) = repeated(&data.join(log), mib << 20);
        let schema = Arc::new(schema_of(&text));
        let columns = || by_arrow_json(&schema, &text);
        row(
            "crate arrow-json",
            log,
            (&text, lines),
            best(runs, columns),
            "",
        );
        let trees = best(runs, || by_serde_json(&text));
        row("crate serde_json", log, (&text, lines), trees, "");
    }
    for (format, line) in MADE {
        let lines = (mib << 20) / (line.len() + 1);
        let text = format!("{line}\n").repeat(lines).into_bytes();
        measure(format, "one line", (&text, lines), runs);
    }
    let (text, lines) = repeated(&data.join(CASES[0].1), mib << 20);
    // One pass takes less than the clock of some kernels can tell.
    let count = || {
        for _ in 0..PASSES {
            black_box(memchr::memchr_iter(b'\n', black_box(&text)).count());
        }
    };
    row(
        "line ends alone",
        CASES[0].1,
        (&text, lines),
        best(runs, count) / f64::from(PASSES),
        "",
    );
    let regex = Regex::new(COMBINED).expect("an expression");
    row(
        "crate regex",
        CASES[0].1,
        (&text, lines),
        best(runs, || by_regex(&regex, &text)),
        "",
    );
}

fn measure(format: &str, log: &str, (text, lines): (&[u8], usize), runs: usize) {
    // A pattern or a header is too long for a table.
    let name = match format.split_once(':') {
        Some((name @ ("regex" | "grok" | "csv"), _)) => name,
        _ => format,
    };
    let mut bad = 0;
    let seconds = best(runs, || bad = parsed(format, text));
    row(name, log, (text, lines), seconds, &bad.to_string());
}

fn row(name: &str, log: &str, (text, lines): (&[u8], usize), seconds: f64, bad: &str) {
    let log = Path::new(log)
        .file_name()
        .expect("a file")
        .to_string_lossy();
    let (lines, megabytes) = (
        lines as f64 / seconds / 1e6,
        text.len() as f64 / seconds / 1e6,
    );
    println!("| {name} | {log} | {lines:.2} | {megabytes:.0} | {bad} |");
}

/// Returns whole lines of a log, again and again up to a number of bytes, and their number.
fn repeated(log: &Path, bytes: usize) -> (Vec<u8>, usize) {
    let mut once = Vec::new();
    let mut source = ingest::open(log).expect("a log");
    source.read_to_end(&mut once).expect("a log");
    if !once.ends_with(b"\n") {
        once.push(b'\n');
    }
    let text = once.repeat(bytes.div_ceil(once.len()));
    let lines = memchr::memchr_iter(b'\n', &text).count();
    (text, lines)
}

/// Parses a log in blocks. Returns the number of lines that are no events.
fn parsed(format: &str, text: &[u8]) -> u64 {
    let mut parser = Parser::new(ParseOptions {
        format: format.parse::<Format>().expect("a format"),
        received_us: 1_900_000_000_000_000,
        ..ParseOptions::default()
    });
    let (mut rest, mut bad) = (text, 0);
    while !rest.is_empty() {
        let cut = rest.len().min(BLOCK_BYTES);
        let end = memchr::memrchr(b'\n', &rest[..cut]).map_or(rest.len(), |at| at + 1);
        let block = parser.parse(&rest[..end]).expect("a block of lines");
        bad += block.lines - block.events.num_rows() as u64;
        black_box(block.events);
        rest = &rest[end..];
    }
    bad
}

/// Copies each group of each line, as columns of text would.
fn by_regex(regex: &Regex, text: &[u8]) {
    let mut columns: Vec<Vec<u8>> = vec![Vec::new(); 9];
    let mut places = regex.capture_locations();
    for line in text.split(|b| *b == b'\n') {
        if regex.captures_read(&mut places, line).is_none() {
            continue;
        }
        for (group, column) in columns.iter_mut().enumerate() {
            if let Some((from, to)) = places.get(group + 1) {
                column.extend_from_slice(&line[from..to]);
            }
        }
    }
    black_box(columns);
}

fn schema_of(text: &[u8]) -> Schema {
    let (schema, _) = infer_json_schema(Cursor::new(text), None).expect("JSON");
    schema
}

/// Makes columns of all fields, in batches of as many rows as a block has.
fn by_arrow_json(schema: &SchemaRef, text: &[u8]) {
    let reader = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(8192);
    for batch in reader.build(Cursor::new(text)).expect("a reader") {
        black_box(batch.expect("columns"));
    }
}

fn by_serde_json(text: &[u8]) {
    for line in text.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        black_box(serde_json::from_slice::<serde_json::Value>(line).expect("JSON"));
    }
}

/// Returns the least CPU time of some runs, in seconds.
fn best(runs: usize, mut run: impl FnMut()) -> f64 {
    // The first number is the nanoseconds that the thread has spent on a CPU (proc(5)).
    let now = || {
        let account = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        let spent = account
            .split(' ')
            .next()
            .and_then(|ns| ns.parse::<f64>().ok());
        spent.expect("a number") / 1e9
    };
    let times = (0..runs.max(1)).map(|_| {
        let began = now();
        run();
        now() - began
    });
    times.fold(f64::INFINITY, f64::min)
}
