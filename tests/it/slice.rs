//! `logmill slice` as an engineer on call reads it: a summary, the newest rows, or a better place
//! to search.

use crate::support::{Home, PAST_S, Server, line, run};

const DAY_S: i64 = 86_400;

/// Returns a day of 120 events of one host, the last two within one second; some on other days,
/// and other hosts.
fn log() -> String {
    let mut log = String::new();
    for i in 0..118 {
        let (path, status) = if i % 10 == 0 {
            ("/x", 404)
        } else {
            ("/a", 200)
        };
        log += &line("192.0.2.7", PAST_S + 600 * i, path, status, 1000);
    }
    for (path, status) in [("/moved", 302), ("/answer", 200)] {
        log += &line("192.0.2.7", PAST_S + 80_000, path, status, 1000);
    }
    log += &line("192.0.2.7", PAST_S - 9 * DAY_S, "/a", 200, 5);
    log += &line("192.0.2.7", PAST_S + 30 * DAY_S, "/a", 200, 5);
    log + &line("192.0.2.8", PAST_S, "/b", 500, 5)
}

fn slice(place: &[&str], args: &[&str]) -> crate::support::Output {
    let all = [&["slice"], place, args].concat();
    run(&all)
}

#[test]
fn a_table_begins_with_a_summary_and_shows_the_newest_rows_in_the_zone() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", log().as_bytes());
    for place in [["--server", &server.url], ["--data", &home.data]] {
        let of_day = ["--host", "192.0.2.7", "--date", "2024-03-01"];
        let shown = slice(&place, &of_day).code(0).stdout;
        for part in [
            "192.0.2.7 on 2024-03-01 (UTC), stream access",
            "events    120",
            "first     2024-03-01T00:00:00Z",
            "last      2024-03-01T22:13:20Z",
            "bytes     117.2 KiB",
            "status    200: 107, 302: 1, 404: 12",
            "top paths     106  /a",
            "12  /x",
            "(50 rows)",
            "the newest 50 of 120 events; --limit 120 shows all of them",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        let head = shown
            .lines()
            .find(|l| l.starts_with("time"))
            .expect("a head");
        let names: Vec<&str> = head.split('|').map(str::trim).collect();
        // Columns that are empty in all rows, or the same in all, are left out.
        assert_eq!(
            names,
            [
                "time",
                "status",
                "method",
                "path",
                "response_size",
                "user_agent"
            ],
            "{shown}"
        );
        // Within one second a redirect stands before its answer.
        let last: Vec<&str> = shown
            .lines()
            .filter(|l| l.starts_with("2024-03-01T22:13:20Z"))
            .collect();
        assert!(
            last[0].contains("/moved") && last[1].contains("/answer"),
            "{shown}"
        );

        let zoned = [&of_day[..], &["--tz", "Asia/Kolkata", "--limit", "2"]].concat();
        let shown = slice(&place, &zoned).code(0).stdout;
        assert!(
            shown.contains("(Asia/Kolkata)") && shown.contains("+05:30"),
            "{shown}"
        );
        assert!(
            !shown.contains("Z |") && shown.contains("(2 rows)"),
            "{shown}"
        );

        // Programs get all rows, in order, as always; or so many of the newest.
        let json = [&of_day[..], &["--output", "json"]].concat();
        let rows = slice(&place, &json).code(0).json();
        let rows = rows.as_array().expect("an array");
        assert_eq!(rows.len(), 120);
        assert_eq!(rows[119]["path"], "/answer");
        assert_eq!(rows[0]["time"], "2024-03-01T00:00:00Z");
        assert!(rows[0].get("_seq").is_none() && rows[0].get("referrer").is_some());
        let newest = slice(&place, &[&json[..], &["--limit", "2"]].concat())
            .code(0)
            .json();
        assert_eq!(newest.as_array().expect("an array"), &rows[118..]);
    }
}

#[test]
fn an_empty_slice_says_where_the_host_was_seen() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", log().as_bytes());
    let place = ["--server", server.url.as_str()];
    let shown = slice(&place, &["--host", "192.0.2.7", "--date", "2024-03-05"]).code(0);
    for part in [
        "no events: 192.0.2.7 on 2024-03-05 (UTC), stream access",
        "2024-02-21          1 event\n",
        "2024-03-01        120 events\n",
        "2024-03-31          1 event\n",
    ] {
        assert!(shown.stdout.contains(part), "{part} in\n{}", shown.stdout);
    }
    let of_day = ["--host", "192.0.2.7", "--date", "2024-03-01"];
    let none = slice(&place, &[&of_day[..], &["--status", "5xx"]].concat()).code(0);
    assert!(
        none.stdout.contains("the host has 120 events on that date"),
        "{}",
        none.stdout
    );
    // A stream of documents beside it is not in the way.
    server.ingest("documents?format=json", "{\"a\":1}\n");
    let nowhere = slice(&place, &["--host", "192.0.2.99", "--date", "2024-03-01"]).code(0);
    assert!(
        nowhere
            .stdout
            .contains("this stream has no event of the host"),
        "{}",
        nowhere.stdout
    );
}

#[test]
fn wrong_usage_of_slice_always_ends_with_2_and_says_what_to_write() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", log().as_bytes());
    server.ingest("documents?format=json", "{\"a\":1}\n");
    let right = ["--host", "192.0.2.7", "--date", "2024-03-01"];
    let with = |more: &[&'static str]| [&right[..], more].concat();
    let cases = [
        (with(&["--tz", "Berlin"]), "\"Berlin\" is not a time zone"),
        (with(&["--status", "5x"]), "\"5x\" is not a status"),
        (with(&["--stream", "no such"]), "no such"),
        (
            with(&["--stream", "documents"]),
            "documents is not an access log",
        ),
        (
            with(&["--stream", "other"]),
            "there is no stream \"other\" here; there is access",
        ),
        (
            vec!["--host", "h", "--date", "1.3.2024"],
            "write it as 2000-10-10",
        ),
        (
            vec!["--host", "h", "--date", "2004-04-31"],
            "April has 30 days",
        ),
        (
            vec!["--host", "h", "--date", "2023-02-29"],
            "February 2023 has 28 days",
        ),
        (
            vec!["--host", "h", "--date", "2023-13-01"],
            "there is no month 13",
        ),
        (
            vec!["--host", "192.0.2.0/24", "--date", "2024-03-01"],
            "LIKE '192.0.2.%'",
        ),
    ];
    for place in [["--server", &server.url], ["--data", &home.data]] {
        for output in ["table", "json"] {
            for (args, said) in &cases {
                let ended = slice(&place, &[&args[..], &["--output", output]].concat()).code(2);
                assert!(ended.stderr.contains(said), "{args:?}: {}", ended.stderr);
                assert_eq!(ended.stdout, "", "{args:?}");
            }
        }
    }
}

#[test]
fn a_slice_is_on_the_clock_of_its_zone_by_the_rules_that_rollups_follow() {
    let home = Home::new();
    let server = Server::start(&home.data);
    // 2024-03-31T00:30:00Z. Moldova changes its clocks at 01:00 UTC; by release 2025b it was
    // at 00:00.
    server.ingest(
        "access?format=combined",
        line("192.0.2.7", 1_711_845_000, "/a", 200, 10).as_bytes(),
    );
    let place = ["--server", server.url.as_str()];
    let of_day = ["--host", "192.0.2.7", "--date", "2024-03-31"];
    let zoned = [&of_day[..], &["--tz", "Europe/Chisinau"]].concat();
    let shown = slice(&place, &zoned).code(0).stdout;
    assert!(shown.contains("2024-03-31T02:30:00+02:00"), "{shown}");
}
