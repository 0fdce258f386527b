//! Queries that DataFusion alone answers wrongly.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, TimestampMicrosecondArray};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    self, BinaryExpr, DynamicFilterPhysicalExpr, NotExpr, lit,
};
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::ast;
use serde_json::{Value, json};
use storage::{Column, ColumnType, StreamKind, arrow_schema};

use crate::tables::stream::dynamic_filters::has_its_columns;
use crate::tests::support::{DAY_US, Event, Fixture, batch, mixture};

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

/// Returns the corrected expression, with parentheses around every operand.
fn mended(sql: &str) -> String {
    fn told(expr: &ast::Expr) -> String {
        match expr {
            ast::Expr::BinaryOp { left, op, right } => {
                format!("({} {op} {})", told(left), told(right))
            }
            ast::Expr::UnaryOp { op, expr } => format!("{op} {}", told(expr)),
            ast::Expr::IsDistinctFrom(left, right) => {
                format!("[{} | {}]", told(left), told(right))
            }
            ast::Expr::IsNotDistinctFrom(left, right) => {
                format!("[{} = {}]", told(left), told(right))
            }
            ast::Expr::Nested(inner) => format!("<{}>", told(inner)),
            other => other.to_string(),
        }
    }
    let parsed = DFParserBuilder::new(sql)
        .build()
        .and_then(|mut parser| parser.parse_into_expr());
    let mut parsed = parsed.expect("parses").expr;
    super::mend_expr(&mut parsed);
    told(&parsed)
}

#[test]
fn what_follows_is_distinct_from_is_no_part_of_it() {
    for (sql, expected) in [
        ("a IS DISTINCT FROM b AND c", "([a | b] AND c)"),
        ("a IS NOT DISTINCT FROM b OR c", "([a = b] OR c)"),
        ("a IS DISTINCT FROM b + 1 AND c", "([a | (b + 1)] AND c)"),
        ("a IS DISTINCT FROM b = c AND d", "([a | (b = c)] AND d)"),
        ("NOT a IS DISTINCT FROM b AND c", "(NOT [a | b] AND c)"),
        (
            "NOT NOT a IS DISTINCT FROM b OR c",
            "(NOT NOT [a | b] OR c)",
        ),
        ("p AND a IS DISTINCT FROM b OR c", "((p AND [a | b]) OR c)"),
        ("p OR a IS DISTINCT FROM b AND c", "(p OR ([a | b] AND c))"),
        (
            "p OR q AND NOT a IS DISTINCT FROM b AND r OR s",
            "((p OR ((q AND NOT [a | b]) AND r)) OR s)",
        ),
        (
            "a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM d AND e",
            "(([a | b] AND [c = d]) AND e)",
        ),
        // Parentheses stay as they were written.
        ("a IS DISTINCT FROM (b AND c)", "[a | <(b AND c)>]"),
        (
            "p AND (a IS DISTINCT FROM b OR c) AND d",
            "((p AND <([a | b] OR c)>) AND d)",
        ),
        ("a IS DISTINCT FROM b", "[a | b]"),
        ("p AND q OR r", "((p AND q) OR r)"),
    ] {
        assert_eq!(mended(sql), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_distinct_is_asked_beside_other_conditions() {
    let fixture = Fixture::without_rollups();
    let event = |nth: i64| Event {
        time: nth,
        host: if nth % 2 == 0 { "alpha" } else { "beta" },
        path: (nth % 3 > 0).then(|| format!("/p{nth}")),
        status: Some(200 + (nth % 4) as i16),
        ..Event::default()
    };
    let events: Vec<Event> = (0..12).map(event).collect();
    fixture.write("access", StreamKind::Access, batch(&events));
    for (condition, expected) in [
        ("path IS DISTINCT FROM '/p1' AND status = 201", 2),
        (
            "path IS DISTINCT FROM '/p1' AND status = 201 OR host = 'alpha'",
            8,
        ),
        ("NOT path IS DISTINCT FROM NULL AND host = 'beta'", 2),
        ("host IS NOT DISTINCT FROM 'beta' AND path IS NOT NULL", 4),
    ] {
        let sql = format!("SELECT count(*) FROM access WHERE {condition}");
        assert_eq!(fixture.value(&sql).await, json!(expected), "{sql}");
        // The same condition in `ask/tail`.
        let snapshot = fixture.store.snapshot();
        let meta = &snapshot.streams()["access"];
        let prefix = snapshot.manifest().id_prefix();
        let filter = crate::TailFilter::new(&fixture.engine, meta, prefix, Some(condition));
        let filter = filter.expect("a condition");
        let kept = snapshot.chunks("access").iter();
        let kept = kept.map(|c| filter.filter(&c.events).expect("filtered").num_rows());
        assert_eq!(kept.sum::<usize>(), expected as usize, "{condition}");
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
async fn a_year_that_no_stamp_holds_is_compared_as_any_other() {
    let fixture = Fixture::without_rollups();
    let event = Event {
        time: DAY_US,
        host: "alpha",
        ..Event::default()
    };
    fixture.write("access", StreamKind::Access, batch(&[event]));
    for (condition, passes) in [
        (
            "extract(year FROM time AT TIME ZONE 'Asia/Kolkata') >= 200",
            1,
        ),
        (
            "extract(year FROM time AT TIME ZONE 'UTC') NOT IN (14, 1)",
            1,
        ),
        (
            "date_part('year', time AT TIME ZONE 'Europe/Berlin') < 3000",
            1,
        ),
        ("date_part('year', CAST(time AS TIMESTAMP(9))) <> 1600", 1),
        ("date_part('year', time) > 9999", 0),
        ("extract(year FROM time) = 1970", 1),
        (
            "extract(year FROM time AT TIME ZONE 'UTC') BETWEEN 14 AND 1969",
            0,
        ),
    ] {
        let sql = format!("SELECT count(*) FROM access WHERE {condition}");
        assert_eq!(fixture.value(&sql).await, json!(passes), "{condition}");
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
async fn a_filter_on_one_side_of_a_join_stays_off_the_other() {
    let fixture = Fixture::without_rollups();
    let event = |nth: i64| Event {
        time: nth * 3_600_000_000,
        host: if nth % 2 == 0 { "alpha" } else { "beta" },
        path: Some(format!("/p{}", nth % 7)),
        ..Event::default()
    };
    let events: Vec<Event> = (0..200).map(event).collect();
    let (left, right) = events.split_at(150);
    fixture.write("access", StreamKind::Access, batch(left));
    fixture.write("other", StreamKind::Access, batch(right));
    fixture.store.seal().expect("seals");
    let hour = |event: &Event| event.time / 3_600_000_000 % 24;
    let pairs = |a: &Event, b: &Event| a.path == b.path && b.time < 160 * 3_600_000_000;
    let expected: usize = left
        .iter()
        .filter(|a| hour(a) <= 10)
        .map(|a| right.iter().filter(|b| pairs(a, b)).count())
        .sum();
    assert!(expected > 50);
    for (how, more) in [
        ("RIGHT JOIN", ""),
        ("FULL JOIN", ""),
        ("JOIN", ""),
        ("LEFT JOIN", " AND b.time IS NOT NULL"),
    ] {
        let sql = format!(
            "SELECT a.time AS t, b.path AS p FROM access a {how} other b \
             ON a.path = b.path AND b.time < TIMESTAMP '1970-01-07T16:00:00Z' \
             WHERE extract(hour FROM a.time) <= 10{more}"
        );
        assert_eq!(fixture.rows(&sql).await.len(), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_above_a_filter_has_the_columns_that_the_filter_passes_on() {
    let fixture = Fixture::without_rollups();
    let event = |nth: i64| Event {
        time: nth * 1_800_000_000,
        path: Some(format!("/p{}", nth % 7)),
        status: Some(200 + (nth % 5) as i16),
        size: Some(nth),
        ..Event::default()
    };
    let events: Vec<Event> = (0..150).map(event).collect();
    fixture.write("access", StreamKind::Access, batch(&events));
    fixture.store.seal().expect("seals");
    for columns in [
        "b.time AS t, b.status + b.response_size AS c",
        "b.time AS t, CASE WHEN b.status > 201 THEN b.response_size ELSE 14 END AS c",
        "a.status + b.response_size AS t, b.time AS c",
        "sum(b.status - b.response_size) AS t, count(*) AS c",
    ] {
        for condition in [
            "to_char(a.time, '%H') IN ('01', '02')",
            "to_char(a.time, '%H') IN ('01', '02') AND a.status <> 203 AND a.response_size > 3",
        ] {
            let ask = async |how: &str| {
                let sql = format!(
                    "SELECT {columns} FROM access a {how} JOIN access b \
                     ON a.path = b.path AND a.time < b.time WHERE {condition} ORDER BY 1, 2"
                );
                let rows = fixture.rows(&sql).await;
                assert!(!rows.is_empty(), "{sql}");
                rows
            };
            // An inner join lets the filter be pushed below it.
            assert_eq!(ask("RIGHT").await, ask("INNER").await, "{columns}");
        }
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

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_day_are_sorted_by_time() {
    let fixture = Fixture::without_rollups();
    // Events in no order, with more groups than one batch has rows.
    let event = |nth: i64| Event {
        time: nth * 7_919 % 20_000 * 4_000_000,
        host: "alpha",
        ..Event::default()
    };
    let events: Vec<Event> = (0..20_000).map(event).collect();
    fixture.write("access", StreamKind::Access, batch(&events));
    let all = "SELECT time AS t FROM access";
    let of_the_day =
        "CAST(time AS DATE) <= TIMESTAMP '1970-01-01 12:00:00' AND time >= '1970-01-01'";
    let first = format!("{all} WHERE {of_the_day} ORDER BY host LIMIT 20000");
    for (rows, condition) in [
        (
            "SELECT time AS t, count(*) FROM access GROUP BY 1",
            "CAST(t AS DATE) = DATE '1970-01-01'",
        ),
        (all, "CAST(t AS DATE) = DATE '1970-01-01'"),
        (
            all,
            "CAST(t AS DATE) <= TIMESTAMP '1970-01-01 12:00:00' AND t >= '1970-01-01'",
        ),
        (&first, "t < '1970-01-02'"),
    ] {
        let sql = format!("SELECT t FROM ({rows}) WHERE {condition} ORDER BY t");
        let answer = fixture.rows(&sql).await;
        assert_eq!(answer.len(), 20_000, "{sql}");
        let times: Vec<&str> = answer.iter().filter_map(|row| row["t"].as_str()).collect();
        assert!(times.is_sorted(), "{sql}");
    }
}

/// Creates parts of three documents each: 0, 0, and a third one, which is -0 from the second part
/// on.
fn zeros() -> Fixture {
    let fixture = Fixture::without_rollups();
    for part in 0..4_i64 {
        let columns = [
            Column::new("time", ColumnType::Time),
            Column::new("x", ColumnType::Float64),
        ];
        let times = TimestampMicrosecondArray::from_iter_values((0..3).map(|nth| part * 10 + nth));
        let x = Float64Array::from(vec![0.0, 0.0, if part == 0 { 0.0 } else { -0.0 }]);
        let columns_of: Vec<ArrayRef> = vec![Arc::new(times.with_timezone("UTC")), Arc::new(x)];
        let events = RecordBatch::try_new(arrow_schema(&columns), columns_of).expect("columns fit");
        fixture.write("docs", StreamKind::Documents, events);
        fixture.store.seal().expect("seals");
    }
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_by_a_float_begin_with_zeros_below_zero() {
    let fixture = zeros();
    for (sql, expected) in [
        (
            "SELECT _seq AS n FROM docs ORDER BY x, time LIMIT 3",
            [5, 8, 11],
        ),
        (
            "SELECT _seq AS n FROM docs WHERE x = 0 ORDER BY x, time LIMIT 3",
            [5, 8, 11],
        ),
        (
            "SELECT _seq AS n FROM docs ORDER BY x, time DESC LIMIT 3",
            [11, 8, 5],
        ),
        (
            "SELECT _seq AS n FROM docs ORDER BY CAST(x AS REAL), time LIMIT 3",
            [5, 8, 11],
        ),
        (
            "SELECT _seq AS n FROM docs ORDER BY -x DESC, time LIMIT 3",
            [5, 8, 11],
        ),
        (
            "SELECT _seq AS n FROM docs ORDER BY x, time OFFSET 2 LIMIT 3",
            [11, 0, 1],
        ),
        (
            "SELECT _seq AS n FROM docs ORDER BY x DESC, time DESC LIMIT 3",
            [10, 9, 7],
        ),
        (
            "SELECT n FROM (SELECT _seq AS n, row_number() OVER (ORDER BY x, time) AS place FROM docs) \
             ORDER BY place LIMIT 3",
            [5, 8, 11],
        ),
        (
            "SELECT n FROM (SELECT _seq AS n, x, time FROM docs ORDER BY x, time LIMIT 3) ORDER BY x, n",
            [5, 8, 11],
        ),
    ] {
        let expected: Vec<Value> = expected.map(|n| json!({"n": n})).into();
        assert_eq!(fixture.rows(sql).await, expected, "{sql}");
    }
    // Conditions also distinguish rows by the sign of their zero.
    let sql = "SELECT max(x) AS x, count(*) AS n FROM (SELECT x FROM docs ORDER BY x LIMIT 3) \
               WHERE atan2(x, -1) < 0";
    assert_eq!(fixture.rows(sql).await, [json!({"x": -0.0, "n": 3})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_of_both_signs_are_one_value() {
    let fixture = zeros();
    for (sql, expected) in [
        ("SELECT count(DISTINCT x) FROM docs", 1),
        (
            "SELECT count(*) FROM (SELECT x FROM docs GROUP BY x LIMIT 9)",
            1,
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT x FROM docs ORDER BY x LIMIT 9)",
            1,
        ),
        (
            "SELECT count(*) FROM (SELECT x, max(time) AS last FROM docs GROUP BY x ORDER BY last LIMIT 9)",
            1,
        ),
        (
            "SELECT count(*) FROM docs a JOIN docs b ON a.x = b.x WHERE a.time = TIMESTAMP '1970-01-01T00:00:00Z'",
            12,
        ),
        ("SELECT count(*) FROM docs WHERE x = 0", 12),
        ("SELECT count(*) FROM docs WHERE x < 0", 0),
        ("SELECT count(*) FROM docs WHERE x IN (0.0, 1.5)", 12),
        (
            "SELECT count(*) FROM docs WHERE x IN (0.0, 1.5, 2.5, 3.5, 4.5)",
            12,
        ),
        (
            "SELECT count(*) FROM docs WHERE x IN (-0e0, 1.5, 2.5, 3.5, 4.5)",
            12,
        ),
        (
            "SELECT count(*) FROM docs WHERE x = 0 OR x = 1.5 OR x = 2.5 OR x = 3.5 OR x = 4.5",
            12,
        ),
        (
            "SELECT count(*) FROM (SELECT x IN (0.0, 1.5, 2.5, 3.5, 4.5) AS is_one FROM docs) WHERE is_one",
            12,
        ),
        (
            "SELECT count(*) FILTER (WHERE CAST(x AS REAL) IN (0, 1, 2, 3, 4)) FROM docs",
            12,
        ),
        (
            "SELECT count(*) FROM docs WHERE x NOT IN (0.0, 1.5, 2.5, 3.5, 4.5)",
            0,
        ),
        (
            "SELECT count(*) FROM docs WHERE x IN (SELECT x FROM docs WHERE time < TIMESTAMP '1970-01-01T00:00:00.000002Z')",
            12,
        ),
    ] {
        assert_eq!(fixture.value(sql).await, json!(expected), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_by_a_key_within_another_are_the_first() {
    let fixture = Fixture::without_rollups();
    for day in 0..3_i64 {
        let event = |n: i64| Event {
            time: day * DAY_US + n,
            status: Some(200),
            size: Some(day * 1000 + n),
            ..Event::default()
        };
        let events: Vec<Event> = (0..50).map(event).collect();
        fixture.write("access", StreamKind::Access, batch(&events));
        fixture.store.seal().expect("seals");
    }
    // Scans receive the filters here, and columns have the names of other columns.
    let from = "(SELECT status + 0 AS a, -response_size AS status, time AS host FROM access)";
    for (order, last) in [
        ("a, a + status", json!(-2049)),
        ("a, -(a - status)", json!(-2049)),
        (
            "status % 7 DESC, a, a * (status % 7 + status), 1",
            json!(-2044),
        ),
        ("a, -a, -(-a), status", json!(-2049)),
    ] {
        let sql = format!("SELECT status FROM {from} ORDER BY {order} LIMIT 1");
        assert_eq!(fixture.value(&sql).await, last, "{sql}");
    }
    let sql = "SELECT count(*) FROM (SELECT host FROM access ORDER BY time DESC, CASE WHEN \
               to_char(time, '%j') LIKE '%1%' THEN time > '1970-01-02' ELSE time < '1970-01-03' \
               END DESC LIMIT 4)";
    assert_eq!(fixture.value(sql).await, json!(4));
}

#[test]
fn a_filter_of_keys_within_keys_has_its_columns_when_they_hold_all() {
    let keys = |keys: &[&Arc<dyn PhysicalExpr>]| {
        let keys = keys.iter().map(|key| Arc::clone(key)).collect();
        let filter = DynamicFilterPhysicalExpr::new(keys, lit(true));
        has_its_columns(&(Arc::new(filter) as _)).expect("told")
    };
    let column = |at: usize| Arc::new(expressions::Column::new("x", at)) as Arc<dyn PhysicalExpr>;
    let sum = |a, b| Arc::new(BinaryExpr::new(a, Operator::Plus, b)) as Arc<dyn PhysicalExpr>;
    let not = |a: &Arc<dyn PhysicalExpr>| Arc::new(NotExpr::new(Arc::clone(a))) as _;
    let (a, b) = (column(0), column(1));
    let a_b: Arc<dyn PhysicalExpr> = sum(Arc::clone(&a), Arc::clone(&b));
    let one: Arc<dyn PhysicalExpr> = sum(Arc::clone(&a), lit(1));
    assert!(keys(&[&a, &b]));
    assert!(keys(&[&a_b, &not(&a_b), &not(&not(&a_b))]));
    assert!(keys(&[&not(&one), &a, &one, &b]));
    assert!(!keys(&[&a, &a_b]));
    assert!(!keys(&[&not(&a_b), &b]));
    // The two may have been columns of different names before, of which only one is a key.
    assert!(!keys(&[&a, &sum(Arc::clone(&a), Arc::clone(&a))]));
    assert!(!keys(&[&not(&a_b), &a_b, &a]));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_by_casts_that_lose_something_are_answered() {
    let fixture = Fixture::without_rollups();
    let event = |nth| Event {
        time: DAY_US + nth * 1_999_999,
        host: "alpha",
        size: Some(nth),
        ..Event::default()
    };
    let events: Vec<Event> = (0..500).map(event).collect();
    fixture.write("access", StreamKind::Access, batch(&events));
    let within = [
        "time >= TIMESTAMP '1970-01-02 00:05:00.7' AND time < TIMESTAMP '1970-01-02 00:09:00'",
        "response_size >= 9 AND response_size <= 200",
        "response_size::double > 8.5 AND response_size::double < 210.5",
        "true",
    ];
    let casts = [
        "time::date < DATE '1970-01-02'",
        "time::date <= DATE '1970-01-02'",
        "time::timestamp(0) <= TIMESTAMP '1970-01-02 00:05:01'",
        "time::timestamp(0) > TIMESTAMP '1970-01-02 00:05:00'",
        "(response_size::double / 7)::bigint > 10",
        "(response_size::double / 7)::bigint <= 200",
        "response_size::real >= 11.5",
        "response_size::text < (response_size + 1)::text",
        "time::text < response_size::text",
    ];
    for rows in within {
        for cast in casts {
            let given = format!("SELECT time, response_size FROM access WHERE {rows}");
            // A filter does not estimate the rows of a CASE.
            let sql =
                format!("SELECT sum(CASE WHEN {cast} THEN 1 ELSE 0 END) AS n FROM ({given}) t");
            let expected = fixture.rows(&sql).await;
            for below in [given.clone(), format!("{given} ORDER BY time LIMIT 1000")] {
                let sql = format!("SELECT count(*) AS n FROM ({below}) t WHERE {cast}");
                assert_eq!(fixture.rows(&sql).await, expected, "{sql}");
            }
        }
    }
}

/// Without a limit no rule leaves groups out.
#[tokio::test]
async fn the_first_groups_by_a_key_are_those_of_all() {
    let fixture = Fixture::without_rollups();
    let events = mixture(400, DAY_US, 1_000_000);
    fixture.write("access", StreamKind::Access, batch(&events));
    let sizes = "(SELECT response_size FROM access WHERE response_size > 0 GROUP BY 1)";
    let paths = "(SELECT path FROM access GROUP BY 1)";
    let latest = "(SELECT path, max(response_size) AS m FROM access GROUP BY 1)";
    let negative = format!("SELECT -response_size AS response_size FROM {sizes} q");
    for (key, groups) in [
        ("path", format!("SELECT path FROM {paths} q")),
        ("m", format!("SELECT m, path FROM {latest} q")),
        (
            "path",
            format!("SELECT path, count(*) OVER (ORDER BY path DESC) AS n FROM {paths} q"),
        ),
        (
            "path",
            format!("SELECT path, count(*) OVER () AS n FROM {paths} q"),
        ),
        (
            "m",
            format!("SELECT m, rank() OVER (ORDER BY m) AS n FROM {latest} q"),
        ),
        ("response_size", negative.clone()),
        (
            "response_size",
            format!("SELECT DISTINCT response_size FROM ({negative}) q"),
        ),
        (
            "response_size",
            format!(
                "SELECT max(response_size) AS response_size FROM ({negative}) q GROUP BY response_size % 7"
            ),
        ),
        (
            "path",
            format!("SELECT reverse(path) AS path FROM {paths} q"),
        ),
        (
            "path",
            format!("SELECT m::text AS path, path AS m FROM {latest} q"),
        ),
        (
            "a",
            format!(
                "SELECT b AS a, a AS b FROM (SELECT path AS a, reverse(path) AS b FROM {paths} q) r"
            ),
        ),
        (
            "path",
            format!(
                "SELECT path FROM {paths} q UNION ALL SELECT reverse(path) AS path FROM {paths} r"
            ),
        ),
        (
            "response_size",
            format!("SELECT response_size FROM {sizes} q UNION ALL SELECT -m FROM {latest} r"),
        ),
        (
            "path",
            format!("SELECT path FROM {paths} q WHERE path > (SELECT min(path) FROM {paths} r)"),
        ),
        (
            "path",
            format!("SELECT path, (SELECT max(path) FROM {paths} r) AS n FROM {paths} q"),
        ),
    ] {
        for order in ["", "DESC", "NULLS FIRST", "DESC NULLS LAST"] {
            let sql = format!("{groups} ORDER BY {key} {order}");
            let all = fixture.rows(&sql).await;
            assert!(all.len() > 3, "{sql}");
            let first = fixture.rows(&format!("{sql} LIMIT 3")).await;
            // Rows of one key may come in any order.
            assert!(
                first.iter().all(|row| all.contains(row)),
                "{sql}: {first:?}"
            );
            let keys = |rows: &[Value]| -> Vec<Value> {
                rows.iter().take(3).map(|row| row[key].clone()).collect()
            };
            assert_eq!(keys(&first), keys(&all), "{sql}");
        }
    }
}
