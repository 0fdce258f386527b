//! Sums of integers from levels, rollups and raw events, compared with sums computed here.

use std::sync::Arc;

use serde_json::{Value, json};
use storage::StreamKind;

use crate::tests::support::{DAY_US, Event, Fixture, Random, batch};
use crate::{Engine, EngineOptions, NoSystemInfo, RollupUse};

/// 2000-10-09T00:00:00Z.
const START: i64 = 971_049_600_000_000;

fn event(day: i64, nth: usize, path: &str, size: i64) -> Event {
    Event {
        time: START + day * DAY_US + nth as i64,
        path: Some(path.to_owned()),
        size: Some(size),
        ..Event::default()
    }
}

/// Creates a store with three of the largest sizes on the first day and small ones on two days,
/// sealed and in memory.
fn poisoned() -> Fixture {
    let fixture = Fixture::with_defaults();
    let mut events: Vec<Event> = (0..3).map(|n| event(0, n, "/huge", i64::MAX)).collect();
    events.extend((3..9).map(|n| event(n as i64 % 2, n, "/small", 10)));
    fixture.write("access", StreamKind::Access, batch(&events));
    fixture.store.seal().expect("seals");
    fixture.write("access", StreamKind::Access, batch(&events[..1]));
    fixture
}

/// Runs a query with a rollup wherever one can answer.
async fn always(fixture: &Fixture, sql: &str) -> Result<Vec<Value>, String> {
    let engine = Engine::new(EngineOptions {
        target_partitions: 2,
        rollup_answers: RollupUse::Always,
        ..EngineOptions::default()
    })
    .expect("starts");
    let system = Arc::new(NoSystemInfo);
    let answer = engine
        .sql(fixture.store.snapshot(), system, sql, None)
        .await;
    let answer = answer.map_err(|e| e.to_string())?;
    let (schema, batches, _) = answer.collect().await.map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    crate::answer::output::write(
        crate::answer::output::Output::Json,
        &schema,
        &batches,
        &mut out,
    )
    .expect("written");
    // Digits beyond 64 bits would be lost in a JSON number of this library.
    let text = String::from_utf8(out).expect("text");
    Ok(vec![Value::String(text)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_beyond_all_others_is_summed_alike_with_a_rollup_and_without() {
    let fixture = poisoned();
    for sql in [
        "sum(response_size) AS s FROM access",
        "path, sum(response_size) AS s FROM access GROUP BY 1 ORDER BY 1",
        "date_trunc('day', time) AS t, sum(response_size) AS s FROM access GROUP BY 1 ORDER BY 1",
        "sum(CAST(response_size AS DECIMAL(38, 0))) AS s FROM access",
        "avg(response_size) AS a FROM access",
        "path, avg(response_size) AS a, count(*) AS n FROM access GROUP BY 1 ORDER BY 1",
        "avg(response_size) FILTER (WHERE path = '/small') AS a FROM access",
        "sum(response_size) AS s, sum(response_size) + 1 AS t FROM access WHERE path = '/small'",
        "sum(response_size) AS s FROM access WHERE time >= '2000-10-10'",
        "sum(response_size) AS s FROM access WHERE path = 'nothing'",
    ] {
        let with = always(&fixture, &format!("SELECT {sql}")).await;
        let without = always(&fixture, &format!("SELECT /*+ no_rollup */ {sql}")).await;
        assert_eq!(with, without, "{sql}");
    }
    let total = i128::from(i64::MAX) * 4 + 60;
    let told = always(&fixture, "SELECT sum(response_size) FROM access").await;
    let told = told.expect_err("it is too large");
    let wanted = ["sum(response_size)", &total.to_string(), "DECIMAL(38, 0)"];
    assert!(wanted.iter().all(|w| told.contains(w)), "{told}");
    let exact = "SELECT sum(CAST(response_size AS DECIMAL(38, 0))) AS s FROM access";
    let exact = always(&fixture, exact).await.expect("a decimal")[0].to_string();
    assert!(exact.contains(&total.to_string()), "{exact}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_that_holds_such_a_size_can_be_read() {
    let fixture = poisoned();
    let days = "SELECT path, bytes, size_sum FROM stats.daily ORDER BY bucket, path";
    assert_eq!(
        fixture.rows(days).await,
        [
            json!({"path": "/huge", "bytes": null, "size_sum": null}),
            json!({"path": "/small", "bytes": 30, "size_sum": 30}),
            json!({"path": "/small", "bytes": 30, "size_sum": 30}),
        ]
    );
    for level in ["minutely", "hourly", "daily", "weekly", "monthly", "yearly"] {
        let all = fixture.rows(&format!("SELECT * FROM stats.{level}")).await;
        assert!(all.iter().all(|row| row.get("bytes_exact").is_none()));
    }
    let told = fixture
        .try_query("SELECT sum(bytes) FROM stats.daily")
        .await;
    let told = told.expect_err("a cell is too large").to_string();
    assert!(
        told.contains("bytes_exact") && told.contains("2000-10-09"),
        "{told}"
    );
    let told = fixture
        .try_query("SELECT path, sum(bytes) OVER (PARTITION BY path) FROM stats.daily")
        .await;
    assert!(told.is_err());
    let small = "SELECT sum(bytes) AS s FROM stats.daily WHERE path = '/small'";
    assert_eq!(fixture.value(small).await, json!(60));
    let total = (i128::from(i64::MAX) * 4 + 60).to_string();
    let exact = "SELECT sum(bytes_exact) AS b, sum(hits) AS n FROM \
                 (SELECT hits, bytes_exact FROM stats.daily WHERE bucket < '2000-10-10' \
                  UNION ALL SELECT hits, bytes_exact FROM stats.hourly WHERE bucket >= '2000-10-10') AS c";
    let exact = always(&fixture, exact).await.expect("a decimal")[0].to_string();
    assert!(exact.contains(&total) && exact.contains("10"), "{exact}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_over_windows_do_not_wrap_either() {
    let fixture = poisoned();
    let running = "SELECT sum(response_size) OVER (ORDER BY _seq) AS s FROM access";
    let told = fixture.try_query(running).await.expect_err("too large");
    assert!(told.to_string().contains("exceeds 64 bits"), "{told}");
    let sliding = "SELECT time, sum(response_size) OVER \
                   (ORDER BY _seq ROWS BETWEEN CURRENT ROW AND CURRENT ROW) AS s FROM access";
    let rows = fixture.rows(sliding).await;
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[0]["s"], json!(i64::MAX));
    let different = "SELECT sum(DISTINCT response_size) OVER \
                     (ORDER BY _seq ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM access";
    let rows = fixture
        .rows(&format!("{different} WHERE path = '/small'"))
        .await;
    assert_eq!(rows, vec![json!({"s": 10}); 6]);
    let told = fixture.try_query(different).await.expect_err("too large");
    assert!(told.to_string().contains("exceeds 64 bits"), "{told}");
}

/// Checks sums whose intermediate values exceed 64 bits and return below, in any order of
/// addition.
#[tokio::test(flavor = "multi_thread")]
async fn random_sums_are_those_of_128_bits() {
    for seed in 0..4 {
        let mut random = Random(seed);
        let fixture = Fixture::with_defaults();
        let mut sums = std::collections::BTreeMap::<String, (i128, i128)>::new();
        for _ in 0..3 {
            let events: Vec<Event> = (0..40)
                .map(|nth| {
                    let near = random.below(1_000) as i64;
                    let size = match random.below(3) {
                        0 => i64::MAX - near,
                        1 => i64::MIN + near,
                        _ => near - 500,
                    };
                    let path = format!("/p{}", random.below(9));
                    let known = sums.entry(path.clone()).or_default();
                    *known = (known.0 + i128::from(size), known.1 + 1);
                    event(random.below(3) as i64, nth, &path, size)
                })
                .collect();
            fixture.write("access", StreamKind::Access, batch(&events));
            if random.below(2) == 0 {
                fixture.store.seal().expect("seals");
            }
        }
        for (path, (sum, n)) in sums {
            let mean = sum as f64 / n as f64;
            for hint in ["", "/*+ no_rollup */"] {
                let of = |what: &str| {
                    format!("SELECT {hint} {what} AS x FROM access WHERE path = '{path}'")
                };
                let found = always(&fixture, &of("sum(response_size)")).await;
                match i64::try_from(sum) {
                    Ok(fit) => assert!(
                        found.expect("it fits")[0]
                            .to_string()
                            .contains(&fit.to_string())
                    ),
                    Err(_) => assert!(found.expect_err("too large").contains(&sum.to_string())),
                }
                let found = fixture.value(&of("avg(response_size)")).await;
                assert_eq!(found.as_f64(), Some(mean), "seed {seed} {path} {hint}");
            }
        }
    }
}
