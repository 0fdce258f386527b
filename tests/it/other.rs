//! `max_keys`: the first keys of a day keep their name, the others count under `(other)`, at every
//! level. The rule is stated once more in SQL over the raw events.

use serde_json::Value;

use crate::support::{Home, PAST_S, Server, command, import, line, run, sql};

const DEFINITION: &str = r#"
[storage]
lag = "1h"
[rollup.pages]
stream = "access"
by = ["path"]
week = "monday"
max_keys = 3
[rollup.pages.measures]
hits = "count"
bytes = "sum(response_size)"
visitors = { distinct = "host", from = "hour" }
"#;

const DAY_S: i64 = 86_400;
const PIECE: i64 = 150;
const LEVELS: [(&str, &str); 6] = [
    ("minute", "minutely"),
    ("hour", "hourly"),
    ("day", "daily"),
    ("week", "weekly"),
    ("month", "monthly"),
    ("year", "yearly"),
];

/// Returns events of three days around the end of a month, most of them late. Each piece has
/// pages that those before it do not have, and pages that they have; some are called `(other)`.
fn piece(nth: i64) -> String {
    let event = |i: i64| {
        let at = PAST_S + (i % 3 - 1) * DAY_S + (i * 7919) % DAY_S;
        // Each day has every remainder, since every third event is of the same day.
        let page = match (i / 3 + i % 3 + nth) % 9 {
            8 => "(other)".to_owned(),
            page => format!("/page/{}", (page * (1 + i % 2) + 5 - nth).rem_euclid(12)),
        };
        line(&format!("10.0.0.{}", i % 7), at, &page, 200, 10 + i as u64)
    };
    (0..PIECE).map(event).collect()
}

/// Returns a query of the expected content of a level.
fn rule(level: &str) -> String {
    let visitors = if level == "minute" {
        ""
    } else {
        ", count(DISTINCT a.host) AS visitors"
    };
    format!(
        "WITH first AS (SELECT date_trunc('day', time) AS day, path, min(_seq) AS seq FROM access \
             WHERE path <> '(other)' GROUP BY 1, 2), \
         ranked AS (SELECT day, path, row_number() OVER (PARTITION BY day ORDER BY seq) AS n FROM first) \
         SELECT date_trunc('{level}', a.time) AS bucket, coalesce(r.path, '(other)') AS path, \
             count(*) AS hits, sum(a.response_size) AS bytes{visitors} \
         FROM access a LEFT JOIN ranked r \
             ON r.day = date_trunc('day', a.time) AND r.path = a.path AND r.n <= 3 \
         GROUP BY 1, 2 ORDER BY 1, 2"
    )
}

/// Checks every level against the rule.
#[track_caller]
fn check(ask: &dyn Fn(&str) -> Vec<Value>, events: i64) {
    for (level, table) in LEVELS {
        let visitors = if level == "minute" { "" } else { ", visitors" };
        let read =
            format!("SELECT bucket, path, hits, bytes{visitors} FROM pages.{table} ORDER BY 1, 2");
        let (found, expected) = (ask(&read), ask(&rule(level)));
        assert_eq!(found, expected, "{level}");
        let hits: i64 = found.iter().filter_map(|row| row["hits"].as_i64()).sum();
        assert_eq!(hits, events, "{level}");
    }
    let days = ask("SELECT bucket, count(*) AS n FROM pages.daily GROUP BY 1");
    assert!(
        days.len() == 3 && days.iter().all(|day| day["n"] == 4),
        "{days:?}"
    );
}

#[test]
fn keys_that_come_too_late_in_a_day_count_under_other() {
    let home = Home::new();
    let config = home.file("logmill.toml", DEFINITION);
    let place = ["--data", &home.data, "--config", &config];
    let ask = |query: &str| sql(&place, query);
    for nth in 0..2 {
        let file = home.file(&format!("{nth}.log"), piece(nth));
        import(&place, &file, &[]);
        check(&ask, (nth + 1) * PIECE);
    }
    // A server finds logmill.toml where it is started. Its events are in the memtable, then sealed.
    let mut program = command();
    program.current_dir(home.path(""));
    let server = Server::try_start(program, &home.data, &[]).expect("a server");
    let ask_server = |query: &str| server.sql(query);
    server.ingest("access", piece(2));
    check(&ask_server, 3 * PIECE);
    server.seal();
    check(&ask_server, 3 * PIECE);
    server.ingest("access", piece(3));
    server.ingest("access", piece(4));
    check(&ask_server, 5 * PIECE);
    server.kill();
    check(&ask, 5 * PIECE);
    let file = home.file("5.log", piece(5));
    import(&place, &file, &[]);
    check(&ask, 6 * PIECE);
    let verify = ["rollup", "verify", "pages", "--output", "json"];
    let found = run(&[&verify[..], &place].concat()).code(0).json();
    assert_eq!(found[0]["events"], 6 * PIECE, "{found}");
}
