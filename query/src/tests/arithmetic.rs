//! Arithmetic of integers and of intervals.

use proptest::prelude::*;
use serde_json::Value;

use super::support::Fixture;
use crate::error::Fault;

/// Returns what SQL makes of an expression, as text; `None` if it has no room in its type.
async fn value(fixture: &Fixture, sql: &str) -> Option<String> {
    match fixture.try_query(sql).await {
        Ok((rows, _)) => {
            let row = rows[0].as_object().expect("a row");
            match row.values().next().expect("a column") {
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            }
        }
        Err(error) => {
            assert_eq!(error.fault(), Some(Fault::OutOfRange), "{sql}: {error}");
            None
        }
    }
}

/// Returns integers near the edges of 64 bits, and all others.
fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        (-3_i64..=3),
        (0_i64..4).prop_map(|n| i64::MAX - n),
        (0_i64..4).prop_map(|n| i64::MIN + n),
        Just(3_037_000_500),
    ]
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn integers_are_exact_or_refused(a in integer(), b in integer(), c in integer(), ops in [0..3_usize, 0..3_usize]) {
        let apply = |op: usize, left: i64, right: i64| match op {
            0 => left.checked_add(right),
            1 => left.checked_sub(right),
            _ => left.checked_mul(right),
        };
        let expected = apply(ops[0], a, b).and_then(|ab| apply(ops[1], ab, c));
        let [first, second] = ops.map(|op| ["+", "-", "*"][op]);
        let literal = |n: i64| format!("CAST('{n}' AS bigint)");
        let of = |a: &str, b: &str, c: &str| format!("(({a} {first} {b}) {second} {c})");
        let constants = of(&literal(a), &literal(b), &literal(c));
        let columns = of("a", "b", "c");
        let table = format!("(VALUES ({}, {}, {})) AS t(a, b, c)", literal(a), literal(b), literal(c));
        run(async {
            let fixture = Fixture::without_rollups();
            for sql in [
                format!("SELECT {constants} AS n"),
                format!("SELECT {columns} AS n FROM {table}"),
                format!("SELECT n FROM (SELECT {columns} AS n FROM {table}) WHERE n = n"),
                format!("SELECT {columns} AS n FROM {table} GROUP BY a, b, c ORDER BY {columns}"),
            ] {
                let found = value(&fixture, &sql).await;
                assert_eq!(found, expected.map(|n| n.to_string()), "{sql}");
            }
            // The optimizer brings these constants to the operators.
            let defined = format!("SELECT {} AS a, {} AS b, {} AS c", literal(a), literal(b), literal(c));
            for sql in [
                format!("SELECT {columns} AS n FROM ({defined}) AS t"),
                format!("WITH t AS ({defined}), u AS (SELECT {columns} AS n FROM t) SELECT n FROM u WHERE n < 0 OR n >= 0"),
            ] {
                let found = value(&fixture, &sql).await;
                assert_eq!(found, expected.map(|n| n.to_string()), "{sql}");
            }
            let sql = format!("SELECT count(*) AS n FROM (SELECT {columns} AS n FROM ({defined}) AS t) AS u WHERE n < 0 OR n >= 0");
            let found = value(&fixture, &sql).await;
            assert_eq!(found, expected.map(|_| "1".to_owned()), "{sql}");
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_integer_type_refuses_what_has_no_room() {
    let fixture = Fixture::without_rollups();
    for (of, max) in [
        ("smallint", "32767"),
        ("int", "2147483647"),
        ("bigint", "9223372036854775807"),
    ] {
        let max = format!("{max}::{of}");
        let least = format!("(-{max} - 1::{of})");
        for wrong in [
            format!("{max} + 1::{of}"),
            format!("{max} * 2::{of}"),
            format!("-{max} - 2::{of}"),
            format!("-({least})"),
        ] {
            let sql = format!("SELECT {wrong} AS n");
            assert_eq!(value(&fixture, &sql).await, None, "{sql}");
        }
        let sql = format!("SELECT {least} + {max} AS n");
        assert_eq!(value(&fixture, &sql).await.as_deref(), Some("-1"), "{sql}");
    }
}

/// The examples are PostgreSQL's: its documentation, and its tests of `interval`.
#[tokio::test(flavor = "multi_thread")]
async fn intervals_are_multiplied_as_in_postgresql() {
    let fixture = Fixture::without_rollups();
    for (product, expected) in [
        ("900 * interval '1 second'", "interval '15 minutes'"),
        ("interval '1 day' * 1.5", "interval '1 day 12 hours'"),
        ("interval '1 hour' / 1.5", "interval '40 minutes'"),
        ("interval '1 month' * 1.5", "interval '1 month 15 days'"),
        (
            "3::smallint * interval '1 month 2 days'",
            "interval '3 months 6 days'",
        ),
        ("interval '1 year' / 12", "interval '1 month'"),
        (
            "-2 * interval '1 day 1 hour 30 minutes'",
            "interval '-2 days -3 hours'",
        ),
        ("0.1 * interval '10 days'", "interval '1 day'"),
        ("interval '1 month' * 0.1", "interval '3 days'"),
        ("NULL::bigint * interval '1 day'", "NULL::interval"),
    ] {
        let sql = format!(
            "SELECT ({product}) IS NOT DISTINCT FROM ({expected}) AS same, CAST({product} AS text) AS found"
        );
        let rows = fixture.rows(&sql).await;
        assert_eq!(rows[0]["same"], true, "{product}: {}", rows[0]["found"]);
    }
    for beyond in [
        "interval '1 month' * 3000000000",
        "interval '1 day' * 1e10",
        "9223372036854775807 * interval '1 second'",
    ] {
        assert_eq!(
            value(&fixture, &format!("SELECT {beyond} AS i")).await,
            None,
            "{beyond}"
        );
    }
    // As charts use it: the starts of buckets from their numbers.
    let sql = "SELECT TIMESTAMP '2026-01-01' + n * interval '1 hour' AS t FROM generate_series(0, 2) AS s(n) ORDER BY n DESC LIMIT 1";
    assert_eq!(
        value(&fixture, sql).await.as_deref(),
        Some("2026-01-01T02:00:00Z")
    );
}
