//! Questions that DataFusion alone answers wrongly.

use serde_json::json;
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
        // The first measures are taken while there are parts to be opened.
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
    // More groups than a batch has rows, of few rows, so that threads have none.
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
