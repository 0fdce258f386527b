//! `parse --explain` and `import` of logs in every format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{Home, Server, assert_adds_up, run, test_data};

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

/// Lines of two blocks, of which the last alone would not tell its format.
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
    text += "no stamp in the last line\n";
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
    let bad = server.sql("SELECT reason FROM system.quarantine");
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert_eq!(bad[0]["reason"], "bad_time");
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
