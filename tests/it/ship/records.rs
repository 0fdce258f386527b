//! Records of several lines: a shipper, an import and a request join the same lines.

use super::{Shipper, append};
use crate::shippers::wait_for_number;
use crate::support::{Home, Server, run};

const RULE: &str = r"start:^\d{4}-\d\d-\d\dT";
const FORMAT: &str = r"regex:(?s)(?<time>\S+) (?<level>[A-Z]+) (?<message>.*)";

/// Returns records of `1 + n % 3` lines: a message, and the frames of its stack.
fn records(numbers: std::ops::Range<u32>) -> String {
    let record = |n: u32| {
        let frames = (0..n % 3).map(|frame| format!("\tat a.B.c{frame}(B.java:{n})\n"));
        let frames: String = frames.collect();
        format!("2026-01-02T03:04:05Z ERROR failed {n}\n{frames}")
    };
    numbers.map(record).collect()
}

/// Returns the frames in the records of these numbers.
fn frames(numbers: u32) -> u64 {
    (0..numbers).map(|n| u64::from(n % 3)).sum()
}

const FRAMES: &str = r"SELECT sum(regexp_count(message, '\tat a\.B')) AS n FROM app";

#[test]
fn a_shipper_sends_whole_records_over_kills_and_the_last_one_after_a_rest() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let log = home.path("a.log");
    let options = ["--multiline", RULE, "--format", FORMAT];
    let start = || Shipper::of(&log, "app", &server, &options);
    home.file("a.log", "");
    let mut shipper = start();
    let mut written = 0;
    for n in 0..60 {
        // A record comes in two writes.
        let record = records(n..n + 1);
        let half = record.find('\n').expect("a line") + 1;
        append(&log, &record[..half]);
        let pause_ms = if n % 20 == 7 { 1500 } else { 30 };
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        append(&log, &record[half..]);
        written = n + 1;
        if n % 20 == 19 {
            shipper.kill();
            shipper = start();
        }
    }
    // No line follows the last record.
    wait_for_number(&server, "SELECT count(*) AS n FROM app", u64::from(written));
    assert_eq!(server.number(FRAMES), frames(written));
    std::fs::rename(&log, home.path("a.log.1")).expect("a rename");
    home.file("a.log", records(60..63));
    wait_for_number(&server, "SELECT count(*) AS n FROM app", 63);
    assert_eq!(server.number(FRAMES), frames(63));
    let quarantined = server.number("SELECT count(*) AS n FROM system.quarantine");
    assert_eq!(quarantined, 0);
}

#[test]
fn an_import_and_a_request_join_lines_as_a_shipper_does() {
    let home = Home::new();
    let log = home.file("a.log", records(0..50_000));
    let options = ["--multiline", RULE, "--format", FORMAT];
    let here = ["import", &log, "--stream", "app", "--data", &home.data];
    let report = run(&[&here[..], &options].concat()).code(0).stdout;
    assert!(report.contains("50,000"), "{report}");
    let sum = |sql: &dyn Fn(&str) -> u64| {
        assert_eq!(sql("SELECT count(*) AS n FROM app"), 50_000);
        assert_eq!(sql(FRAMES), frames(50_000));
    };
    sum(&|query| home.number(query));
    let other = Home::new();
    let server = Server::start(&other.data);
    let there = ["import", &log, "--stream", "app", "--server", &server.url];
    run(&[&there[..], &options].concat()).code(0);
    sum(&|query| server.number(query));
    // A stream's configuration has a rule for what comes without one.
    let third = Home::new();
    let rule = r"start:^\S+ \S+ \S+ \[";
    let configuration = [
        ("LOGMILL_STREAM__WEB__FORMAT", "combined"),
        ("LOGMILL_STREAM__WEB__MULTILINE", rule),
    ];
    let server = Server::start_with(&third.data, &configuration);
    let broken = "203.0.113.9 - - [02/Jan/2026:03:04:05 +0000] \"GET / HTTP/1.1\" 200 1 \"-\"\n\
                  \"curl/8.1\"\n\
                  203.0.113.9 - - [02/Jan/2026:03:04:06 +0000] \"GET /b HTTP/1.1\" 200 1 \"-\" \"Lynx\"\n";
    let answer = server.ingest("web", broken);
    assert_eq!(
        (answer["accepted"].as_u64(), answer["quarantined"].as_u64()),
        (Some(2), Some(0))
    );
    let agents = server.sql("SELECT user_agent FROM web ORDER BY time");
    assert_eq!(agents[0]["user_agent"], "curl/8.1");
    assert_eq!(agents[1]["user_agent"], "Lynx");
    let answer = server.ingest("web?multiline=off", broken);
    assert_eq!(answer["accepted"], 1);
    assert_eq!(answer["quarantined"], 2);
    let refused = server.post("/api/v1/ingest/web?multiline=end:a", &[], broken.as_bytes());
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("indent or start:EXPRESSION"),
        "{}",
        refused.text()
    );
}

#[test]
fn lines_with_a_header_stay_lines_whatever_a_rule_says() {
    let home = Home::new();
    let w3c = "#Version: 1.0\n#Fields: date time c-ip cs-method\n\
               2026-01-02 03:04:05 192.0.2.1 GET\n2026-01-02 03:04:06 192.0.2.2 GET\n";
    let log = home.file("iis.log", w3c);
    let of_store = ["import", &log, "--stream", "here", "--data", &home.data];
    run(&[&of_store[..], &["--multiline", "indent"]].concat()).code(0);
    assert_eq!(home.number("SELECT count(*) AS n FROM here"), 2);
    let other = Home::new();
    let server = Server::start_with(&other.data, &[("LOGMILL_STREAM__WEB__MULTILINE", "indent")]);
    let of_server = ["import", &log, "--stream", "there", "--server", &server.url];
    run(&[&of_server[..], &["--multiline", "start:^no line"]].concat()).code(0);
    assert_eq!(server.number("SELECT count(*) AS n FROM there"), 2);
    assert_eq!(
        server.ingest("web?format=csv", "a,b\n1,2\n 3,4\n")["accepted"],
        2
    );
    let once = [
        "ship",
        &log,
        "--stream",
        "shipped",
        "--server",
        &server.url,
        "--once",
    ];
    run(&[&once[..], &["--multiline", "indent"]].concat()).code(0);
    assert_eq!(server.number("SELECT count(*) AS n FROM shipped"), 2);

    let rule = ["--format", "csv:a,b", "--multiline", "indent"];
    for command in [
        &["import", &log, "--stream", "csv", "--data", &home.data][..],
        &["parse", "--explain", &log],
        &["ship", &log, "--stream", "csv", "--server", &server.url],
    ] {
        let refused = run(&[command, &rule].concat()).code(2).stderr;
        assert!(
            refused.contains("each line of csv:a,b is a record"),
            "{refused}"
        );
    }
}
