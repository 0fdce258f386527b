//! Values that a stream anonymises go through every way into a store, and are found nowhere in it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Answer, Home, Server, base64, command, run};

/// The values that no store may have, as parts that no other text of the tests has.
const SECRETS: [&str; 3] = ["113.77", "5:6:789a", "frank-the-reader"];
const KEY: &str = "a key of 32 bytes or more, for the tests";
const NETWORK: &str = "203.0.113.0";

const CONFIG: &str = r#"
[ingest]
hash_key_file = "KEY"
[storage]
lag = "1h"
[stream.web]
format = "combined"
anonymise = { host = "truncate", user = "hash" }
[stream.docs]
anonymise = { client = "truncate", "user.id" = "hash" }
[stream.mixed]
anonymise = { host = "hash", user = "hash" }
"#;

/// Returns a home with the configuration and its key.
fn home() -> Home {
    let home = Home::new();
    let key = home.file("hash.key", KEY);
    home.file("logmill.toml", CONFIG.replace("KEY", &key));
    home
}

/// Returns the binary, about to run in the home with a full log.
fn here(home: &Home) -> Command {
    let mut command = command();
    command.current_dir(home.path(""));
    command.env("LOGMILL_LOG", "trace");
    command
}

fn serve(home: &Home) -> Server {
    Server::try_start(here(home), &home.data, &[]).expect("it serves")
}

fn line(stamp: &str, status: &str) -> String {
    format!(
        "203.0.113.77 - frank-the-reader [{stamp} +0000] \"GET / HTTP/1.1\" {status} 1 \"-\" \"it\"\n"
    )
}

/// Returns one good line, one of the future, one with a bad status and one of no format.
fn lines() -> String {
    let past = "01/Mar/2024:00:00:00";
    let future = line("01/Mar/2199:00:00:00", "200");
    [
        &line(past, "200"),
        &future,
        &line(past, "113.77"),
        "frank-the-reader\n",
    ]
    .concat()
}

/// Returns two good documents, then one of the future and one that is cut.
const DOCUMENTS: [&str; 4] = [
    r#"{"time":"2024-03-01T00:00:00Z","client":"203.0.113.77","user":{"id":"frank-the-reader"}}"#,
    r#"{"time":"2024-03-01T00:00:00Z","client":{"203.0.113.77":{"n":1}},"user":[{"id":"frank-the-reader"}]}"#,
    r#"{"time":"2199-03-01T00:00:00Z","client":"2001:db8:3:4:5:6:789a:1"}"#,
    r#"{"client":"2001:db8:3:4:5:6:789a:1","user":"#,
];

#[track_caller]
fn assert_clean(place: &str, text: &[u8]) {
    for secret in SECRETS {
        let found = memchr::memmem::find(text, secret.as_bytes());
        assert!(found.is_none(), "{secret} is in {place}");
    }
}

/// Checks every file below a directory.
fn assert_clean_files(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => assert_clean_files(&path),
            // A file may be removed by a seal meanwhile.
            false => assert_clean(
                &path.display().to_string(),
                &std::fs::read(&path).unwrap_or_default(),
            ),
        }
    }
}

/// Checks the rows of a query, their bytes included.
fn assert_clean_rows(server: &Server, query: &str) -> Vec<Value> {
    let rows = server.sql(query);
    for row in &rows {
        assert_clean(query, row.to_string().as_bytes());
        for column in ["raw", "_rest"] {
            assert_clean(query, &base64(row[column].as_str().unwrap_or_default()));
        }
    }
    rows
}

/// Checks everything that a server can return and all that it has written. Returns the rows of the
/// quarantine.
fn assert_clean_store(home: &Home, server: &Server) -> usize {
    for stream in server.sql("SELECT name FROM system.streams") {
        let name = stream["name"].as_str().expect("a name");
        assert_clean_rows(server, &format!("SELECT * FROM {name}"));
        assert_clean("columns", &server.get("/api/v1/streams").body);
    }
    let waiting = assert_clean_rows(server, "SELECT * FROM system.quarantine");
    assert_clean_files(Path::new(&home.data));
    assert_clean("the log", server.log().as_bytes());
    waiting.len()
}

#[track_caller]
fn counts(answer: &Value) -> [u64; 2] {
    ["accepted", "quarantined"].map(|name| answer[name].as_u64().expect("a count"))
}

#[track_caller]
fn post(server: &Server, to: &str, body: &str, status: u16) -> Answer {
    let path = format!("/api/v1/ingest/{to}");
    let answer = server.post(&path, &[], body.as_bytes()).status(status);
    assert_clean(to, &answer.body);
    answer
}

#[test]
fn an_anonymised_value_is_nowhere_in_the_store_by_whatever_way_it_came() {
    let home = home();
    let server = serve(&home);
    let file = home.file("access.log", lines());
    let import = [
        "import", &file, "--stream", "web", "--output", "json", "--again",
    ];
    let ndjson = DOCUMENTS.join("\n");
    let array = format!("[{}]", DOCUMENTS[..3].join(","));

    for debug in ["&debug=1", ""] {
        let ingest = |to: &str, body: &str| counts(&post(&server, to, body, 200).json());
        assert_eq!(ingest(&format!("web?site=a{debug}"), &lines()), [1, 3]);
        assert_eq!(ingest(&format!("mixed?site=a{debug}"), &lines()), [1, 3]);
        assert_eq!(ingest(&format!("docs?site=a{debug}"), &ndjson), [2, 2]);
        assert_eq!(ingest(&format!("docs?site=a{debug}"), &array), [2, 1]);
    }
    let figures = run(&[&import[..], &["--server", &server.url]].concat()).code(0);
    assert_eq!(counts(&figures.json()), [1, 3]);
    assert_eq!(assert_clean_store(&home, &server), 12, "in the journal");
    server.seal();
    assert_eq!(assert_clean_store(&home, &server), 12, "in parts");
    assert_eq!(counts(&post(&server, "web", &lines(), 200).json()), [1, 3]);
    server.kill();

    let server = serve(&home);
    assert_eq!(assert_clean_store(&home, &server), 15, "recovered");
    assert_eq!(server.stop(), Some(0));
    let mut local = here(&home);
    local.args(import).args(["--data", &home.data]);
    assert_eq!(local.status().expect("it runs").code(), Some(0));

    let server = serve(&home);
    assert_eq!(assert_clean_store(&home, &server), 18, "imported");
    let hosts = server.sql("SELECT DISTINCT host FROM web");
    assert_eq!(hosts, [serde_json::json!({ "host": NETWORK })]);
    let clients = server.sql("SELECT client, count(*) AS n FROM docs GROUP BY 1 ORDER BY 1");
    let row = |client: &str| serde_json::json!({ "client": client, "n": 2 });
    assert_eq!(clients, [row(NETWORK), row("anonymous")]);
    let users =
        server.sql("SELECT DISTINCT \"user.id\" AS u FROM docs WHERE \"user.id\" IS NOT NULL");
    assert_eq!(users[0]["u"].as_str().map(str::len), Some(32), "{users:?}");
    server.stop();
    run(&["check", &home.data]).code(0);
}

#[test]
fn a_line_that_is_stored_whole_is_refused_and_counted() {
    let home = home();
    let server = serve(&home);
    let refused = post(&server, "web?format=plain", &lines(), 400).text();
    assert!(refused.contains("every value of a line"), "{refused}");
    let no_format = post(&server, "mixed", "frank-the-reader\n203.0.113.77\n", 400).text();
    assert!(no_format.contains("no_format"), "{no_format}");
    assert!(!no_format.contains("plain"), "{no_format}");
    // A field that an access log does not have is found when the first one comes.
    let broken = server.post(
        "/api/v1/ingest/docs",
        &[("content-encoding", "gzip")],
        b"no gzip",
    );
    broken.status(400);
    let no_field = post(&server, "docs", &lines(), 400).text();
    assert!(no_field.contains("no text field"), "{no_field}");
    let metrics = server.get("/metrics").text();
    // No stream exists yet.
    let counted = "logmill_events_refused_total{stream=\"_unknown\"} 3";
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(assert_clean_store(&home, &server), 2);
    assert_eq!(
        server.number("SELECT count(*) FROM system.streams WHERE name = 'web'"),
        0
    );
    let file = home.file("access.log", lines());
    let import = ["import", &file, "--stream", "web", "--format", "plain"];
    server.stop();
    let mut local = here(&home);
    local.args(import).args(["--data", &home.data]);
    assert_ne!(local.status().expect("it runs").code(), Some(0));
    assert_clean_files(Path::new(&home.data));
}

#[test]
fn a_replay_anonymises_lines_that_were_kept_before() {
    let home = home();
    let file = home.file("access.log", lines());
    let config = home.file("before.toml", "");
    let import = [
        "import", &file, "--stream", "web", "--format", "common", "--data", &home.data,
    ];
    run(&[&import[..], &["--config", &config]].concat()).code(0);
    let replay = |more: &[&str]| {
        let mut replay = here(&home);
        replay.args([
            "quarantine",
            "replay",
            "--stream",
            "web",
            "--data",
            &home.data,
        ]);
        replay.args(more).status().expect("it runs").code()
    };
    assert_ne!(replay(&["--format", "plain"]), Some(0));
    assert_eq!(replay(&[]), Some(0));
    let server = serve(&home);
    let rows = assert_clean_rows(&server, "SELECT * FROM web");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["host"], NETWORK);
}

#[test]
fn a_line_that_was_not_kept_cannot_be_replayed() {
    let home = home();
    let server = serve(&home);
    server.ingest("web", lines());
    let waiting = "SELECT count(*) FROM system.quarantine WHERE state = 'waiting'";
    let before = server.number(waiting);
    assert!(before > 0);
    let explained = server.get("/api/v1/quarantine/explain?stream=web").text();
    assert!(explained.contains("its line was not kept"), "{explained}");
    // Without anonymise, a plain event would be made of whatever was kept.
    for query in ["", "?format=common", "?format=json"] {
        let path = format!("/api/v1/quarantine/replay{query}");
        let report = server.post(&path, &[], b"").status(200).json();
        assert_eq!(report["replayed"], 0, "{report}");
        assert_eq!(report["looked_at"], before, "{report}");
    }
    assert_eq!(server.number(waiting), before);
    server.stop();
    let config = home.file("open.toml", "");
    let mut replay = here(&home);
    replay.args(["quarantine", "replay", "--format", "plain"]);
    replay.args(["--data", &home.data, "--config", &config]);
    let output = replay.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains(": 0 became events"), "{told}");
    let server = serve(&home);
    assert_eq!(server.number(waiting), before);
}

#[test]
fn quarantined_lines_are_kept_where_the_configuration_says_so() {
    let home = home();
    let kept = CONFIG.replace("[stream.docs]", "quarantine_raw = true\n[stream.docs]");
    home.file("logmill.toml", kept.replace("KEY", &home.path("hash.key")));
    let server = serve(&home);
    server.ingest("web", lines());
    let rows = server.sql("SELECT * FROM system.quarantine");
    let raw = |row: &Value| base64(row["raw"].as_str().expect("bytes"));
    let kept: Vec<Vec<u8>> = rows.iter().map(raw).collect();
    assert!(
        kept.iter().any(|raw| raw == b"frank-the-reader"),
        "{rows:?}"
    );
}

#[test]
fn events_of_another_store_do_not_enter_an_anonymised_stream() {
    let home = home();
    let mut folder = here(&home);
    let args = ["--format", "logmill", "--stream", "web", "any folder"];
    folder.arg("import").args(args).args(["--data", &home.data]);
    let output = folder.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(told.contains("[stream.web] has anonymise"), "{told}");
}
