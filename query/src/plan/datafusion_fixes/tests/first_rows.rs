//! Rows in order, and the first of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, TimestampMicrosecondArray};
use serde_json::{Value, json};
use storage::{Column, ColumnType, StreamKind, arrow_schema};

use crate::tests::support::{DAY_US, Event, Fixture, batch, mixture};

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
