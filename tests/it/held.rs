//! Commands on a directory that a server holds: the server does the work, without `--server`.

use serde_json::Value;

use crate::support::{Home, PAST_S, Server, assert_verified, line, run};

const DAY_S: i64 = 86_400;
const DAYS: i64 = 3;
const LINES: i64 = 40;

/// Combined lines of three days, and one line that no format knows.
fn log() -> String {
    let mut log = String::from("no line of a log\n");
    for i in 0..LINES {
        let at = PAST_S + i % DAYS * DAY_S;
        log += &line("203.0.113.9", at, &format!("/{}", i % 7), 200, 10);
    }
    log
}

fn date(at_s: i64) -> String {
    let at = chrono::DateTime::from_timestamp(at_s, 0).expect("a date");
    at.format("%Y-%m-%d").to_string()
}

#[test]
fn every_operator_command_works_while_a_server_holds_the_store() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("web", log());
    let at = |args: &[&str]| -> Value {
        let all = [args, &["--data", &home.data, "--output", "json"]].concat();
        run(&all).code(0).json()
    };
    let plain = |args: &[&str]| {
        run(&[args, &["--data", &home.data]].concat())
            .code(0)
            .stdout
    };
    let count = || server.number("SELECT count(*) AS n FROM web");

    let sealed = plain(&["rollup", "run"]);
    // The line in quarantine counts as one.
    assert!(
        sealed.starts_with(&format!("sealed {} events", LINES + 1)),
        "{sealed}"
    );
    assert!(at(&["partition", "compact", "web"])["merged"].is_u64());
    assert!(at(&["rollup", "compact"])["merged"].is_u64());
    let (first, second) = (date(PAST_S), date(PAST_S + DAY_S));
    let of_first = (LINES as u64).div_ceil(DAYS as u64);
    let dropped = at(&["partition", "drop", "web", &first, "--dry-run"]);
    assert_eq!(dropped["events"], of_first);
    assert_eq!(count(), LINES as u64);
    let rebuilt = at(&[
        "rollup", "rebuild", "traffic", "--from", &first, "--to", &second,
    ]);
    assert!(!rebuilt.as_array().expect("partitions").is_empty());
    assert_eq!(
        at(&["partition", "detach", "web", &first])["events"],
        of_first
    );
    assert_eq!(count(), LINES as u64 - of_first);
    assert_eq!(
        at(&["partition", "attach", "web", &first])["events"],
        of_first
    );
    assert_eq!(count(), LINES as u64);
    assert_eq!(at(&["partition", "retain"]), Value::Array(Vec::new()));
    plain(&["index", "create", "web", "path"]);
    let indexes = "SELECT count(*) AS n FROM system.indexes WHERE column = 'path'";
    assert!(
        plain(&["index", "list", "web"]).contains("path"),
        "{indexes}"
    );
    plain(&["index", "drop", "web", "path"]);
    assert_eq!(at(&["quarantine", "replay"])["looked_at"], 1);
    assert_eq!(at(&["quarantine", "drop"])["dropped"], 1);
    assert_verified(&["--data", &home.data], LINES as u64);

    // The command reports nothing on a pipe: only a terminal is told where the work was done.
    let told = run(&["rollup", "run", "--data", &home.data]).code(0).stderr;
    assert_eq!(told, "");
    assert_eq!(server.stop(), Some(0));
    // Without a server the same command does the work itself.
    plain(&["partition", "compact", "web"]);
    run(&["check", &home.data]).code(0);
}
