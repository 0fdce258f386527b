//! Imports of formats whose header stands in the source (`csv`, `w3c`): resumed at any line, in
//! pieces to a server, and killed.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Home, Server, assert_adds_up, command, run};

/// Lines of CSV in the order of a wide header; the padding makes blocks of few lines.
fn csv(rows: std::ops::Range<u64>, padding: usize) -> String {
    let mut text = String::new();
    for n in rows {
        let (minute, second) = (n / 60 % 60, n % 60);
        let note = "p".repeat(padding);
        writeln!(
            text,
            "2026-01-02T{:02}:{minute:02}:{second:02}Z,{n},\"a, {n}\",{note}",
            n / 3600 % 24
        )
        .expect("a text");
    }
    text
}

const CSV_HEADER: &str = "time,number,text,note\n";
const W3C: &str = "#Version: 1.0\n#Fields: date time c-ip sc-status\n\
    2026-01-02 00:00:00 192.0.2.1 200\n2026-01-02 00:00:01 192.0.2.2 404\n\
    too few\n#Date: 2026-01-03 00:00:00\n#Fields: time cs-uri-stem\n\n\
    00:00:02 /a\n00:00:03 /b\n#Fields: cs-method time\nGET 00:00:04\n";

/// Imports a growing file after each of its lines. Returns the figures of all imports together.
fn line_by_line(place: &[&str], home: &Home, format: &[&str], text: &str) -> Value {
    let (mut accepted, mut quarantined) = (0, 0);
    let mut grown = String::new();
    for line in text.split_inclusive('\n') {
        grown += line;
        let file = home.file("growing.log", &grown);
        let import = ["import", &file, "--stream", "app", "--output", "json"];
        let figures = run(&[&import[..], format, place].concat()).json();
        assert_adds_up(&figures);
        accepted += figures["accepted"].as_u64().expect("a number");
        quarantined += figures["quarantined"].as_u64().expect("a number");
    }
    json!({ "accepted": accepted, "quarantined": quarantined })
}

fn assert_w3c(rows: &[Value]) {
    assert_eq!(
        rows,
        [
            json!({ "time": "2026-01-02T00:00:00Z", "host": "192.0.2.1", "status": 200, "path": null, "method": null }),
            json!({ "time": "2026-01-02T00:00:01Z", "host": "192.0.2.2", "status": 404, "path": null, "method": null }),
            json!({ "time": "2026-01-03T00:00:02Z", "host": null, "status": null, "path": "/a", "method": null }),
            json!({ "time": "2026-01-03T00:00:03Z", "host": null, "status": null, "path": "/b", "method": null }),
            json!({ "time": "2026-01-03T00:00:04Z", "host": null, "status": null, "path": null, "method": "GET" }),
        ]
    );
}

const W3C_ROWS: &str = "SELECT time, host, status, path, method FROM app ORDER BY time";

#[test]
fn an_import_goes_on_behind_any_line_with_its_header() {
    for format in [&["--format", "w3c"][..], &[]] {
        let home = Home::new();
        let figures = line_by_line(&["--data", &home.data], &home, format, W3C);
        assert_eq!(figures, json!({ "accepted": 5, "quarantined": 1 }));
        assert_w3c(&home.sql(W3C_ROWS));
        // Nothing is imported twice.
        let file = home.path("growing.log");
        let again = ["import", &file, "--stream", "app", "--data", &home.data];
        let again = run(&[&again[..], &["--output", "json"]].concat());
        let again = again.code(0).json();
        assert_adds_up(&again);
        assert_eq!(
            (&again["accepted"], &again["quarantined"]),
            (&json!(0), &json!(0))
        );
    }
    let home = Home::new();
    let text = CSV_HEADER.to_owned() + &csv(0..20, 3);
    let figures = line_by_line(&["--data", &home.data], &home, &["--format", "csv"], &text);
    assert_eq!(figures, json!({ "accepted": 20, "quarantined": 0 }));
    let row = &home.sql("SELECT count(*) AS n, sum(number) AS s, max(text) AS t FROM app")[0];
    assert_eq!(*row, json!({ "n": 20, "s": 190, "t": "a, 9" }));
}

#[test]
fn an_import_to_a_server_goes_on_behind_any_line_with_its_header() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let place = ["--server", server.url.as_str()];
    let figures = line_by_line(&place, &home, &[], W3C);
    assert_eq!(figures, json!({ "accepted": 5, "quarantined": 1 }));
    assert_w3c(&server.sql(W3C_ROWS));
}

#[test]
fn every_piece_for_a_server_is_read_by_the_header_before_it() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let text = CSV_HEADER.to_owned() + &csv(0..20_000, 60);
    assert!(text.len() > 6 << 18);
    let file = home.file("app.csv", &text);
    let import = ["import", &file, "--stream", "app", "--format", "csv"];
    let place = ["--server", &server.url, "--output", "json"];
    let figures = run(&[&import[..], &place].concat()).code(0).json();
    assert_adds_up(&figures);
    assert_eq!(
        (&figures["accepted"], &figures["empty"]),
        (&json!(20_000), &json!(1))
    );
    assert_eq!(figures["formats"], json!(["csv:time,number,text,note"]));
    let row = &server.sql("SELECT count(*) AS n, sum(number) AS s FROM app")[0];
    assert_eq!(*row, json!({ "n": 20_000, "s": 199_990_000 }));
    // The body of a request has its own header, or the format has it.
    for (to, body) in [
        ("one?format=csv", CSV_HEADER.to_owned() + &csv(0..3, 1)),
        ("two?format=csv:time,number,text,note", csv(0..3, 1)),
    ] {
        let answer = server.ingest(to, &body);
        assert_eq!(answer["accepted"], 3, "{answer}");
    }
    let rows =
        server.sql("SELECT sum(o.number) AS a, (SELECT sum(number) FROM two) AS b FROM one o");
    assert_eq!(rows[0], json!({ "a": 3, "b": 3 }));
}

/// The command is killed after longer and longer times and run again until it ends by itself.
fn killed_and_repeated(args: &[&str]) -> u64 {
    for kills in 0.. {
        let mut child = command().args(args).spawn().expect("the program");
        std::thread::sleep(Duration::from_millis(20 + 40 * kills));
        let ended = child.try_wait().expect("a child").is_some();
        child.kill().expect("a child");
        let status = child.wait().expect("a child");
        if ended {
            assert!(status.success(), "{status}");
            return kills;
        }
    }
    unreachable!("the times have no end")
}

#[test]
fn a_killed_import_goes_on_with_its_header() {
    const ROWS: u64 = 6000;
    let sum = ROWS * (ROWS - 1) / 2;
    let text = CSV_HEADER.to_owned() + &csv(0..ROWS, 4000);
    for to_server in [false, true] {
        let home = Home::new();
        let server = to_server.then(|| Server::start(&home.data));
        let file = home.file("app.csv", &text);
        let place = match &server {
            Some(server) => ["--server", server.url.as_str()],
            None => ["--data", home.data.as_str()],
        };
        let import = [
            "import", &file, "--stream", "app", "--format", "csv", "--output", "json",
        ];
        let kills = killed_and_repeated(&[&import[..], &place].concat());
        println!("killed {kills} times, to a server: {to_server}");
        assert!(kills > 0);
        let query = "SELECT count(*) AS n, sum(number) AS s FROM app";
        let rows = match &server {
            Some(server) => server.sql(query),
            None => home.sql(query),
        };
        assert_eq!(rows, [json!({ "n": ROWS, "s": sum })]);
    }
}
