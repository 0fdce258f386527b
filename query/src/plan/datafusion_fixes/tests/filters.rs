//! Conditions, and where they are checked.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    self, BinaryExpr, DynamicFilterPhysicalExpr, NotExpr, lit,
};
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::ast;
use serde_json::json;
use storage::StreamKind;

use crate::tables::stream::dynamic_filters::has_its_columns;
use crate::tests::support::{DAY_US, Event, Fixture, batch};

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
    crate::plan::datafusion_fixes::mend_expr(&mut parsed);
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
