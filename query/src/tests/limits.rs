//! Limits of a query: each is an error that names it, and nothing runs on after it.

use std::time::Duration;

use futures::StreamExt;

use super::support::Fixture;
use crate::{Engine, EngineOptions, Error, Kind, Limits, NoSystemInfo};

/// A count of rows without end, which needs no table.
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

/// Returns the processor seconds of this process.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("read");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let fields: Vec<f64> = fields.split(' ').filter_map(|f| f.parse().ok()).collect();
    (fields[10] + fields[11]) / 100.0
}

/// Returns the number of query threads in this process that have lowered their priority.
fn stepped_back() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let stats = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let is_back = |stat: &String| {
        let Some((name, fields)) = stat.rsplit_once(')') else {
            return false;
        };
        let nice = fields
            .split(' ')
            .nth(17)
            .and_then(|f| f.parse::<i32>().ok());
        name.ends_with("(logmill-query") && nice >= Some(10)
    };
    stats.filter(is_back).count()
}

/// Waits until the condition holds. The bound is for a test that fails.
pub(super) async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("it does not come");
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
    let sized = engine(Limits {
        time: None,
        rows: Some(1000),
        bytes: Some(100_000),
        ..Limits::default()
    });
    let timed = engine(Limits {
        time: Some(Duration::from_millis(300)),
        ..Limits::default()
    });
    let rows = |n: u64| format!("SELECT value FROM generate_series(1, {n})");
    assert_eq!(
        ask(&sized, &fixture, &rows(1000)).await.expect("fits"),
        1000
    );
    refused(ask(&sized, &fixture, &rows(1001)).await, "query.rows_max");
    let wide = "SELECT repeat('x', 1000) || value FROM generate_series(1, 200)";
    refused(ask(&sized, &fixture, wide).await, "query.result_bytes_max");
    // Columns of a part are views of its buffers.
    let view = "SELECT arrow_cast(repeat('x', 1000), 'Utf8View') FROM generate_series(1, 200)";
    refused(ask(&sized, &fixture, view).await, "query.result_bytes_max");
    // A value of a dictionary counts for each row that shows it, and only then.
    let shown = "SELECT arrow_cast(repeat('x', 1000), 'Dictionary(Int32, Utf8)') FROM generate_series(1, 200)";
    refused(ask(&sized, &fixture, shown).await, "query.result_bytes_max");
    let few = "SELECT arrow_cast(repeat('x', 90000) || value, 'Dictionary(Int32, Utf8)') FROM generate_series(1, 1)";
    assert_eq!(ask(&sized, &fixture, few).await.expect("fits"), 1);
    for sql in [ENDLESS, JOINS, COMPARES] {
        // The query ends, however late on a busy machine.
        refused(ask(&timed, &fixture, sql).await, "query.time_max");
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
        // The query is under way.
        let before = spent();
        until(|| spent() > before + 0.2).await;
        assert!(engine.cancel(id));
        let error = task.await.expect("no panic").expect_err("cancelled");
        assert_eq!(error.kind(), Kind::Cancelled);
        until(|| engine.queries().is_empty()).await;
        until(|| engine.threads_are_idle()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_wait_in_a_queue_of_bounded_length() {
    let fixture = Fixture::without_rollups();
    let limits = Limits {
        time: None,
        running: 2,
        queued: 1,
        ..Limits::default()
    };
    let untimed = engine(limits);
    let timed = engine(Limits {
        time: Some(Duration::from_secs(1)),
        ..limits
    });
    let ask_of = |engine: &Engine, sql: &'static str| {
        let (engine, snapshot) = (engine.clone(), fixture.store.snapshot());
        tokio::spawn(async move {
            let system = std::sync::Arc::new(NoSystemInfo);
            engine.sql(snapshot, system, sql, None).await
        })
    };
    let ask = |sql| ask_of(&untimed, sql);
    // The answers of these queries are not read.
    let held = [ask(ENDLESS).await, ask(ENDLESS).await];
    let waiting = ask("SELECT 1");
    until(|| untimed.waiting() == 1).await;
    let error = ask("SELECT 2").await.expect("no panic").expect_err("full");
    assert_eq!(error.kind(), Kind::Busy, "{error}");
    // A waiting query that is dropped frees its place in the queue.
    waiting.abort();
    let _aborted = waiting.await;
    assert_eq!(untimed.waiting(), 0);
    let next = ask("SELECT 3");
    until(|| untimed.waiting() == 1).await;
    assert!(!next.is_finished());
    drop(held);
    next.await.expect("no panic").expect("runs");

    // A place is returned when the time of its query is over, whether its answer is read or not.
    let ask = |sql| ask_of(&timed, sql);
    let held = [ask(ENDLESS).await, ask(ENDLESS).await];
    let third = ask("SELECT 1").await.expect("no panic");
    drop((held, third));
    until(|| timed.queries().is_empty()).await;
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
        assert!(error.contains("the limit is 16777216"), "{error}");
    }
    // The text or list is twice as long at each step.
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
        assert!(error.contains("the limit is 67108864"), "{error}");
    }
    // The query has many rows of a little each.
    let rows = "SELECT max(length(repeat('x', value))) FROM generate_series(1, 100000)";
    let error = ask(&engine, &fixture, rows)
        .await
        .expect_err("too much")
        .to_string();
    assert!(error.contains("repeat would produce"), "{error}");
}

#[tokio::test]
async fn what_nothing_could_stop_is_refused_before_it_begins() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    let row = "the limit is 1073741824";
    for (sql, function) in [
        (
            "SELECT levenshtein(repeat('a', 16000000), repeat('b', 16000000))",
            "levenshtein",
        ),
        (
            "SELECT strpos(repeat('a', 8000000), repeat('a', 4000000) || 'b')",
            "strpos",
        ),
        (
            "SELECT array_has_all(range(0, 300000), range(0, 300000))",
            "array_has_all",
        ),
        (
            "SELECT array_has_any(range(0, 300000), range(300001, 600000))",
            "array_has_any",
        ),
        (
            "SELECT btrim(repeat('a', 8000000), repeat('b', 8000000))",
            "btrim",
        ),
        (
            "SELECT regexp_count(repeat('a', 16000000), '(a?){900}b')",
            "regexp_count",
        ),
        (
            "SELECT repeat('a', 16000000) ~ repeat('a?', 9000)",
            "regexp_like",
        ),
        (
            "SELECT repeat('a', 16000000) NOT SIMILAR TO repeat('a?', 9000)",
            "regexp_like",
        ),
        (
            "SELECT repeat('a', 16000000) NOT ILIKE repeat('%a_', 9000)",
            "ILIKE",
        ),
        // These arguments come from rows, which are no constants.
        (
            "SELECT levenshtein(repeat('a', 100000 + value), repeat('b', 100000 + value)) FROM generate_series(1, 9)",
            "levenshtein",
        ),
        (
            "SELECT count(*) FROM generate_series(1, 9) WHERE repeat('a', 1000000 + value) LIKE repeat('%a_', 9000 + value)",
            "LIKE",
        ),
    ] {
        let error = ask(&engine, &fixture, sql).await.expect_err(sql);
        assert_eq!(error.kind(), Kind::Invalid, "{sql}: {error}");
        let error = error.to_string();
        assert!(
            error.contains(row) && error.contains(function),
            "{sql}: {error}"
        );
    }
    let long = "SELECT 'x' ~ repeat('a', 300000)";
    let error = ask(&engine, &fixture, long).await.expect_err("too long");
    assert!(error.to_string().contains("the limit is 262144"), "{error}");
    for fits in [
        "levenshtein(repeat('a', 1000), repeat('b', 999)) = 1000",
        "strpos(repeat('a', 1000) || 'b', 'ab') = 1000",
        "array_has_all(range(0, 1000), range(0, 900))",
        "btrim('xxaxx', 'x') = 'a' AND btrim(' a ') = 'a'",
        "regexp_like('a1', '[0-9]') AND 'a1' ~ (value || '1') AND 'A1' ~* ('a' || '1')",
        "'a1' !~ ('b' || value) AND (CAST(NULL AS TEXT) ~ ('b' || value)) IS NULL",
        "'a1' LIKE ('a' || '%') AND 'b1' NOT LIKE (value || '_') AND 'A1' ILIKE (value || '1')",
        "('a1' SIMILAR TO (value || '[0-9]')) AND NOT ('a1' SIMILAR TO ('b' || value))",
        "arrow_cast('a1', 'LargeUtf8') LIKE (value || '%') AND 'a1' LIKE arrow_cast(value || '_', 'Utf8View')",
    ] {
        let sql = format!("SELECT count(*) FROM (SELECT 'a' AS value) WHERE {fits}");
        let system = std::sync::Arc::new(NoSystemInfo);
        let answer = engine.sql(fixture.store.snapshot(), system, &sql, None);
        let (_, batches, _) = answer.await.expect(fits).collect().await.expect(fits);
        let count = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(
            batches[0].column(0),
        );
        assert_eq!(count.value(0), 1, "{fits}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_not_written_as_arguments() {
    let fixture = Fixture::without_rollups();
    let engine = engine(Limits::default());
    for lambda in ["x -> x + 1", "(x) -> x + 1", "x => x", "lambda x: x"] {
        let sql = format!("SELECT array_transform([1, 2], {lambda})");
        let error = ask(&engine, &fixture, &sql).await;
        error.expect_err("functions of functions are bounded by nothing");
    }
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
    // From then on the endless queries let others run first.
    until(|| stepped_back() >= endless.len()).await;
    let before = spent();
    for _ in 0..20 {
        let rows = ask(&engine, &fixture, "SELECT value FROM generate_series(1, 3)").await;
        assert_eq!(rows.expect("answered"), 3);
    }
    until(|| spent() > before).await;
    assert_eq!(engine.queries().len(), endless.len(), "they run on");
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
    // The batches are not kept: other tests measure the memory of this process.
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
    let all_that_follows = "SELECT max(n) FROM (SELECT median(value) OVER (ORDER BY value \
                            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS n FROM generate_series(1, 90))";
    let error = ask(&engine, &fixture, all_that_follows).await;
    let error = error
        .expect_err("each row looks at all that follow")
        .to_string();
    assert!(error.contains("median over a window"), "{error}");
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
