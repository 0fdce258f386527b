//! `erase`: the events that pass a condition leave raw events and rollups alike, and no other event
//! does; what was erased is written nowhere.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;

use crate::support::{Home, PAST_S, Server, assert_verified, line, run, run_with_input};

const DAY_S: i64 = 86_400;
/// The host to be forgotten.
const HOST: &str = "198.51.100.23";
const WHERE: &str = "host = '198.51.100.23'";

/// Returns three days of events: each day two of the host and three of others.
fn log() -> String {
    let mut log = String::new();
    for day in 0..3 {
        let at = PAST_S + day * DAY_S;
        for nth in 0..3 {
            log += &line(&format!("203.0.113.{nth}"), at + nth * 60, "/", 200, 10);
        }
        for nth in 0..2 {
            log += &line(HOST, at + nth * 3600, "/secret", 500, 1000);
        }
    }
    log
}

fn erase(place: &[&str], more: &[&str]) -> Value {
    let args = ["erase", "--where", WHERE, "--output", "json"];
    run(&[&args[..], place, more].concat()).code(0).json()
}

/// Fails if a file of the store's plain formats, or one of these texts, has the host.
fn assert_forgotten(data: &str, texts: &[String]) {
    for text in texts {
        assert!(!text.contains(HOST), "{text}");
    }
    let mut folders = vec![Path::new(data).to_path_buf()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let bytes = std::fs::read(&path).expect("a file");
            let found = bytes.windows(HOST.len()).any(|w| w == HOST.as_bytes());
            assert!(!found, "the host is in {}", path.display());
        }
    }
    assert!(files > 5, "{files} files");
}

#[test]
fn a_host_is_forgotten_in_a_directory_and_everything_else_is_as_without_it() {
    let (home, other) = (Home::new(), Home::new());
    let all = log();
    home.import(&home.file("access.log", &all), &[]);
    let others: Vec<&str> = all.lines().filter(|l| !l.contains(HOST)).collect();
    other.import(&other.file("access.log", others.join("\n") + "\n"), &[]);

    let place = ["--data", home.data.as_str()];
    let dry = erase(&place, &["--dry-run"]);
    assert_eq!((&dry["events"], home.count()), (&6.into(), 15));
    let report = erase(&place, &[]);
    assert_eq!(
        (&report["events"], &report["still_counted"]),
        (&6.into(), &0.into())
    );
    for query in [
        "SELECT host, path, time FROM access ORDER BY time, host",
        "SELECT bucket, path, hits, bytes FROM stats.minutely ORDER BY 1, 2",
        "SELECT bucket, path, hits, visitors, size_max FROM stats.hourly ORDER BY 1, 2",
        "SELECT bucket, path, hits, bytes, visitors, size_p99 FROM stats.daily ORDER BY 1, 2",
        "SELECT bucket, path, hits, visitors FROM stats.yearly ORDER BY 1, 2",
        "SELECT bucket, status, hits, size_max FROM traffic.weekly ORDER BY 1, 2",
    ] {
        assert_eq!(home.sql(query), other.sql(query), "{query}");
    }
    assert_verified(&place, 9);
    assert_eq!(erase(&place, &[])["events"], 0, "nothing is left to erase");
    let recorded = home.sql("SELECT stream, events, still_counted FROM system.erasures");
    let expected = serde_json::json!([{"stream": "access", "events": 6, "still_counted": 0}]);
    assert_eq!(Value::Array(recorded), expected);
    let checked = run(&["check", &home.data]).code(0);
    let told = home.sql("SELECT * FROM system.maintenance");
    assert_forgotten(&home.data, &[checked.stdout, format!("{told:?}")]);
    // The log that was imported once is known still.
    let again = home.import(&home.file("access.log", &all), &[]);
    assert_eq!((&again["accepted"], home.count()), (&0.into(), 9));
}

#[test]
fn a_server_forgets_a_host_while_others_send_and_ask() {
    let home = Home::new();
    let server = Server::start_with(&home.data, &[("LOGMILL_LOG", "debug")]);
    server.ingest("access", log());
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(9));
    let place = ["--data", home.data.as_str()];
    std::thread::scope(|scope| {
        for sender in 0..2 {
            let (server, stop, sent) = (&server, &stop, &sent);
            scope.spawn(move || {
                for nth in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let at = PAST_S + (nth % 3) * DAY_S + nth;
                    server.ingest(
                        "access",
                        line(&format!("192.0.2.{sender}"), at, "/", 200, 1),
                    );
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..5 {
            if round > 0 {
                server.ingest("access", line(HOST, PAST_S, "/secret", 500, 1000).repeat(2));
            }
            // A command on the directory goes through the server that holds it.
            let report = erase(&place, &[]);
            let events = if round == 0 { 6 } else { 2 };
            assert_eq!(report["events"], events, "{report}");
            assert_eq!(
                server.number(&format!("SELECT count(*) FROM access WHERE {WHERE}")),
                0
            );
        }
        stop.store(true, Ordering::Relaxed);
    });
    server.seal();
    let sent = sent.into_inner();
    assert_eq!(server.number("SELECT count(*) FROM access"), sent);
    assert_eq!(server.number("SELECT sum(hits) FROM stats.yearly"), sent);
    assert_eq!(
        server.number("SELECT count(*) FROM stats.daily WHERE path = '/secret'"),
        0
    );
    let url = server.url.clone();
    assert_verified(&["--server", &url], sent);
    let tables = ["queries", "maintenance", "audit", "erasures"];
    let told = tables.map(|t| format!("{:?}", server.sql(&format!("SELECT * FROM system.{t}"))));
    let mut texts = told.to_vec();
    texts.push(server.get("/metrics").text());
    let log = server.log();
    // The requests of this test named the host in a query of their own.
    texts.push(log.lines().filter(|l| !l.contains("count(*)")).collect());
    server.seal();
    assert_forgotten(&home.data, &texts);
}

#[test]
fn a_kill_in_the_middle_erases_everything_or_nothing() {
    let home = Home::new();
    let mut server = Server::start(&home.data);
    for nth in 0..20 {
        server.ingest("access", log());
        if nth % 5 == 0 {
            server.seal();
        }
    }
    for delay_ms in [5, 40, 90, 150] {
        std::thread::scope(|scope| {
            let server = &server;
            scope.spawn(move || {
                let body = format!(r#"{{"where": "{WHERE}"}}"#);
                let json = [("Content-Type", "application/json")];
                // The server is killed under it, or not.
                let _ignored =
                    server.try_post("/api/v1/streams/access/erase", &json, body.as_bytes());
            });
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            server.kill_now();
        });
        drop(server);
        server = Server::start(&home.data);
        let left = server.number(&format!("SELECT count(*) FROM access WHERE {WHERE}"));
        assert!(left == 0 || left == 120, "{left} of 120 are left");
        assert_eq!(server.number("SELECT count(*) FROM access"), 180 + left);
        assert_eq!(
            server.number("SELECT sum(hits) FROM stats.daily"),
            180 + left
        );
    }
    let url = server.url.clone();
    erase(&["--server", &url], &[]);
    assert_verified(&["--server", &url], 180);
}

#[test]
fn a_wrong_condition_erases_nothing_and_is_explained() {
    let home = Home::new();
    home.import(&home.file("access.log", log()), &[]);
    let fails = |condition: &str, stream: &str| {
        let args = [
            "erase", "--where", condition, "--stream", stream, "--data", &home.data,
        ];
        let output = run(&args);
        assert_ne!(output.code, 0, "{condition}");
        assert_eq!(home.count(), 15, "{condition}");
        output.stderr
    };
    for (condition, why) in [
        ("hst = '1'", "host"),
        ("status", "not true or false"),
        ("", ""),
        ("1 = 1) OR (1 = 1", ""),
        ("host = '1'; DROP TABLE access", ""),
        ("status IN (SELECT 500)", ""),
        ("count(*) > 1", ""),
    ] {
        let error = fails(condition, "access");
        assert!(error.contains(why), "{condition}: {error}");
    }
    assert!(fails(WHERE, "nothing").contains("there is no stream nothing"));
    assert!(fails(WHERE, "quarantine").contains("logmill quarantine drop"));
    // The condition may come from standard input, where `ps` does not show it.
    let args = ["erase", "--where", "-", "--data", &home.data];
    let output = run_with_input(&args, WHERE.as_bytes());
    assert!(
        output.stdout.contains("erased 6 events of access"),
        "{}",
        output.stdout
    );
    assert_eq!(home.count(), 9);
}
