//! The first rows by time are the same, whether they are found before their columns are read or
//! not.

use serde_json::Value;
use storage::StreamKind;

use super::support::{Event, Fixture, Random, batch};

/// 2000-10-09T00:00:00Z.
const START: i64 = 971_049_600_000_000;
const DAYS: usize = 9;

/// Returns events on whole seconds, of which some have the same: on `days` days, the last of
/// which has few.
fn events(random: &mut Random, count: usize, days: std::ops::Range<usize>) -> Vec<Event> {
    const HOSTS: [&str; 3] = ["alpha", "beta", "gamma"];
    let event = |_| {
        let day = days.start + random.below(days.len());
        Event {
            time: START + (day * 86_400 + random.below(900) * 90) as i64 * 1_000_000,
            host: HOSTS[random.below(3)],
            method: Some("GET"),
            path: Some(format!("/p{}", random.below(60))),
            status: Some([200, 200, 200, 404, 503][random.below(5)]),
            size: Some(random.below(1000) as i64),
            ..Event::default()
        }
    };
    (0..count).map(event).collect()
}

/// Makes two seals, of overlapping days, and a memtable that reaches beyond them.
fn store(random: &mut Random) -> Fixture {
    let fixture = Fixture::without_rollups();
    for (round, days) in [1..DAYS - 2, 2..DAYS - 1, 0..DAYS].into_iter().enumerate() {
        let batch = batch(&events(random, 1000, days));
        fixture.write("access", StreamKind::Access, batch);
        if round < 2 {
            fixture.store.seal().expect("seals");
        }
    }
    fixture
}

fn query(random: &mut Random, hint: &str) -> String {
    let day = 9 + random.below(DAYS);
    let condition = [
        "".to_owned(),
        "WHERE status = 503".to_owned(),
        "WHERE path = '/p7' AND host = 'beta'".to_owned(),
        "WHERE path = '/nowhere'".to_owned(),
        "WHERE request LIKE '%/p1%' AND response_size > 700".to_owned(),
        format!("WHERE time >= '2000-10-{day:02}T03:00:00Z'"),
        format!("WHERE time < '2000-10-{day:02}' AND status = 404"),
        format!(
            "WHERE time >= '2000-10-{day:02}' AND time < '2000-10-{:02}'",
            day + 1
        ),
        "WHERE time < '1999-01-01'".to_owned(),
    ];
    let condition = &condition[random.below(condition.len())];
    let order = ["DESC", "", "ASC", "DESC NULLS LAST"][random.below(4)];
    let limit = [1, 5, 40, 700, 5000][random.below(5)];
    let offset = [0, 0, 3, 250][random.below(4)];
    match random.below(5) {
        0 => format!(
            "SELECT {hint} * FROM access {condition} ORDER BY time {order}, _id LIMIT {limit} OFFSET {offset}"
        ),
        1 => format!(
            "SELECT {hint} path, time AS t FROM access {condition} ORDER BY t {order}, path LIMIT {limit}"
        ),
        // The choice among the rows of the last time is open.
        2 => format!(
            "SELECT {hint} time FROM access {condition} ORDER BY time {order} LIMIT {limit} OFFSET {offset}"
        ),
        3 => format!(
            "SELECT {hint} status, count(*) AS n FROM (SELECT * FROM access {condition} ORDER BY time {order}, _id LIMIT {limit}) GROUP BY 1 ORDER BY 1"
        ),
        _ => format!(
            "SELECT {hint} a.time, b.path FROM (SELECT time, _id FROM access {condition} ORDER BY time {order}, _id LIMIT {limit}) a \
             JOIN (SELECT _id, path FROM access ORDER BY time DESC, _id LIMIT 600) b ON a._id = b._id ORDER BY 1, 2"
        ),
    }
}

async fn rows(fixture: &Fixture, sql: &str) -> Vec<Value> {
    let (rows, _) = fixture
        .try_query(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn first_rows_by_time_are_the_same_when_found_first() {
    for seed in 0..3 {
        let fixture = store(&mut Random(seed));
        let (mut plain, mut narrowed) = (Random(seed + 100), Random(seed + 100));
        let mut with_rows = 0;
        for _ in 0..100 {
            let (sql, hinted) = (
                query(&mut plain, "/*+ no_top_k */"),
                query(&mut narrowed, "/*+ top_k */"),
            );
            let expected = rows(&fixture, &sql).await;
            with_rows += usize::from(!expected.is_empty());
            assert_eq!(rows(&fixture, &hinted).await, expected, "{hinted}");
        }
        assert!(with_rows >= 50, "{with_rows} of 100 have rows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_lines_are_looked_for_in_the_last_partition() {
    let fixture = store(&mut Random(5));
    fixture.store.seal().expect("seals");
    let newest = "SELECT /*+ top_k */ * FROM access ORDER BY time DESC LIMIT 5";
    let found = fixture.figures(newest).await;
    let whole = fixture.figures(&newest.replace("top_k", "no_top_k")).await;
    assert!(whole.rows_examined > 1000, "{whole:?}");
    assert!(found.rows_examined < 300, "{found:?}");
    assert_eq!((found.partitions.examined, found.partitions.total), (1, 9));
    assert_eq!(found.rows_returned, 5);
    // A plain EXPLAIN runs nothing; EXPLAIN ANALYZE reports what ran.
    let told = rows(&fixture, &format!("EXPLAIN ANALYZE {newest}")).await;
    assert!(format!("{told:?}").contains("found in 1 steps"), "{told:?}");
    // A condition that nothing satisfies is evaluated everywhere, once, in few steps.
    let none =
        "SELECT /*+ top_k */ * FROM access WHERE request LIKE '%nowhere%' ORDER BY time LIMIT 5";
    let none = fixture.figures(none).await;
    assert_eq!((none.rows_returned, none.rows_examined), (0, 3000));
}
