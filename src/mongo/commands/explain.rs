//! `explain`: a read runs, and its answer is the way in which it was answered.

use std::time::Instant;

use bson::{Bson, Document, doc};
use query::{Count, QueryStats};
use storage::Snapshot;

use super::aggregate::Aggregation;
use super::read::{Caller, CollectionRead, filter};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::hello::MONGODB_VERSION;
use crate::mongo::namespace::Collection;
use crate::mongo::source::PipelineReading;

/// `explain`. Every verbosity reads the documents: only then it is known what was looked at.
pub(super) async fn explain(caller: &Caller, command: &MongoCommand<'_>) -> Result<Document> {
    command.check_fields(&["verbosity"])?;
    let inner = command.inner("explain")?;
    let has_stats = command.text("verbosity")? != Some("queryPlanner");
    let read = CollectionRead::of(caller, &inner, inner.collection()?)?;
    let begun = Instant::now();
    let (field, (returned, figures)) = match inner.name {
        "find" => ("filter", read_all(caller, &read, &inner, "filter").await?),
        "count" | "distinct" => ("query", read_all(caller, &read, &inner, "query").await?),
        "aggregate" => ("pipeline", run_all(caller, &read, &inner).await?),
        other => {
            let message =
                format!("'{other}' cannot be explained; find, aggregate, count and distinct can");
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
        }
    };
    let snapshot = caller.serving().store.snapshot();
    let (plan, has_keys) =
        winning_plan(&figures, &read.collection, &snapshot, &equal_fields(&inner));
    let examined = figures.rows_examined;
    let mut answer = doc! {
        "explainVersion": "1",
        "queryPlanner": {
            "namespace": &read.namespace,
            "parsedQuery": inner.get(field).cloned().unwrap_or_else(|| doc! {}.into()),
            "winningPlan": plan.clone(),
            "rejectedPlans": [],
        },
    };
    if has_stats {
        answer.insert("executionStats", doc! {
            "executionSuccess": true,
            "nReturned": count(returned),
            "executionTimeMillis": count(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)),
            "totalKeysExamined": count(if has_keys { examined } else { 0 }),
            "totalDocsExamined": count(examined),
            "executionStages": plan,
        });
    }
    answer.insert("logmill", looked_at(&figures));
    answer.insert(
        "command",
        command.get("explain").cloned().unwrap_or(Bson::Null),
    );
    answer.insert("serverInfo", doc! { "version": MONGODB_VERSION });
    Ok(answer)
}

/// Reads the documents that match. Returns their number and the figures of the query.
async fn read_all(
    caller: &Caller,
    read: &CollectionRead,
    command: &MongoCommand<'_>,
    field: &str,
) -> Result<(u64, QueryStats)> {
    let (filter, expressions) = filter(caller, command, field)?;
    let mut reading = read.begin(caller, command, filter, expressions).await?;
    let mut returned = 0;
    while reading.next_match().await?.is_some() {
        returned += 1;
    }
    Ok((returned, reading.figures()))
}

/// Runs a pipeline. Returns the number of its results and the figures of its queries.
async fn run_all(
    caller: &Caller,
    read: &CollectionRead,
    command: &MongoCommand<'_>,
) -> Result<(u64, QueryStats)> {
    let asked = Aggregation::of(caller, command)?;
    let mut results = PipelineReading::begin(caller, command, read, asked).await?;
    let mut returned = 0;
    while results.next().await?.is_some() {
        returned += 1;
    }
    Ok((returned, results.figures().clone()))
}

/// Returns the fields at the top of the conditions that are equal to a value.
fn equal_fields(command: &MongoCommand<'_>) -> Vec<String> {
    let conditions = match command.get("pipeline") {
        Some(Bson::Array(stages)) => stages.first().and_then(|stage| {
            let condition = stage.as_document()?.get("$match")?;
            condition.as_document()
        }),
        _ => ["filter", "query"]
            .iter()
            .find_map(|name| command.get(name)?.as_document()),
    };
    let is_equal = |value: &Bson| match value {
        Bson::Document(operators) => {
            operators.contains_key("$eq") || !operators.keys().any(|key| key.starts_with('$'))
        }
        Bson::RegularExpression(_) => false,
        _ => true,
    };
    let fields = conditions.into_iter().flatten();
    let equal = fields.filter(|(_, value)| is_equal(value));
    equal.map(|(name, _)| name.clone()).collect()
}

/// Returns the plan in MongoDB's form, and whether an index or an order gave the documents.
fn winning_plan(
    figures: &QueryStats,
    collection: &Collection,
    snapshot: &Snapshot,
    equal_fields: &[String],
) -> (Document, bool) {
    let of = |what: &str| {
        let mut found = figures.answered_by.iter();
        found.find_map(|by| by.strip_prefix(what).map(str::to_owned))
    };
    if let Some(level) = of("rollup ") {
        return (doc! { "stage": "ROLLUP", "rollup": level }, true);
    }
    let by_index = |keys: Vec<&str>| {
        let name: Vec<String> = keys.iter().map(|key| format!("{key}_1")).collect();
        let pattern: Document = keys
            .iter()
            .map(|key| ((*key).to_owned(), Bson::Int32(1)))
            .collect();
        doc! {
            "stage": "FETCH",
            "inputStage": { "stage": "IXSCAN", "keyPattern": pattern, "indexName": name.join("_") },
        }
    };
    if let Some(index) = of("index ") {
        let field = index.split(" of ").next().unwrap_or(&index);
        return (by_index(vec![field]), true);
    }
    let order = match collection {
        Collection::Stream(stream) => snapshot.streams().get(stream).map(|meta| &meta.order_by),
        Collection::Level { .. } => None,
    };
    let is_sorted = |order: &&Vec<String>| {
        let first = order.first().filter(|first| *first != storage::TIME);
        first.is_some_and(|first| equal_fields.contains(first))
    };
    match order.filter(is_sorted) {
        Some(order) => (by_index(order.iter().map(String::as_str).collect()), true),
        None => (doc! { "stage": "COLLSCAN", "direction": "forward" }, false),
    }
}

/// Returns a number in the shortest type that holds it, as MongoDB does.
fn count(number: u64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number.cast_signed()), Bson::Int32)
}

/// Returns the figures of a query as SQL's EXPLAIN ANALYZE has them.
fn looked_at(figures: &QueryStats) -> Document {
    let counts = |counts: Count| {
        doc! {
            "total": count(counts.total),
            "examined": count(counts.examined),
        }
    };
    doc! {
        "answeredBy": figures.answered_by.clone(),
        "partitions": counts(figures.partitions),
        "parts": counts(figures.parts),
        "rowGroups": counts(figures.row_groups),
        "pages": counts(figures.pages),
        "rowsExamined": count(figures.rows_examined),
        "bytesRead": count(figures.bytes_read),
    }
}
