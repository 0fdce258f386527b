//! Questions that are prepared before they are started, and questions that are plans.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::{ParamValues, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::prelude::{col, lit};
use serde_json::{Value, json};
use storage::StreamKind;

use super::support::{Fixture, batch, mixture};
use crate::answer::output::{Output, write};
use crate::{
    Answer, Engine, EngineOptions, Kind, Limits, NoSystemInfo, Parameters, Question, Session,
    Sources,
};

fn fixture() -> Fixture {
    let fixture = Fixture::with_defaults();
    let events = mixture(500, 971_211_336_000_000, 60_000_000);
    fixture.write("access", StreamKind::Access, batch(&events));
    fixture
}

fn sources(fixture: &Fixture) -> Sources {
    Sources::one(fixture.store.snapshot(), Arc::new(NoSystemInfo))
}

fn limited(limits: Limits) -> Engine {
    let options = EngineOptions {
        limits,
        target_partitions: 2,
        ..EngineOptions::default()
    };
    Engine::new(options).expect("starts")
}

async fn rows(answer: Answer) -> Value {
    let (schema, batches, _) = answer.collect().await.expect("rows");
    let mut text = Vec::new();
    write(Output::Json, &schema, &batches, &mut text).expect("written");
    serde_json::from_slice(&text).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_question_names_its_columns_and_the_types_of_its_parameters() {
    let fixture = fixture();
    let sql = "SELECT path, count(*) AS hits FROM access \
               WHERE status = $1 AND host = $2 AND time >= $3 GROUP BY path ORDER BY hits DESC, path";
    let prepare = async || {
        let session = Session::default();
        let prepared = fixture
            .engine
            .prepare(sources(&fixture), &session, sql.into());
        prepared.await.expect("bound")
    };
    let prepared = prepare().await;
    let fields = prepared.schema().fields().iter();
    let columns: Vec<_> = fields
        .map(|f| (f.name().as_str(), f.data_type().to_string()))
        .collect();
    assert_eq!(
        columns,
        [
            ("path", "Utf8View".to_owned()),
            ("hits", "Int64".to_owned())
        ]
    );
    let shown = |(name, data_type): (&String, &Option<arrow::datatypes::DataType>)| {
        let data_type = data_type.as_ref().map(ToString::to_string);
        format!("{name} {}", data_type.unwrap_or_default())
    };
    let parameters: Vec<_> = prepared.parameters().iter().map(shown).collect();
    assert_eq!(
        parameters,
        ["$1 Int16", "$2 Utf8View", "$3 Timestamp(µs, \"UTC\")"]
    );
    let first = ScalarValue::TimestampMicrosecond(Some(971_211_336_000_000), Some("UTC".into()));
    let typed = ParamValues::from(vec![
        ScalarValue::Int16(Some(404)),
        ScalarValue::from("alpha"),
        first,
    ]);
    let typed = prepared.start(Parameters::Typed(typed)).await;
    let typed = rows(typed.expect("starts")).await;
    let params = json!([404, "alpha", "2000-10-10T20:55:36Z"]);
    let from_json = prepare().await.start(Parameters::Json(params)).await;
    assert_eq!(rows(from_json.expect("starts")).await, typed);
    let literal = sql
        .replace("$1", "404")
        .replace("$2", "'alpha'")
        .replace("$3", "'2000-10-10T20:55:36Z'");
    assert_eq!(Value::Array(fixture.rows(&literal).await), typed);
    assert!(typed.as_array().is_some_and(|rows| rows.len() > 1));
    let missing = prepare().await.start(Parameters::None).await;
    assert_eq!(missing.expect_err("no values").kind(), Kind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_types_of_prepared_columns_are_those_of_the_answer() {
    let fixture = fixture();
    for sql in [
        "SELECT CASE WHEN path LIKE '/p1%' THEN status ELSE 3 END AS c FROM access",
        "SELECT status AS c FROM access UNION ALL SELECT 2.5",
        "SELECT coalesce(status, response_size) AS c FROM access",
        "EXPLAIN SELECT status FROM access",
        "SHOW TABLES",
    ] {
        let session = Session::default();
        let prepared = fixture
            .engine
            .prepare(sources(&fixture), &session, sql.into());
        let prepared = prepared.await.expect("bound");
        let described = prepared.schema().clone();
        let answer = prepared.start(Parameters::None).await.expect("starts");
        let types = |schema: &arrow::datatypes::Schema| -> Vec<_> {
            let fields = schema.fields().iter();
            fields.map(|f| f.data_type().clone()).collect()
        };
        assert_eq!(types(&described), types(&answer.schema), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_another_language_is_answered_as_its_statement_is() {
    let fixture = fixture();
    let build: Question = Question::Plan {
        text: "count by host where status = 404".into(),
        build: Box::new(|tables| {
            tables
                .scan("access")?
                .filter(col("status").eq(lit(404_i16)))?
                .aggregate([col("host")], [count(lit(1)).alias("hits")])?
                .sort([col("host").sort(true, false)])?
                .build()
        }),
    };
    let session = Session::default();
    let none = Parameters::None;
    let answer = fixture.engine.ask(sources(&fixture), &session, build, none);
    let answer = answer.await.expect("planned");
    let sql = "SELECT host, count(*) AS hits FROM access WHERE status = 404 \
               GROUP BY host ORDER BY host";
    assert_eq!(rows(answer).await, Value::Array(fixture.rows(sql).await));

    let wrong = Question::Plan {
        text: "nothing".into(),
        build: Box::new(|tables| tables.scan("stats.nothing")?.build()),
    };
    let none = Parameters::None;
    let refused = fixture.engine.ask(sources(&fixture), &session, wrong, none);
    let refused = refused.await.expect_err("no such table");
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_question_that_is_dropped_gives_its_place_back() {
    let fixture = fixture();
    let engine = limited(Limits {
        running: 1,
        ..Limits::default()
    });
    let session = Session::default();
    let prepared = engine.prepare(sources(&fixture), &session, "SELECT 1 AS n".into());
    let prepared = prepared.await.expect("bound");
    assert_eq!(engine.queries().len(), 1);
    let next = tokio::spawn({
        let (engine, sources) = (engine.clone(), sources(&fixture));
        async move {
            let session = Session::default();
            let answer = engine.ask(sources, &session, "SELECT 2 AS n".into(), Parameters::None);
            rows(answer.await.expect("its turn")).await
        }
    });
    while engine.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    drop(prepared);
    assert_eq!(next.await.expect("no panic"), json!([{"n": 2}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_question_may_be_cancelled_and_its_time_may_end() {
    let fixture = fixture();
    let session = Session::default();
    let engine = &fixture.engine;
    let prepared = engine.prepare(sources(&fixture), &session, "SELECT 1".into());
    let prepared = prepared.await.expect("bound");
    let id = engine.queries()[0].id;
    assert!(engine.cancel(id));
    let cancelled = prepared.start(Parameters::None).await;
    assert_eq!(cancelled.expect_err("cancelled").kind(), Kind::Cancelled);

    let short = Session {
        time_max: Some(Duration::from_millis(200)),
        ..Session::default()
    };
    let prepared = engine.prepare(sources(&fixture), &short, "SELECT 1".into());
    match prepared.await {
        // A slow machine may have spent the time already.
        Err(error) => assert_eq!(error.kind(), Kind::Resources),
        Ok(prepared) => {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let late = prepared.start(Parameters::None).await;
            assert_eq!(late.expect_err("too late").kind(), Kind::Resources);
        }
    }
    assert!(engine.queries().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_of_a_session_hold_for_its_own_queries() {
    let fixture = fixture();
    let session = Session {
        schema: "stats".into(),
        tag: Some("mine".into()),
        ..Session::default()
    };
    let sql = "SELECT count(*) AS n FROM daily";
    let prepared = fixture
        .engine
        .prepare(sources(&fixture), &session, sql.into());
    let prepared = prepared.await.expect("bound");
    assert_eq!(fixture.engine.queries()[0].tag.as_deref(), Some("mine"));
    let found = rows(prepared.start(Parameters::None).await.expect("starts")).await;
    let named = fixture.rows("SELECT count(*) AS n FROM stats.daily").await;
    assert_eq!(found, Value::Array(named));
    // The next query has a session of its own.
    let other = fixture.try_query(sql).await.expect_err("no such stream");
    assert_eq!(other.kind(), Kind::Invalid, "{other}");
}
