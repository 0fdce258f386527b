//! `parse --explain` and `import` of logs in every format.

mod edge;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{Home, PAST_S, Server, assert_adds_up, line, run, test_data};

/// Returns the explanation of a file.
fn explained(file: &Path) -> Value {
    let file = file.to_str().expect("UTF-8");
    let told = run(&["parse", "--explain", file, "--output", "json"]);
    let explained = told.json();
    // The exit code says that no format fits.
    let nothing_fits = explained["events"] == 0 && explained["quarantined"] != 0;
    told.code(i32::from(nothing_fits));
    explained
}

/// The files of a folder and those below it.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let below = |path: std::path::PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    };
    paths.into_iter().flat_map(below).collect()
}

/// The format of each real log that is neither an access log nor JSON; `None` where none fits.
const CHOSEN: [(&str, Option<&str>); 17] = [
    ("apps/loghub_Android_2k.log", None),
    ("apps/loghub_Apache_2k.log", Some("apache_error")),
    ("apps/loghub_BGL_2k.log", None),
    ("apps/loghub_HDFS_2k.log", None),
    ("apps/loghub_HealthApp_2k.log", None),
    ("apps/loghub_OpenStack_2k.log", None),
    ("apps/loghub_Zookeeper_2k.log", None),
    ("edge/lnav_logfile_epoch.0", None),
    ("edge/lnav_logfile_logfmt.0", Some("logfmt")),
    ("edge/lnav_logfile_multiline.0", None),
    ("syslog/lnav_logfile_bad_syslog.0", Some("syslog")),
    ("syslog/lnav_logfile_syslog.0", Some("syslog")),
    ("syslog/lnav_logfile_syslog.1", Some("syslog")),
    ("syslog/lnav_logfile_syslog.3", Some("syslog")),
    ("syslog/lnav_logfile_with_zones.0", Some("syslog")),
    ("syslog/loghub_Linux_2k.log", Some("syslog")),
    ("syslog/loghub_OpenSSH_2k.log", Some("syslog")),
];

#[test]
fn every_real_log_is_read_without_a_silent_loss() {
    let Some(folder) = test_data() else { return };
    let mut table = String::new();
    let mut chosen: BTreeMap<String, String> = BTreeMap::new();
    for file in files(&folder)
        .iter()
        .filter(|file| !file.ends_with("README.md"))
    {
        let told = explained(file);
        let number = |name: &str| told[name].as_u64().expect("a number");
        let sum = number("events") + number("quarantined") + number("empty");
        assert_eq!(number("lines"), sum, "{}", file.display());
        let reasons: u64 = told["reasons"]
            .as_array()
            .expect("reasons")
            .iter()
            .map(|r| r[1].as_u64().expect("a number"))
            .sum();
        assert_eq!(number("quarantined"), reasons, "{}", file.display());
        let name = file
            .strip_prefix(&folder)
            .expect("below the folder")
            .display()
            .to_string();
        let format = told["format"].as_str().expect("a format").to_owned();
        writeln!(
            table,
            "| `{name}` | {format} | {} | {} | {} |",
            number("lines"),
            number("events"),
            told["reasons"]
        )
        .expect("a text");
        chosen.insert(name, format);
    }
    println!("{table}");
    for (name, expected) in CHOSEN {
        assert_eq!(
            chosen.get(name).map(String::as_str),
            Some(expected.unwrap_or("auto")),
            "{name}"
        );
    }
}

/// Lines of several blocks, of which the last would not tell their format.
#[test]
fn a_file_keeps_its_format_through_a_server() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let line = |n: usize| {
        format!(
            "Nov {} 09:23:38 web{} app[{n}]: {}\n",
            1 + n % 28,
            n % 3,
            "x".repeat(90)
        )
    };
    let mut text: String = (0..60_000).map(line).collect();
    const BAD: usize = 30_000;
    text += &format!("{}\n", "no stamp ".repeat(16)).repeat(BAD);
    let file = home.file("messages", &text);
    let import = ["import", &file, "--stream", "messages", "--year", "2024"];
    let place = ["--server", &server.url, "--output", "json"];
    let figures = run(&[&import[..], &place].concat()).code(0).json();
    assert_adds_up(&figures);
    assert_eq!(server.number("SELECT count(*) FROM messages"), 60_000);
    assert_eq!(
        server.number("SELECT count(DISTINCT pid) FROM messages"),
        60_000
    );
    let years = "SELECT DISTINCT extract(year FROM time)::bigint FROM messages";
    assert_eq!(server.number(years), 2024);
    assert_eq!(
        figures["quarantined_by_reason"],
        serde_json::json!({ "bad_time": BAD })
    );
}

#[test]
fn a_message_by_http_has_its_columns() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest(
        "mixed?format=syslog&year=2023",
        "<13>Nov  3 09:23:38 web1 app[42]: text\n",
    );
    let rows = server.sql("SELECT time, host, app, pid, level, line FROM mixed");
    let expected = serde_json::json!([{
        "time": "2023-11-03T09:23:38Z", "host": "web1", "app": "app", "pid": 42,
        "level": "notice", "line": "text",
    }]);
    assert_eq!(Value::Array(rows), expected);
    let refused = server
        .post("/api/v1/ingest/mixed?format=syslog&year=123456", &[], b"x")
        .status(400);
    assert!(refused.text().contains("year=123456"), "{}", refused.text());
}

/// Lines of a `log_format` with times: request and upstream, the latter sometimes of two servers.
fn timed(n: i64) -> String {
    let line = line(
        &format!("203.0.113.{}", n % 5),
        PAST_S + n * 7,
        "/p",
        200,
        10,
    );
    let upstream = match n % 3 {
        0 => "-".to_owned(),
        1 => format!("0.{:03}", n % 500),
        _ => format!("0.250, 0.{:03}", n % 500),
    };
    format!("{} {}.{:03} {upstream}\n", line.trim_end(), n % 4, n % 1000)
}

/// Returns the sum of the fields of [`timed`], in thousandths.
fn sums(range: std::ops::Range<i64>) -> (i64, i64) {
    let upstream = |n: i64| match n % 3 {
        0 => 0,
        1 => n % 500,
        _ => 250 + n % 500,
    };
    let request = |n: i64| n % 4 * 1000 + n % 1000;
    (range.clone().map(request).sum(), range.map(upstream).sum())
}

#[test]
fn a_log_format_with_times_enters_queries_and_rollups() {
    let home = Home::new();
    let config = r#"[stream.web]
format = "nginx:timed"
[rollup.times]
stream = "web"
by = ["path"]
levels = ["minute", "hour", "day"]
[rollup.times.measures]
hits = "count"
spent = "sum(request_time)"
upstream = "sum(upstream_response_time)"
slow = { histogram = "request_time", digits = 2 }
"#;
    let config = home.file("logmill.toml", config);
    let text: String = (0..1000).map(timed).collect();
    let file = home.file("web.log", text + "a line of something else\n");
    let import = ["import", &file, "--stream", "web", "--output", "json"];
    let place = ["--data", &home.data, "--config", &config];
    let figures = run(&[&import[..], &place].concat()).code(0).json();
    assert_adds_up(&figures);
    assert_eq!(figures["accepted"], 1000);
    assert_eq!(
        figures["quarantined_by_reason"]["not_the_pattern"], 1,
        "{figures}"
    );
    let (request, upstream) = sums(0..1000);
    let milli =
        |row: &Value, name: &str| (row[name].as_f64().expect("a number") * 1e3).round() as i64;
    for sql in [
        "SELECT sum(request_time) AS a, sum(upstream_response_time) AS b FROM web",
        "SELECT sum(spent) AS a, sum(upstream) AS b FROM times.daily",
        "SELECT sum(spent) AS a, sum(upstream) AS b FROM times.minutely",
    ] {
        let row = &home.sql(sql)[0];
        assert_eq!(
            (milli(row, "a"), milli(row, "b")),
            (request, upstream),
            "{sql}"
        );
    }
    let count = |sql: &str| home.number(sql);
    assert_eq!(
        count("SELECT count(*) FROM web WHERE upstream_response_time_each IS NOT NULL"),
        333
    );
    assert_eq!(
        count("SELECT count(*) FROM web WHERE upstream_response_time IS NULL"),
        334
    );
    // It is an access log like any other.
    assert_eq!(
        count("SELECT count(*) FROM web WHERE status = 200 AND method = 'GET'"),
        1000
    );
    let verified = run(&[
        "rollup", "verify", "--data", &home.data, "--config", &config,
    ]);
    verified.code(0);
}

#[test]
fn lines_of_a_log_format_wait_in_quarantine_until_it_is_named() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let text: String = (0..10)
        .map(|n| format!("{n}|{}|203.0.113.7|GET /x HTTP/1.1|200\n", PAST_S + n))
        .collect();
    let refused = server
        .post("/api/v1/ingest/web", &[], text.as_bytes())
        .status(400);
    assert!(
        refused.text().contains("known format"),
        "{}",
        refused.text()
    );
    let format = "nginx:$connection|$msec|$remote_addr|$request|$status";
    let replay = [
        "quarantine",
        "replay",
        "--server",
        &server.url,
        "--format",
        format,
        "--output",
        "json",
    ];
    let report = run(&replay).code(0).json();
    assert_eq!(report["replayed"], 10, "{report}");
    let rows = server.sql("SELECT count(*) AS n, sum(connection) AS c, min(path) AS p FROM web");
    assert_eq!(rows[0], serde_json::json!({ "n": 10, "c": 45, "p": "/x" }));
    // The same by HTTP, through a client that escapes the name.
    let encoded: String = format.bytes().map(|b| format!("%{b:02X}")).collect();
    let answer = server.ingest(&format!("web?format={encoded}"), &text);
    assert_eq!(answer["accepted"], 10);
    let wrong = server
        .post("/api/v1/ingest/web?format=nginx:%24x", &[], b"x")
        .status(400);
    assert!(wrong.text().contains("it has no time"), "{}", wrong.text());
}

/// Real logs in formats that no entry of the table has: each line by an expression.
#[test]
fn real_logs_are_read_by_an_expression() {
    let Some(folder) = test_data() else { return };
    for (file, regex, events) in [
        (
            "apps/loghub_Zookeeper_2k.log",
            r"regex:(?<time>\S+ \S+) - (?<level>\w+) +\[(?<thread>.*)\] - (?<line>.*)",
            2000,
        ),
        (
            "apps/loghub_HDFS_2k.log",
            r"regex:(?<time:%y%m%d %H%M%S>\d+ \d+) (?<pid:int>\d+) (?<level>\w+) (?<logger>\S+): (?<line>.*)",
            2000,
        ),
        (
            "apps/loghub_OpenStack_2k.log",
            r"regex:(?<file>\S+) (?<time>\S+ \S+) (?<pid:int>\d+) (?<level>\w+) (?<logger>\S+) \[(?<request>.*?)\] (?<line>.*)",
            2000,
        ),
        (
            "apps/loghub_BGL_2k.log",
            r"regex:(?<alert>\S+) (?<time>\d+) \S+ (?<node>\S+) \S+ \S+ (?<kind>\S+) (?<component>\S+) (?<level>\S+) ?(?<line>.*)",
            2000,
        ),
        (
            "apps/loghub_HealthApp_2k.log",
            r"regex:(?<time:%Y%m%d-%H:%M:%S:%3f>[^|]*)\|(?<component>[^|]*)\|(?<pid:int>[^|]*)\|(?<line>.*)",
            0,
        ),
    ] {
        let path = folder.join(file);
        let path = path.to_str().expect("UTF-8");
        let home = Home::new();
        let import = [
            "import", path, "--stream", "app", "--format", regex, "--output", "json",
        ];
        let place = ["--data", home.data.as_str(), "--complete"];
        let told = run(&[&import[..], &place].concat());
        let figures = told.json();
        assert_adds_up(&figures);
        println!("{file}: {} of {}", figures["accepted"], figures["lines"]);
        let accepted = figures["accepted"].as_u64().expect("a number");
        assert!(accepted >= events, "{file}: {figures}");
        assert_eq!(
            home.number("SELECT count(*) FROM app WHERE line IS NOT NULL"),
            accepted
        );
    }
}

#[test]
fn a_log_in_utf_16_is_imported_once() {
    let home = Home::new();
    let wide = |lines: std::ops::Range<i64>| -> Vec<u8> {
        let text: String = lines
            .map(|n| format!("level=info msg=\"größe\" n={n}\r\n"))
            .collect();
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    for (lines, new) in [(0..100, 100), (0..100, 0), (0..250, 150)] {
        let file = home.file("app.log", wide(lines));
        let args = [
            "import", &file, "--stream", "app", "--data", &home.data, "--output", "json",
        ];
        let figures = run(&args).code(0).json();
        assert_adds_up(&figures);
        assert_eq!(figures["accepted"], new, "{figures}");
    }
    let row = &home.sql("SELECT count(*) AS n, sum(n) AS s, min(msg) AS m FROM app")[0];
    assert_eq!(
        *row,
        serde_json::json!({ "n": 250, "s": 31125, "m": "größe" })
    );
}
