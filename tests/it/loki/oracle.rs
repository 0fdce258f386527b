//! The independent evaluation of queries in `tests/clients/loki.py`: on synthetic events, and on
//! real logs where `LOGMILL_TEST_DATA` names them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::{access, served};
use crate::support::{Home, Output, PAST_S, Server, finish, import, python, seed, test_data};

/// Runs the evaluation on a stream; `None` without a Python.
fn evaluated(server: &Server, stream: &str, kind: &str) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/loki.py");
    let mut evaluation = Command::new(python()?);
    evaluation
        .arg(script)
        .args([&server.url, stream, kind, &seed().to_string()]);
    let told = finish(&mut evaluation, &[]).code(0);
    println!("{}", told.stdout);
    assert!(told.stdout.contains(": equal"), "{}", told.stdout);
    Some(told)
}

/// Returns documents with levels, lines of logfmt and JSON, and numbers.
fn documents() -> String {
    let mut text = String::new();
    for n in 0..1_500_i64 {
        let level = ["info", "warn", "error", "debug", ""][n as usize % 5];
        let method = ["GET", "POST", "PUT"][n as usize % 3];
        let line = match n % 4 {
            0 => format!(
                "{{\"user\":{{\"name\":\"u{}\"}},\"code\":{}}}",
                n % 7,
                n % 5
            ),
            1 => format!("method={method} path=\"/a b/{}\" bytes={}", n % 11, n * 3),
            _ => format!(
                "method={method} path=/p/{} host=h{} bytes={}",
                n % 13,
                n % 2,
                n % 1000
            ),
        };
        let mut event = serde_json::json!({
            // Every third event lies on a whole second.
            "time": PAST_S * 1000 + n * 1000 + (n % 3) * 617,
            "host": format!("h{}", n % 4),
            "line": line,
            "took": (n % 50) as f64 / 8.0,
        });
        if !level.is_empty() {
            event["level"] = level.into();
        }
        writeln!(text, "{event}").expect("a text");
    }
    text
}

#[test]
fn answers_on_an_access_log_are_those_of_raw_events() {
    let home = Home::new();
    evaluated(&served(&home), "access", "access");
}

#[test]
fn answers_on_documents_are_those_of_raw_events() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let documents = documents();
    let (sealed, fresh) = documents.split_at(documents.rfind("{\"time\"").expect("an event"));
    server.ingest("app?format=json", sealed);
    server.seal();
    server.ingest("app?format=json", fresh);
    // Another stream, which no selector names.
    server.ingest("other", access(0..10));
    evaluated(&server, "app", "app");
}

#[test]
fn answers_on_real_logs_are_those_of_raw_events() {
    let Some(folder) = test_data() else { return };
    let home = Home::new();
    let server = Server::start(&home.data);
    for file in ["access/nasa_aug95_head.log", "access/honeynet/access_log"] {
        let file = folder.join(file);
        let file = file.to_str().expect("UTF-8");
        import(&["--server", &server.url], file, &[]);
        evaluated(&server, "access", "access");
    }
}
