//! Functions through SQL.

use std::sync::Arc;

use aggregator::state::{Distinct, Histogram, Layout};
use arrow::array::{
    ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use datafusion::prelude::SessionContext;

use crate::{Engine, EngineOptions};

fn session() -> SessionContext {
    let engine = Engine::new(EngineOptions::default()).expect("starts");
    let state = engine.state().clone();
    // A default context replaces the engine's own catalog, which takes no tables.
    let context = SessionContext::new();
    for function in state.scalar_functions().values() {
        context.register_udf(function.as_ref().clone());
    }
    for function in state.aggregate_functions().values() {
        context.register_udaf(function.as_ref().clone());
    }
    context
}

async fn run(context: &SessionContext, sql: &str) -> RecordBatch {
    let frame = context
        .sql(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let batches = frame
        .collect()
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    arrow::compute::concat_batches(&batches[0].schema(), &batches).expect("one schema")
}

/// Registers the table `cells`: twelve states of 100 values each in three groups, and a null in a
/// fourth.
fn register(context: &SessionContext) -> (Histogram, Distinct) {
    let layout = Layout::new(2, 1 << 40).expect("a layout");
    let (mut all, mut hosts) = (Histogram::new(layout, false), Distinct::new());
    let (mut sizes, mut visitors, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for state in 0..12_i64 {
        let (mut size, mut visitor) = (Histogram::new(layout, false), Distinct::new());
        for i in 0..100 {
            let value = (state * 100 + i) * 37;
            size.record(value.into());
            all.record(value.into());
            let hash = (value.unsigned_abs()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            visitor.insert(hash);
            hosts.insert(hash);
        }
        sizes.push(Some(size.encode()));
        visitors.push(Some(visitor.encode()));
        groups.push(state % 3);
    }
    sizes.push(None);
    visitors.push(None);
    groups.push(9);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("g", Arc::new(Int64Array::from(groups))),
        (
            "size",
            Arc::new(sizes.iter().map(|s| s.as_deref()).collect::<BinaryArray>()),
        ),
        (
            "visitors_state",
            Arc::new(
                visitors
                    .iter()
                    .map(|s| s.as_deref())
                    .collect::<BinaryArray>(),
            ),
        ),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(n, a)| Field::new(*n, a.data_type().clone(), true))
        .collect();
    let batch = RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, a)| a).collect(),
    );
    context
        .register_batch("cells", batch.expect("columns fit"))
        .expect("registered");
    (all, hosts)
}

#[tokio::test]
async fn merging_in_sql_gives_the_state_of_all_values() {
    let context = session();
    let (all, hosts) = register(&context);
    let whole = run(
        &context,
        "SELECT hist_merge(size), distinct_merge(visitors_state) FROM cells",
    )
    .await;
    assert_eq!(whole.column(0).as_binary::<i32>().value(0), all.encode());
    assert_eq!(whole.column(1).as_binary::<i32>().value(0), hosts.encode());
    let twice = "SELECT hist_merge(s), distinct_merge(v) FROM \
                 (SELECT g, hist_merge(size) AS s, distinct_merge(visitors_state) AS v FROM cells GROUP BY g)";
    assert_eq!(run(&context, twice).await.columns(), whole.columns());
    let read = "SELECT hist_quantile(hist_merge(size), 0.99), hist_count(hist_merge(size)), hist_sum(hist_merge(size)), \
                distinct_count(distinct_merge(visitors_state)), hist_max(hist_merge(size)) FROM cells";
    let read = run(&context, read).await;
    assert_eq!(
        read.column(0).as_primitive::<Float64Type>().value(0),
        all.quantile(0.99).expect("values")
    );
    assert_eq!(read.column(1).as_primitive::<Int64Type>().value(0), 1_200);
    assert_eq!(
        read.column(2).as_primitive::<Float64Type>().value(0),
        f64::from(37 * 1_199 * 600)
    );
    assert_eq!(
        read.column(3)
            .as_primitive::<Int64Type>()
            .value(0)
            .unsigned_abs(),
        hosts.count()
    );
    assert_eq!(
        read.column(4).as_primitive::<Float64Type>().value(0),
        f64::from(37 * 1_199)
    );
    let groups = "SELECT g, hist_count(hist_merge(size)) FROM cells GROUP BY g ORDER BY g";
    let groups = run(&context, groups).await;
    let counts: Vec<Option<i64>> = groups
        .column(1)
        .as_primitive::<Int64Type>()
        .iter()
        .collect();
    assert_eq!(
        counts,
        [Some(400), Some(400), Some(400), None],
        "a group without states has none"
    );
}

#[tokio::test]
async fn what_is_no_state_or_no_quantile_is_an_error() {
    let context = session();
    register(&context);
    for sql in [
        "SELECT hist_merge(visitors_state) FROM cells",
        "SELECT distinct_count(size) FROM cells",
        "SELECT hist_quantile(size, 1.5) FROM cells",
        "SELECT hist_count(x'00ff00ff')",
    ] {
        let result = match context.sql(sql).await {
            Ok(frame) => frame.collect().await,
            Err(e) => Err(e),
        };
        assert!(result.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn time_bucket_takes_text_and_intervals_and_a_zone() {
    let context = session();
    let sql = "SELECT CAST(time_bucket('5 minutes', TIMESTAMP '2000-10-10T20:59:00Z') AS TEXT), \
               CAST(time_bucket(INTERVAL '1 hour', TIMESTAMP '2000-10-10T20:59:00Z') AS TEXT), \
               CAST(time_bucket('1 day', TIMESTAMP '2024-07-01T22:30:00Z', 'Europe/Berlin') AS TEXT), \
               time_bucket('1 day', NULL) IS NULL";
    let row = run(&context, sql).await;
    let text = |i: usize| {
        let column = arrow::compute::cast(row.column(i), &DataType::Utf8).expect("text");
        column.as_string::<i32>().value(0).to_owned()
    };
    assert_eq!(
        (text(0), text(1)),
        (
            "2000-10-10T20:55:00Z".to_owned(),
            "2000-10-10T20:00:00Z".to_owned()
        )
    );
    assert_eq!(text(2), "2024-07-01T22:00:00Z");
    assert!(row.column(3).as_boolean().value(0));
    for wrong in [
        "SELECT time_bucket(5, now())",
        "SELECT time_bucket('5 minutes', now(), 'Nowhere')",
        "SELECT time_bucket('1 day')",
    ] {
        let result = match context.sql(wrong).await {
            Ok(frame) => frame.collect().await,
            Err(e) => Err(e),
        };
        assert!(result.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn date_trunc_of_stamps_in_utc_is_as_datafusion_has_it() {
    let whole = 4_000_000_000_000_000_i64;
    let mut random = 7_u64;
    let stamps = (0..4_000_i64).map(|nth| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (random >> 10) as i64 % (2 * whole) - whole;
        // Every second time is the start of a day, every tenth one is missing.
        (nth % 10 > 0).then_some(if nth % 2 == 0 {
            at
        } else {
            at - at.rem_euclid(86_400_000_000)
        })
    });
    let stamps: TimestampMicrosecondArray = stamps.collect();
    let times: ArrayRef = Arc::new(stamps.with_timezone("UTC"));
    let batch = RecordBatch::try_from_iter([("time", times)]).expect("a batch");
    let units = [
        "second", "minute", "HOUR", "day", "week", "month", "quarter", "year",
    ];
    let columns = units.map(|unit| format!("date_trunc('{unit}', time)"));
    let sql = format!(
        "SELECT {}, datetrunc('day', time) FROM t",
        columns.join(", ")
    );
    let (ours, theirs) = (session(), SessionContext::new());
    let mut answers = Vec::new();
    for context in [ours, theirs] {
        context.register_batch("t", batch.clone()).expect("a table");
        answers.push(run(&context, &sql).await);
    }
    assert_eq!(answers[0].schema(), answers[1].schema());
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn the_version_is_that_of_this_program() {
    let row = run(&session(), "SELECT version()").await;
    let version = row.column(0).as_string::<i32>().value(0);
    assert!(
        version.starts_with(concat!("Logmill ", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
}
