//! The worked example of the specification: one line, one document.

use serde_json::{Value, json};

use crate::support::{Home, run, run_with_input};

const LINE: &str = concat!(
    r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "#,
    r#""http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#,
    "\n"
);

fn document() -> Value {
    json!({
        "host": "127.0.0.1",
        "logname": null,
        "user": "frank",
        "time": "2000-10-10T20:55:36Z",
        "method": "GET",
        "path": "/apache_pb.gif",
        "query": null,
        "protocol": "HTTP/1.0",
        "request": "GET /apache_pb.gif HTTP/1.0",
        "status": 200,
        "response_size": 2326,
        "referrer": "http://www.example.com/start.html",
        "user_agent": "Mozilla/4.08 [en] (Win98; I ;Nav)",
        "site": null,
        "extra": null,
    })
}

#[test]
fn the_example_line_becomes_exactly_the_document() {
    let home = Home::new();
    let file = home.file("example.log", LINE);
    let figures = home.import(&file, &[]);
    assert_eq!(
        (&figures["lines"], &figures["accepted"]),
        (&json!(1), &json!(1))
    );
    // Once from the part that the import sealed, once from the journal of a server that was killed.
    check(&home);
    let other = Home::new();
    let server = crate::support::Server::start(&other.data);
    server.ingest("access", LINE);
    server.kill();
    check(&other);
}

#[track_caller]
fn check(home: &Home) {
    let rows = home.sql("SELECT * FROM access");
    assert_eq!(rows.len(), 1);
    let mut row = rows[0].as_object().expect("a row is an object").clone();
    let names: Vec<&String> = row.keys().collect();
    let wanted = document();
    let wanted_names: Vec<&String> = wanted.as_object().expect("an object").keys().collect();
    assert_eq!((names[0].as_str(), &names[1..]), ("_id", &wanted_names[..]));
    let id = row.shift_remove("_id").expect("an _id");
    let id = id.as_str().expect("an _id of text");
    assert!(
        id.len() == 24 && id.bytes().all(|b| b.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(Value::Object(row), wanted);
}

#[test]
fn every_level_counts_the_example_line_once() {
    let home = Home::new();
    home.import(&home.file("example.log", LINE), &[]);
    for (level, bucket, end) in [
        ("minutely", "2000-10-10T20:55:00Z", "2000-10-10T20:56:00Z"),
        ("hourly", "2000-10-10T20:00:00Z", "2000-10-10T21:00:00Z"),
        ("daily", "2000-10-10T00:00:00Z", "2000-10-11T00:00:00Z"),
        ("weekly", "2000-10-08T00:00:00Z", "2000-10-15T00:00:00Z"),
        ("monthly", "2000-10-01T00:00:00Z", "2000-11-01T00:00:00Z"),
        ("yearly", "2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
    ] {
        let rows = home.sql(&format!(
            "SELECT bucket, bucket_end, site, path, hits, bytes FROM stats.{level}"
        ));
        let wanted = json!([{ "bucket": bucket, "bucket_end": end, "site": null,
            "path": "/apache_pb.gif", "hits": 1, "bytes": 2326 }]);
        assert_eq!(Value::Array(rows), wanted, "{level}");
    }
}

#[test]
fn parse_explain_names_the_format_and_points_at_the_first_bad_line() {
    let home = Home::new();
    let file = home.file("example.log", format!("{LINE}{LINE}not a line of a log\n"));
    let told = run(&["parse", "--explain", &file]).code(0);
    for wanted in ["combined", "user_agent", "line 3", "^"] {
        assert!(told.stdout.contains(wanted), "{wanted}: {}", told.stdout);
    }
    let found = run(&["parse", "--explain", &file, "--output", "json"])
        .code(0)
        .json();
    assert_eq!(found["format"], "combined");
    assert_eq!(
        (&found["events"], &found["quarantined"]),
        (&json!(2), &json!(1))
    );
    // The example has no site and no extra in the explanation either.
    let mut first = found["first_event"].clone();
    first["time"] = json!("2000-10-10T20:55:36Z");
    assert_eq!(first, document());
    assert_eq!(found["first_bad"]["line"], 3);
    assert_eq!(found["first_bad"]["byte"], 2 * LINE.len());
    let nothing = run_with_input(&["parse", "--explain", "-"], b"nothing of a log\n").code(1);
    assert!(
        nothing.stdout.contains("--format plain"),
        "{}",
        nothing.stdout
    );
}

#[test]
fn slice_answers_what_a_host_did_on_a_date() {
    let home = Home::new();
    let other = LINE.replace("127.0.0.1", "127.0.0.2");
    let later = LINE.replace("10/Oct", "11/Oct").replace(" 200 ", " 503 ");
    home.import(&home.file("a.log", format!("{LINE}{other}{later}")), &[]);
    let slice = |more: &[&str]| {
        let fixed = ["slice", "--host", "127.0.0.1", "--output", "json", "--data"];
        let rows = run(&[&fixed[..], &[&home.data], more].concat())
            .code(0)
            .json();
        rows.as_array().expect("an array").len()
    };
    assert_eq!(slice(&["--date", "2000-10-10"]), 1);
    assert_eq!(slice(&["--date", "2000-10-11", "--status", "5xx"]), 1);
    assert_eq!(slice(&["--date", "2000-10-11", "--status", "404"]), 0);
    assert_eq!(slice(&["--date", "2000-10-12"]), 0);
    // 20:55 UTC is the next day in Tokyo.
    assert_eq!(slice(&["--date", "2000-10-11", "--tz", "Asia/Tokyo"]), 1);
    assert_eq!(
        slice(&["--date", "2000-10-10", "--path", "/apache_pb.gif"]),
        1
    );
    assert_eq!(slice(&["--date", "2000-10-10", "--path", "/other"]), 0);
}
