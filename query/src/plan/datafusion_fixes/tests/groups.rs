//! Groups and their values.

use serde_json::{Value, json};
use storage::StreamKind;

use crate::tests::support::{DAY_US, Event, Fixture, batch};

#[tokio::test(flavor = "multi_thread")]
async fn one_measure_does_not_leave_out_the_rows_of_another() {
    let fixture = Fixture::without_rollups();
    for day in 0..8 {
        let event = |nth| Event {
            time: day * DAY_US + nth,
            host: "alpha",
            path: Some("/p1".into()),
            size: (day == 7).then_some(nth),
            ..Event::default()
        };
        // The first minimum and maximum are known while there are still parts to open.
        let events: Vec<Event> = (0..if day == 0 { 50_000 } else { 20 }).map(event).collect();
        fixture.write("access", StreamKind::Access, batch(&events));
        fixture.store.seal().expect("seals");
    }
    let sql =
        "SELECT max(response_size) AS longest, min(path) AS first FROM access WHERE path = '/p1'";
    for _ in 0..20 {
        let rows = fixture.rows(sql).await;
        assert_eq!(rows, [json!({"longest": 19, "first": "/p1"})]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grouping_sets_of_rows_in_order_have_each_group_once() {
    let fixture = Fixture::without_rollups();
    // More groups than a batch has rows, from so few rows that some threads receive none.
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let columns = names.map(|name| format!("value AS {name}")).join(", ");
    let names = names.join(", ");
    let sql = format!(
        "SELECT count(*) AS groups, count(*) FILTER (WHERE coalesce({names}) IS NULL) AS totals, sum(n) AS n FROM \
         (SELECT {names}, count(*) AS n FROM (SELECT {columns} FROM generate_series(1, 9)) \
         GROUP BY CUBE({names}))"
    );
    let rows = fixture.rows(&sql).await;
    let groups = 9 * 127 + 1;
    assert_eq!(rows, [json!({"groups": groups, "totals": 1, "n": 9 * 128})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn grouping_sets_of_rows_in_order_or_of_one_value_are_sorted() {
    let fixture = Fixture::without_rollups();
    for (rows, expected) in [
        (
            "SELECT value AS a FROM generate_series(1, 3)",
            json!([null, 1, 2, 3]),
        ),
        (
            "SELECT column1 AS a FROM (VALUES (5), (6), (5)) WHERE column1 = 5",
            json!([null, 5]),
        ),
    ] {
        let sql = format!(
            "SELECT a, count(*) AS n FROM ({rows}) GROUP BY ROLLUP(a) ORDER BY a NULLS FIRST"
        );
        let answer = fixture.rows(&sql).await;
        let values: Vec<_> = answer.iter().map(|row| row["a"].clone()).collect();
        assert_eq!(json!(values), expected, "{sql}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expression_may_stand_twice_in_a_grouping() {
    let fixture = Fixture::without_rollups();
    let groups = async |by: &str| {
        let sql = format!(
            "SELECT x % 2 AS a, count(*) AS n FROM (SELECT value AS x FROM generate_series(1, 5)) GROUP BY {by}"
        );
        let rows = fixture.rows(&sql).await;
        let cells = rows.iter().map(|row| format!("{}:{}", row["a"], row["n"]));
        let mut cells: Vec<String> = cells.collect();
        cells.sort();
        cells.join(" ")
    };
    let once = "0:2 1:3";
    for by in [
        "x % 2",
        "x % 2, x % 2",
        "1, 1",
        "1, x % 2",
        "x % 2, (x % 2)",
    ] {
        assert_eq!(groups(by).await, once, "{by}");
    }
    for (by, expected) in [
        ("ROLLUP(x % 2)", "0:2 1:3 null:5"),
        ("ROLLUP(x % 2, x % 2)", "0:2 0:2 1:3 1:3 null:5"),
        ("CUBE(x % 2, x % 2)", "0:2 0:2 0:2 1:3 1:3 1:3 null:5"),
        ("GROUPING SETS ((x % 2, x % 2), ())", "0:2 1:3 null:5"),
        (
            "GROUPING SETS ((x % 2), (x % 2), ())",
            "0:2 0:2 1:3 1:3 null:5",
        ),
        ("x % 2, ROLLUP(x % 2)", "0:2 0:2 1:3 1:3"),
        ("1, CUBE(x % 2)", "0:2 0:2 1:3 1:3"),
    ] {
        assert_eq!(groups(by).await, expected, "{by}");
    }
    // In a sub-query, and in each part of a union.
    let sql = "SELECT (SELECT count(*) FROM (SELECT value FROM generate_series(1, 3) GROUP BY value, value)) AS n                UNION ALL SELECT value FROM generate_series(7, 7) GROUP BY 1, value ORDER BY 1";
    assert_eq!(fixture.rows(sql).await, [json!({"n": 3}), json!({"n": 7})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_and_a_cast_of_it_are_two_groups() {
    let fixture = Fixture::without_rollups();
    let event = |nth: i64| Event {
        time: nth * DAY_US / 2,
        host: "alpha",
        status: Some(200 + (nth % 2) as i16),
        ..Event::default()
    };
    let events: Vec<Event> = (0..4).map(event).collect();
    fixture.write("access", StreamKind::Access, batch(&events));
    let sql = "SELECT CAST(status AS TEXT) AS a, status AS b, count(*) AS n FROM access GROUP BY 1, 2 ORDER BY 2";
    let expected = [
        json!({"a": "200", "b": 200, "n": 2}),
        json!({"a": "201", "b": 201, "n": 2}),
    ];
    assert_eq!(fixture.rows(sql).await, expected);
    for by in [
        "CAST(time AS DATE), time",
        "time, time::date, status",
        "host, time AT TIME ZONE 'Europe/Berlin', time",
        "CAST(time AS TEXT), CAST(time AS DATE), time",
    ] {
        let sql = format!("SELECT count(*) AS n FROM (SELECT count(*) FROM access GROUP BY {by})");
        assert_eq!(fixture.value(&sql).await, json!(4), "{by}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_casts_alone_tell_apart_are_two_and_joined_texts_are_grouped_in_sets() {
    let fixture = Fixture::without_rollups();
    let at = |hours: i64, host| Event {
        time: hours * DAY_US / 24,
        host,
        ..Event::default()
    };
    let events = batch(&[at(1, "alpha"), at(30, "alpha"), at(31, "beta")]);
    fixture.write("access", StreamKind::Access, events);
    let sql = "SELECT host, max(CAST(time AS DATE)) AS d, max(time) > '1970-01-02 06:30:00' AS m \
               FROM access GROUP BY host HAVING max(CAST(time AS DATE)) > '1970-01-01' \
               AND max(time) > '1970-01-01' ORDER BY max(CAST(time AS DATE)), host";
    assert_eq!(
        fixture.rows(sql).await,
        [
            json!({"host": "alpha", "d": "1970-01-02", "m": false}),
            json!({"host": "beta", "d": "1970-01-02", "m": true}),
        ]
    );
    for (groups, rows) in [
        (
            "date_trunc('day', time AT TIME ZONE 'UTC'), date_trunc('day', time AT TIME ZONE '-07')",
            3,
        ),
        ("CAST(CAST(time AS DATE) AS TEXT), CAST(time AS DATE)", 2),
        (
            "CAST(CAST(time AS DATE) AS TEXT), time, CAST(time AS DATE)",
            3,
        ),
        ("CAST(access.Time AS DATE), time, CAST(time AS DATE)", 3),
    ] {
        let sql = format!("SELECT count(*) AS n FROM access GROUP BY {groups}");
        assert_eq!(fixture.rows(&sql).await.len(), rows, "{sql}");
    }
    let sql = "SELECT date_trunc('day', time AT TIME ZONE 'UTC') AS a, \
               date_trunc('day', time AT TIME ZONE '-07') AS b, count(*) AS n FROM access \
               GROUP BY b, a HAVING min(time::date) <= min(time) ORDER BY b, a";
    assert_eq!(fixture.rows(sql).await.len(), 3, "{sql}");
    let sql = "SELECT host || '!', count(*) AS n FROM access GROUP BY host || '!' LIMIT 1";
    let rows = fixture.rows(sql).await;
    let names: Vec<_> = rows[0].as_object().expect("a row").keys().collect();
    assert_eq!(names, ["access.host || Utf8(\"!\")", "n"]);
    let sql = "SELECT host || '!' AS h, count(*) AS n FROM access \
               GROUP BY CUBE((host || '!')) ORDER BY n, h";
    assert_eq!(
        fixture.rows(sql).await,
        [
            json!({"h": "beta!", "n": 1}),
            json!({"h": "alpha!", "n": 2}),
            json!({"h": null, "n": 3}),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_constant_among_grouping_sets_is_sorted_with_the_sets_that_lack_it() {
    let fixture = Fixture::without_rollups();
    let groups = "GROUPING SETS ((arrow_typeof(1), value), (arrow_typeof(1)), ())";
    let sql = format!(
        "SELECT arrow_typeof(1) AS a, value AS v, count(*) AS n FROM generate_series(1, 2) GROUP BY {groups} ORDER BY 1 DESC, 2 DESC"
    );
    let expected = [
        json!({"a": null, "v": null, "n": 2}),
        json!({"a": "Int64", "v": null, "n": 2}),
        json!({"a": "Int64", "v": 2, "n": 1}),
        json!({"a": "Int64", "v": 1, "n": 1}),
    ];
    assert_eq!(fixture.rows(&sql).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_grouping_sets_that_become_one_expression_are_sorted_apart() {
    let fixture = Fixture::without_rollups();
    // The number is never null, so that both groups are `i` by the time they are planned.
    let sql = "SELECT i AS a, nvl(i, -1) AS b FROM (SELECT value % 50 AS i FROM \
               generate_series(0, 99)) AS d GROUP BY CUBE (i, nvl(i, -1)) ORDER BY a, b DESC";
    let rows = fixture.rows(sql).await;
    let found: Vec<_> = rows.iter().map(|row| (&row["a"], &row["b"])).collect();
    let numbers: Vec<Value> = (0..50).map(|i| json!(i)).collect();
    let null = &Value::Null;
    let of_both = numbers.iter().flat_map(|i| [(i, null), (i, i)]);
    let of_second = numbers.iter().rev().map(|i| (null, i));
    let expected = of_both.chain([(null, null)]).chain(of_second);
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cast_of_what_a_sub_query_is_grouped_by_is_a_group_of_its_own() {
    let fixture = Fixture::without_rollups();
    let grouped = "SELECT value AS t, count(*) AS n FROM generate_series(0, 9) GROUP BY 1";
    for (sql, rows) in [
        (
            format!("SELECT CAST(t / 4 AS TEXT), sum(n) FROM ({grouped}) GROUP BY 1"),
            3,
        ),
        (
            format!("SELECT count(*) FROM ({grouped}) GROUP BY CAST(t AS BOOLEAN)"),
            2,
        ),
        (
            format!(
                "SELECT t::boolean FROM ({grouped}) AS d GROUP BY t::boolean ORDER BY t::boolean"
            ),
            2,
        ),
        (
            format!(
                "WITH d AS ({grouped}) SELECT CAST(t AS BOOLEAN) AS b FROM d GROUP BY b ORDER BY b"
            ),
            2,
        ),
        (
            format!("SELECT t FROM (SELECT t::boolean FROM ({grouped}) GROUP BY t::boolean)"),
            2,
        ),
    ] {
        assert_eq!(fixture.rows(&sql).await.len(), rows, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_no_rows_there_are_no_different_values() {
    let fixture = Fixture::without_rollups();
    let event = Event {
        host: "alpha",
        path: Some("/a".into()),
        status: Some(200),
        ..Event::default()
    };
    fixture.write("access", StreamKind::Access, batch(&[event]));
    fixture.store.seal().expect("seals");
    let sql = "SELECT count(DISTINCT path) AS n, count(DISTINCT status) AS m FROM access \
               WHERE path = '/nowhere' AND status = 5";
    assert_eq!(fixture.rows(sql).await, [json!({"n": 0, "m": 0})]);
}
