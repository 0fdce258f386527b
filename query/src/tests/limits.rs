//! What a query may take: each limit is an error that names it, and nothing runs on after it.

use std::time::{Duration, Instant};

use futures::StreamExt;

use super::support::Fixture;
use crate::{Engine, EngineOptions, Error, Kind, Limits, NoSystemInfo};

/// Rows without end that nobody needs a table for.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 9000000000000)";
/// A join whose every row meets a third of all others.
const JOINS: &str = "SELECT count(*) FROM generate_series(1, 300000) a \
                     JOIN generate_series(1, 300000) b ON a.value % 3 = b.value % 3";
/// A join that finds next to nothing, and compares all with all.
const COMPARES: &str = "SELECT count(*) FROM generate_series(1, 300000) a \
                        JOIN generate_series(1, 300000) b ON a.value * 7 = b.value + a.value * a.value";

/// A join whose rows all meet, and none of whose pairs passes.
const MEETS: &str = "SELECT count(*) FROM generate_series(1, 300000) a \
                     JOIN generate_series(1, 300000) b ON a.value % 3 = b.value % 3 AND a.value + b.value < 0";

fn engine(limits: Limits) -> Engine {
    let options = EngineOptions {
        limits,
        target_partitions: 2,
        ..EngineOptions::default()
    };
    Engine::new(options).expect("starts")
}

async fn ask(engine: &Engine, fixture: &Fixture, sql: &str) -> Result<u64, Error> {
    let system = std::sync::Arc::new(NoSystemInfo);
    let answer = engine
        .sql(fixture.store.snapshot(), system, sql, None)
        .await?;
    let (_, _, figures) = answer.collect().await?;
    Ok(figures.rows_returned)
}

/// Processor seconds of this process.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("read");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let fields: Vec<f64> = fields.split(' ').filter_map(|f| f.parse().ok()).collect();
    (fields[10] + fields[11]) / 100.0
}

fn refused(outcome: Result<u64, Error>, limit: &str) {
    let error = outcome.expect_err("beyond its limit");
    assert_eq!(error.kind(), Kind::Resources, "{error}");
    assert!(error.hint().is_some(), "{error}");
    assert!(error.to_string().contains(limit), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_has_limits_in_time_rows_and_bytes() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits {
        time: Some(Duration::from_millis(300)),
        rows: Some(1000),
        bytes: Some(100_000),
        ..Limits::default()
    });
    let rows = |n: u64| format!("SELECT value FROM generate_series(1, {n})");
    assert_eq!(
        ask(&engine, &fixture, &rows(1000)).await.expect("fits"),
        1000
    );
    refused(ask(&engine, &fixture, &rows(1001)).await, "query.rows_max");
    let wide = "SELECT repeat('x', 1000) || value FROM generate_series(1, 200)";
    refused(ask(&engine, &fixture, wide).await, "query.result_bytes_max");
    // Columns of a part are views of its buffers.
    let view = "SELECT arrow_cast(repeat('x', 1000), 'Utf8View') FROM generate_series(1, 200)";
    refused(ask(&engine, &fixture, view).await, "query.result_bytes_max");
    for sql in [ENDLESS, JOINS, COMPARES] {
        let began = Instant::now();
        refused(ask(&engine, &fixture, sql).await, "query.time_max");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{sql}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_was_cancelled_computes_no_more() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    for sql in [ENDLESS, JOINS, COMPARES, MEETS] {
        let (asking, waiting) = (engine.clone(), fixture.store.snapshot());
        let task = tokio::spawn(async move {
            let system = std::sync::Arc::new(NoSystemInfo);
            let mut answer = asking.sql(waiting, system, sql, None).await?;
            answer.stream.next().await.expect("an answer or an error")
        });
        let id = loop {
            match engine.queries().first() {
                Some(query) => break query.id,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        tokio::time::sleep(Duration::from_millis(300)).await;
        let began = Instant::now();
        assert!(engine.cancel(id));
        let error = task.await.expect("no panic").expect_err("cancelled");
        assert!(began.elapsed() < Duration::from_millis(200), "{sql}");
        assert_eq!(error.kind(), Kind::Cancelled);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(engine.lanes_are_empty(), "{sql} computes on");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_wait_in_a_queue_of_bounded_length() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits {
        time: Some(Duration::from_millis(600)),
        running: 2,
        queued: 1,
        ..Limits::default()
    });
    let ask = |sql: &'static str| {
        let (engine, snapshot) = (engine.clone(), fixture.store.snapshot());
        tokio::spawn(async move {
            let system = std::sync::Arc::new(NoSystemInfo);
            engine.sql(snapshot, system, sql, None).await
        })
    };
    // Nobody reads the answers of these.
    let first = ask(ENDLESS).await.expect("no panic").expect("runs");
    let second = ask(ENDLESS).await.expect("no panic").expect("runs");
    let third = ask("SELECT 1");
    while engine.queries().len() < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let error = ask("SELECT 2").await.expect("no panic").expect_err("full");
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    assert!(!third.is_finished());
    // Their places are given back when their time is over.
    let third = tokio::time::timeout(Duration::from_secs(20), third).await;
    let third = third.expect("a place is given back").expect("no panic");
    let third = third.expect("runs at last");
    assert_eq!(third.collect().await.expect("rows").1[0].num_rows(), 1);
    drop((first, second));
    // One that gives up frees its place in the queue.
    let held = (ask(ENDLESS).await, ask(ENDLESS).await);
    let waiting = ask("SELECT 3");
    tokio::time::sleep(Duration::from_millis(20)).await;
    waiting.abort();
    let _aborted = waiting.await;
    let next = ask("SELECT 4");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!next.is_finished());
    drop(held);
    next.await.expect("no panic").expect("runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_refused_before_it_becomes_a_tree_too_deep() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    let sum = |n: usize| format!("SELECT {}", vec!["1"; n].join("+"));
    let ors = |n: usize| {
        let terms: Vec<String> = (0..n).map(|i| format!("value = {i}")).collect();
        let terms = terms.join(" OR ");
        format!("SELECT * FROM generate_series(1, 3) WHERE {terms}")
    };
    assert_eq!(ask(&engine, &fixture, &sum(1001)).await.expect("fits"), 1);
    assert_eq!(ask(&engine, &fixture, &ors(500)).await.expect("fits"), 3);
    let union = vec!["SELECT 1"; 101].join(" UNION ALL ");
    assert_eq!(ask(&engine, &fixture, &union).await.expect("fits"), 101);
    let brackets = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    let cases = format!(
        "SELECT {}1{}",
        "CASE WHEN true THEN ".repeat(40),
        " ELSE 2 END".repeat(40)
    );
    assert_eq!(ask(&engine, &fixture, &cases).await.expect("fits"), 1);
    let unions = vec!["SELECT 1"; 1000].join(" UNION ALL ");
    for sql in [
        sum(20_000),
        ors(5000),
        unions,
        brackets,
        "- ".repeat(5000) + "1",
    ] {
        let error = ask(&engine, &fixture, &sql).await.expect_err("too deep");
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
    let long = format!("SELECT '{}'", "x".repeat(1 << 20));
    refused(ask(&engine, &fixture, &long).await, "query.sql_bytes_max");
}

#[tokio::test]
async fn what_makes_much_of_little_is_refused_before_it_does() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    for (fits, too_much) in [
        (
            "length(repeat('xy', 1000000))",
            "length(repeat('x', 1000000000))",
        ),
        (
            "length(lpad('x', 1000000, 'y'))",
            "length(lpad('x', 2000000000, 'y'))",
        ),
        (
            "length(rpad('x', 1000000, 'y'))",
            "length(rpad('x', 2000000000, 'y'))",
        ),
        (
            "array_length(range(1000000))",
            "array_length(range(3000000000))",
        ),
        (
            "array_length(range(5, 1000, 5))",
            "array_length(range(-1, 3000000000, 2))",
        ),
        (
            "array_length(generate_series(3000000000, 1))",
            "array_length(generate_series(1, 9000000000))",
        ),
        (
            "array_length(array_repeat(1, 1000))",
            "array_length(array_repeat(1, 1000000000))",
        ),
        ("repeat(NULL, 5)", "repeat('x', 9223372036854775807)"),
        (
            "array_length(range(DATE '2020-01-01', DATE '2021-01-01', INTERVAL '1 day'))",
            "range(DATE '1970-01-01', DATE '2100-01-01', INTERVAL '1 microsecond')",
        ),
        (
            "length(replace('a/b/c', '/', '//'))",
            "length(replace(repeat('x', 1000000), 'x', repeat('y', 1000000)))",
        ),
        (
            "length(regexp_replace(repeat('x', 1000000), 'x*', repeat('y', 1000000)))",
            "length(regexp_replace(repeat('x', 1000000), 'x', repeat('y', 1000000), 'g'))",
        ),
        (
            "array_to_string([1, 2], ', ')",
            "array_to_string(range(0, 1000000), repeat('x', 1000000))",
        ),
        (
            "array_length(array_resize([1], 1000))",
            "array_length(array_resize([1], 1000000000))",
        ),
        (
            "length(concat(repeat('x', 10000000), 'y'))",
            "length(concat(repeat('x', 10000000), repeat('y', 60000000)))",
        ),
        (
            "length(repeat('x', 10000000) || 'y')",
            "length(repeat('x', 10000000) || repeat('y', 60000000))",
        ),
    ] {
        assert_eq!(
            ask(&engine, &fixture, &format!("SELECT {fits}"))
                .await
                .expect(fits),
            1
        );
        let error = ask(&engine, &fixture, &format!("SELECT {too_much}")).await;
        let error = error.expect_err(too_much).to_string();
        assert!(error.contains("at most 16777216"), "{error}");
    }
    // A text or a list that is twice as long at each step.
    for (from, twice, length) in [
        ("repeat('x', 1000) || value", "t || t", "length(t)"),
        (
            "concat(repeat('x', 1000), value)",
            "concat(t, t)",
            "length(t)",
        ),
        (
            "array_repeat(value, 100)",
            "array_concat(t, t)",
            "array_length(t)",
        ),
    ] {
        let doubled = |times| {
            let from = format!("SELECT {from} AS t FROM generate_series(1, 9)");
            let sql = (0..times).fold(from, |sql, _| format!("SELECT {twice} AS t FROM ({sql})"));
            format!("SELECT {length} FROM ({sql})")
        };
        assert_eq!(ask(&engine, &fixture, &doubled(10)).await.expect(twice), 9);
        let error = ask(&engine, &fixture, &doubled(20)).await;
        let error = error.expect_err(twice).to_string();
        assert!(error.contains("at most 67108864"), "{error}");
    }
    // Many rows of a little each.
    let rows = "SELECT max(length(repeat('x', value))) FROM generate_series(1, 100000)";
    let error = ask(&engine, &fixture, rows)
        .await
        .expect_err("too much")
        .to_string();
    assert!(error.contains("repeat would make"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_queries_are_answered_beside_endless_ones() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits {
        running: 6,
        ..Limits::default()
    });
    let mut endless = Vec::new();
    for sql in [ENDLESS, COMPARES, ENDLESS, COMPARES] {
        let system = std::sync::Arc::new(NoSystemInfo);
        let answer = engine.sql(fixture.store.snapshot(), system, sql, None);
        endless.push(answer.await.expect("runs"));
    }
    // From then on the endless ones have stepped back.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let before = spent();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        let rows = ask(&engine, &fixture, "SELECT value FROM generate_series(1, 3)").await;
        assert_eq!(rows.expect("answered"), 3);
        times.push(began.elapsed());
    }
    times.sort();
    assert!(times[10] < Duration::from_millis(250), "{times:?}");
    assert!(spent() > before, "the endless ones run meanwhile");
}

#[tokio::test]
async fn a_long_constant_meets_few_rows_at_a_time() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    let sql = "SELECT repeat('x', 8000000) || value AS t FROM generate_series(1, 20)";
    let system = std::sync::Arc::new(NoSystemInfo);
    let answer = engine.sql(fixture.store.snapshot(), system, sql, None);
    let mut answer = answer.await.expect("runs");
    let mut all = 0;
    // Not kept: other tests measure the memory of this process.
    while let Some(batch) = answer.stream.next().await {
        let rows = batch.expect("rows").num_rows();
        assert!(rows <= 2, "{rows}");
        all += rows;
    }
    assert_eq!(all, 20);
    let long = "SELECT repeat('x', 20000000) || value AS t FROM generate_series(1, 20)";
    let error = ask(&engine, &fixture, long).await.expect_err("too long");
    assert!(error.to_string().contains("a constant of 2000"), "{error}");
}

#[tokio::test]
async fn many_long_columns_and_grouping_sets_take_few_rows_at_a_time() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    let list = |each: &dyn Fn(usize) -> String| (0..100).map(each).collect::<Vec<_>>().join(", ");
    let long = list(&|nth| format!("repeat('x', 7000) || (value + {nth}) AS c{nth}"));
    for (sql, rows) in [
        (format!("SELECT {long} FROM generate_series(1, 300)"), 300),
        (
            "SELECT a, b, c, d, e, f, g, h, count(*) FROM (SELECT value a, value b, value c, value d, value e, \
             value f, value g, value h FROM generate_series(1, 9)) GROUP BY CUBE(a, b, c, d, e, f, g, h)"
                .to_owned(),
            9 * 255 + 1,
        ),
    ] {
        let system = std::sync::Arc::new(NoSystemInfo);
        let answer = engine.sql(fixture.store.snapshot(), system, &sql, None);
        let (_, batches, _) = answer.await.expect("runs").collect().await.expect("rows");
        let each: Vec<usize> = batches.iter().map(|batch| batch.num_rows()).collect();
        assert_eq!(each.iter().sum::<usize>(), rows, "{sql}");
        assert!(each.iter().all(|rows| *rows <= 130), "{each:?}");
    }
}

#[tokio::test]
async fn a_window_is_not_gathered_for_each_row() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    let gathered = |frame: &str| {
        format!(
            "SELECT max(n) FROM (SELECT array_length(array_agg(value) OVER ({frame})) AS n FROM generate_series(1, 90))"
        )
    };
    for frame in ["", "ORDER BY value", "ORDER BY value ROWS 1001 PRECEDING"] {
        let error = ask(&engine, &fixture, &gathered(frame)).await;
        let error = error.expect_err(frame).to_string();
        assert!(error.contains("array_agg over a window"), "{error}");
    }
    let narrow = gathered("ORDER BY value ROWS BETWEEN 4 PRECEDING AND 2 FOLLOWING");
    assert_eq!(ask(&engine, &fixture, &narrow).await.expect("narrow"), 1);
}

#[tokio::test]
async fn texts_are_put_together_as_ever() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    let sql = "SELECT 'a' || 'b' = 'ab', value || 'x' = '7x', 'x' || NULL IS NULL, [1] || [2] = [1, 2], \
               1 || '2' = '12', arrow_cast('a', 'LargeUtf8') || 'b' = 'ab', \
               arrow_cast('a', 'Utf8View') || value = 'a7' \
               FROM generate_series(7, 7)";
    let system = std::sync::Arc::new(NoSystemInfo);
    let answer = engine.sql(fixture.store.snapshot(), system, sql, None);
    let (schema, batches, _) = answer.await.expect("runs").collect().await.expect("rows");
    for (column, field) in batches[0].columns().iter().zip(schema.fields()) {
        let holds = arrow::array::AsArray::as_boolean(column).value(0);
        assert!(holds, "{}", field.name());
    }
    assert!(schema.field(0).name().contains("||"), "{schema}");
}
