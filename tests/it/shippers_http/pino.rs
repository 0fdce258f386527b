//! pino with pino-loki pushes numbered records; their numbers are compared with those in the store.

use std::collections::BTreeMap;
use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use chrono::DateTime;
use serde_json::Value;

use crate::support::{Home, PATIENCE, Server, ended_within, finish, knob};

/// Both texts that pino-loki writes to the standard error for a batch that it could not push.
const FAILURES: [&str; 2] = [
    "Got unknown error when trying to send log to Loki",
    "Got error when trying to send log to loki",
];

fn packages() -> Option<String> {
    let packages = std::env::var("LOGMILL_NODE_PATH").ok();
    if packages.is_none() {
        println!("skipped: LOGMILL_NODE_PATH names no folder with pino and pino-loki");
    }
    packages
}

/// Returns the command of a client that sends so many records.
fn client(packages: &str, server: &Server, count: u64) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/pino_loki.cjs");
    let mut client = Command::new("node");
    client
        .arg(script)
        .args([&server.url, &count.to_string()])
        .env("NODE_PATH", packages);
    client
}

/// Returns how often each number is stored.
fn stored(server: &Server) -> BTreeMap<u64, u64> {
    let query = "SELECT CAST(n AS BIGINT) AS n, count(*) AS times FROM of_pino GROUP BY n";
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let rows = server.sql(query);
    rows.iter()
        .map(|row| (number(row, "n"), number(row, "times")))
        .collect()
}

fn assert_nothing_is_quarantined(server: &Server) {
    let quarantined = server.number("SELECT count(*) AS n FROM system.quarantine");
    assert_eq!(quarantined, 0);
}

#[test]
fn every_record_of_pino_is_stored_once() {
    let Some(packages) = packages() else { return };
    let home = Home::new();
    let server = Server::start(&home.data);
    let count = 2_000;
    let told = finish(&mut client(&packages, &server, count), &[]).code(0);
    if told.stdout.starts_with("skipped") {
        println!("{}", told.stdout.trim_end());
        return;
    }
    let sent = format!("sent {count}");
    assert_eq!(told.stdout.trim_end(), sent, "{}", told.stderr);
    let expected: BTreeMap<u64, u64> = (0..count).map(|n| (n, 1)).collect();
    assert_eq!(stored(&server), expected, "{}", told.stderr);
    assert_nothing_is_quarantined(&server);
    // The line is the record as pino writes it, with a time in milliseconds.
    let row = &server.sql("SELECT time, level, line FROM of_pino WHERE n = '7'")[0];
    assert_eq!(row["level"], "warning");
    let line: Value = serde_json::from_str(row["line"].as_str().expect("a line")).expect("JSON");
    assert_eq!(line["msg"], "record 7");
    let time = DateTime::parse_from_rfc3339(row["time"].as_str().expect("a time"));
    let time = time.expect("a time of the calendar").timestamp_millis();
    assert_eq!(line["time"], time);
}

/// Returns the numbers of each push that the client tells, and whether the server acknowledged it.
fn pushes(told: &str, count: u64) -> Vec<(Range<u64>, bool)> {
    let number = |word: &str| -> u64 { word.parse().expect("a number") };
    let mut pushes = Vec::new();
    let mut is_finished = false;
    for line in told.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["sent", all] => is_finished = number(all) == count,
            [outcome @ ("stored" | "failed"), first, len] => {
                let first = number(first);
                pushes.push((first..first + number(len), outcome == "stored"));
            }
            _ => panic!("no outcome of a push: {line}"),
        }
    }
    assert!(is_finished, "{told}");
    pushes.sort_unstable_by_key(|(numbers, _)| numbers.start);
    pushes
}

/// pino-loki pushes a batch once: a batch that meets no server is lost, and told so. One that was
/// cut off may be stored, as a whole.
#[test]
fn batches_of_pino_are_stored_once_or_told_as_failed_while_the_server_is_killed() {
    let Some(packages) = packages() else { return };
    let home = Home::new();
    let mut server = Server::start(&home.data);
    let address = server.address.clone();
    let count = knob("LOGMILL_KILLS", 4) * 1_000;
    let [told, errors] = ["told", "errors"].map(|name| home.path(name));
    let mut child = client(&packages, &server, count)
        .arg("paced")
        .stdout(File::create(&told).expect("a file"))
        .stderr(File::create(&errors).expect("a file"))
        .spawn()
        .expect("node starts");
    let began = Instant::now();
    let mut kills = 0;
    let code = loop {
        if let Some(code) = ended_within(&mut child, Duration::from_millis(400)) {
            break code;
        }
        assert!(began.elapsed() < PATIENCE, "the client does not end");
        server.kill();
        server = Server::start_at(&home.data, &address, &[]);
        kills += 1;
    };
    let [told, errors] = [told, errors].map(|path| read_to_string(path).expect("its output"));
    assert_eq!(code, 0, "{errors}");
    if told.starts_with("skipped") {
        println!("{}", told.trim_end());
        return;
    }
    let pushes = pushes(&told, count);
    let sent: Vec<u64> = pushes.iter().flat_map(|(n, _)| n.clone()).collect();
    assert!(sent.iter().copied().eq(0..count), "each is pushed once");
    let mut found = stored(&server);
    let (mut failed, mut lost) = (0, 0);
    for (numbers, is_acknowledged) in pushes {
        let len = numbers.end - numbers.start;
        let times: Vec<u64> = numbers.filter_map(|n| found.remove(&n)).collect();
        let is_whole = times.len() as u64 == len && times.iter().all(|times| *times == 1);
        let is_absent = times.is_empty() && !is_acknowledged;
        assert!(is_whole || is_absent, "{is_acknowledged}, {times:?}");
        failed += usize::from(!is_acknowledged);
        lost += if is_absent { len } else { 0 };
    }
    assert!(found.is_empty(), "never sent: {found:?}");
    let failures = FAILURES.map(|text| errors.matches(text).count());
    assert_eq!(failures.iter().sum::<usize>(), failed, "{errors}");
    assert_nothing_is_quarantined(&server);
    println!("{count} records through {kills} kills: {failed} pushes failed, {lost} records lost");
}

/// The records that it has in memory end with it; of those that left it, none is stored twice.
#[test]
fn what_pino_was_told_is_stored_is_there_once_when_it_is_killed() {
    let Some(packages) = packages() else { return };
    let home = Home::new();
    let server = Server::start(&home.data);
    let mut child = client(&packages, &server, 1_000_000)
        .arg("paced")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("node starts");
    let told = BufReader::new(child.stdout.take().expect("its output")).lines();
    // A push that waits for its answer does not hold the next one up: they may end in any order.
    let mut acknowledged = Vec::new();
    for (push, line) in (1..).zip(told) {
        let line = line.expect("a line");
        if line.starts_with("skipped") {
            println!("{line}");
            child.wait().expect("node ends");
            return;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let ["stored", first, len] = words[..] else {
            panic!("no push that is stored: {line}");
        };
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let first = number(first);
        acknowledged.extend(first..first + number(len));
        if push == 12 {
            child.kill().expect("a signal to our own child");
        }
    }
    child.wait().expect("node ends");
    // The last pushes may have left the client without an answer.
    std::thread::sleep(Duration::from_millis(300));
    let found = stored(&server);
    assert!(found.values().all(|times| *times == 1), "{found:?}");
    let lost: Vec<&u64> = acknowledged
        .iter()
        .filter(|n| !found.contains_key(n))
        .collect();
    assert!(lost.is_empty(), "told as stored, and lost: {lost:?}");
    assert!(acknowledged.len() >= 12, "{acknowledged:?}");
    println!(
        "{} records were told as stored, {} are there",
        acknowledged.len(),
        found.len()
    );
}
