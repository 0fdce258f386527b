//! The levels that answer: retention, zones, and windows that none of them has.

use super::{END_S, PAST_S, data, events, fails, get, value};
use crate::support::{Home, Server, command, line, run};

const DAY_S: i64 = 86_400;

/// Starts a server whose configuration is `toml`.
fn configured(home: &Home, toml: &str) -> Server {
    home.file("logmill.toml", toml);
    let mut program = command();
    program.current_dir(home.path(""));
    match Server::try_start(program, &home.data, &[]) {
        Ok(server) => server,
        Err(told) => panic!("the server ends: {}", told.stderr),
    }
}

#[test]
fn windows_below_a_floor_are_unknown_and_coarser_levels_answer_for_them() {
    let home = Home::new();
    let toml = "[rollup.kept]\nstream = \"access\"\nby = [\"status\"]\nlevels = [\"minute\", \"hour\", \"day\", \"month\"]\n\
                retention = { minute = \"2d\" }\n[rollup.kept.measures]\nhits = \"count\"\n";
    let config = home.file("logmill.toml", toml);
    // Two events an hour, for ten days.
    let lines: String = (0..480)
        .map(|n| line("203.0.113.1", PAST_S + n * 1_800 + 60, "/", 200, 1))
        .collect();
    home.import(&home.file("a.log", lines), &["--config", &config]);
    run(&["rollup", "run", "--data", &home.data, "--config", &config]).code(0);
    let floors = "SELECT count(*) FROM system.rollups WHERE name = 'kept' AND floor IS NOT NULL";
    assert_eq!(home.number(floors), 1);
    let server = configured(&home, toml);
    let end_s = PAST_S + 10 * DAY_S;
    let increase = |range: &str, at_s| {
        value(
            &server,
            &format!("sum(increase(logmill_kept_hits_total[{range}]))"),
            at_s,
        )
    };
    // Minutes are kept.
    assert_eq!(increase("90m", end_s + 60), Some(3.0));
    // They are not here: the hour answers for whole hours, nothing for others.
    assert_eq!(increase("1h", PAST_S + 3_600), Some(2.0));
    assert_eq!(increase("1d", PAST_S + DAY_S), Some(48.0));
    assert_eq!(increase("1h", PAST_S + 5_400), None);
    assert_eq!(increase("1h", PAST_S + 3_630), None);
    // A window that begins below the floor would lack events.
    assert_eq!(increase("9d", end_s + 60), None);
    let total = |at_s| value(&server, "sum(logmill_kept_hits_total)", at_s);
    assert_eq!(total(end_s), Some(480.0));
    assert_eq!(total(end_s - 1_800), Some(479.0));
    assert_eq!(total(PAST_S + DAY_S), Some(48.0));
    assert_eq!(total(PAST_S + DAY_S + 60), None);
}

#[test]
fn days_of_a_zone_are_days_of_that_zone() {
    let home = Home::new();
    let server = configured(
        &home,
        "[rollup.berlin]\nstream = \"access\"\nby = [\"status\"]\nlevels = [\"hour\", \"day\"]\n\
         timezone = \"Europe/Berlin\"\n[rollup.berlin.measures]\nhits = \"count\"\n",
    );
    // Every hour from 30 March 2024, 00:00 UTC; clocks change on the 31st.
    let from_s = PAST_S + 29 * DAY_S;
    let lines: String = (0..72)
        .map(|n| line("203.0.113.1", from_s + n * 3_600, "/", 200, 1))
        .collect();
    server.ingest("access", lines);
    let hits = "logmill_berlin_hits_total";
    let increase =
        |range: &str, at_s| value(&server, &format!("sum(increase({hits}[{range}]))"), at_s);
    // The 31st has 23 hours, from 23:00 UTC to 22:00 UTC.
    let day_s = from_s + 23 * 3_600;
    assert_eq!(increase("23h", day_s + 23 * 3_600), Some(23.0));
    assert_eq!(increase("1d", day_s + 23 * 3_600), Some(24.0));
    assert_eq!(increase("1d", day_s), Some(23.0));
    let daily = value(
        &server,
        "logmill_berlin_hits{level='day'}",
        day_s + 23 * 3_600,
    );
    assert_eq!(daily, Some(23.0));
    let at = day_s.to_string();
    let short = ("query", "rate(logmill_berlin_hits_total[5m])");
    fails(
        get(&server, "query", &[short, ("time", &at)]),
        422,
        "execution",
        "at least one hour",
    );
}

#[test]
fn labels_are_the_keys_and_null_is_no_label() {
    let home = Home::new();
    let server = configured(
        &home,
        "[rollup.odd]\nstream = \"access\"\nby = [\"site\", \"query\", { name = \"level\", expr = \"status / 100\" }]\n\
         levels = [\"minute\", \"day\"]\n[rollup.odd.measures]\nhits = \"count\"\nsize = { histogram = \"response_size\", from = \"day\" }\n",
    );
    server.ingest("access?site=it's%20%22a%22", events(0..6));
    server.ingest("access", line("203.0.113.1", PAST_S, "/a?", 200, 1));
    let hits = "logmill_odd_hits_total";
    let ask = |query: &str| value(&server, query, END_S);
    assert_eq!(
        ask(&format!("sum({hits}{{site=\"it's \\\"a\\\"\"}})")),
        Some(6.0)
    );
    assert_eq!(ask(&format!("sum({hits}{{site=\"\"}})")), Some(1.0));
    assert_eq!(ask(&format!("sum({hits}{{site!=\"\"}})")), Some(6.0));
    assert_eq!(ask(&format!("sum({hits}{{query=\"(empty)\"}})")), Some(1.0));
    assert_eq!(ask(&format!("sum({hits}{{query=\"\"}})")), Some(6.0));
    assert_eq!(
        ask(&format!("sum({hits}{{exported_level=\"4\"}})")),
        Some(1.0)
    );
    assert_eq!(
        ask(&format!("sum({hits}{{exported_level=~\"4|5\"}})")),
        Some(2.0)
    );
    assert_eq!(ask(&format!("sum({hits}{{level=\"4\"}})")), None);
    assert_eq!(ask(&format!("sum({hits}{{nothing=\"\"}})")), Some(7.0));
    assert_eq!(ask(&format!("sum({hits}{{nothing!=\"\"}})")), None);
    // A measure that begins with days has its metrics there.
    let at = (PAST_S + DAY_S).to_string();
    let found = data(get(
        &server,
        "query",
        &[("query", "sum(logmill_odd_size_count)"), ("time", &at)],
    ));
    assert_eq!(found["result"][0]["value"][1], "7");
}
