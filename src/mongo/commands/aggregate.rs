//! `aggregate`: pipelines over the documents of a collection.

use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};
use ingest::Format;
use query::QueryStats;
use query::mongo::{
    CountedScan, ExpressionContext, Filter, KeptBytes, Pipeline, PipelineContext, PipelineSink,
    WhenNotMatched,
};

use super::read::{Caller, CollectionRead, counted, refuse_collation, surroundings};
use super::write::{BatchRecords, WriteTerms, store};
use crate::mongo::command::{MongoCommand, number};
use crate::mongo::counted::CountedRun;
use crate::mongo::cursor::MongoCursor;
use crate::mongo::document::DocumentBatch;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::reading::{DocumentReading, RowForm};
use crate::mongo::source::{ArrivalReading, DocumentSource, PipelineReading};
use crate::serve::Length;

const FIELDS: [&str; 7] = [
    "pipeline",
    "cursor",
    "allowDiskUse",
    "hint",
    "let",
    "bypassDocumentValidation",
    "fromMongos",
];
/// Maximum bytes that the stages of a pipeline keep, as those of one stage in MongoDB.
const KEPT_BYTES_MAX: usize = 100 << 20;

/// `aggregate`
pub(super) async fn aggregate(
    caller: &Caller,
    command: &MongoCommand<'_>,
) -> Result<RawDocumentBuf> {
    refuse_collation(command)?;
    command.check_fields(&FIELDS)?;
    if command.text("aggregate").is_err() {
        let message = "an aggregation without a collection is not supported; name a stream";
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
    }
    let read = CollectionRead::of(caller, command, command.collection()?)?;
    let asked = Aggregation::of(caller, command)?;
    let sink = asked.pipeline.sink().cloned();
    let concern = command.document("readConcern")?;
    let level = concern.and_then(|concern| concern.get_str("level").ok());
    if sink.is_some() && level == Some("linearizable") {
        let message = "a pipeline that writes is not read with the concern 'linearizable'";
        return Err(CommandError::new(code::INVALID_OPTIONS, message));
    }
    let documents = match sink {
        None => batch_documents(command)?,
        Some(_) => None,
    };
    let output = match &sink {
        None => None,
        Some(sink) => Some(output_terms(caller, command, sink)?),
    };
    let reading = PipelineReading::begin(caller, command, &read, asked).await?;
    if let Some(terms) = output {
        write_results(caller, terms, reading).await?;
        return Ok(DocumentBatch::default().first(&read.namespace));
    }
    let source = DocumentSource::Pipeline(Box::new(reading));
    let options = read.batch(documents);
    let cursors = &caller.mongo.cursors;
    cursors.first(MongoCursor::new(source), options).await
}

/// Returns the terms of `$out` or `$merge`. Events are immutable, so both only make a new stream.
fn output_terms(
    caller: &Caller,
    command: &MongoCommand<'_>,
    sink: &PipelineSink,
) -> Result<WriteTerms> {
    let (stage, into) = match sink {
        PipelineSink::Out(into) => ("$out", into),
        PipelineSink::Merge {
            into,
            when_not_matched: WhenNotMatched::Insert,
            ..
        } => ("$merge", into),
        PipelineSink::Merge { .. } => {
            let message = "$merge makes a new stream, in which nothing matches: write whenNotMatched: \"insert\"";
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
        }
    };
    let serving = caller.serving();
    let database = match &into.database {
        Some(database) => database,
        None => command.database()?,
    };
    let named = into.collection.as_str();
    let terms = WriteTerms::into_collection(
        serving,
        &caller.client,
        command,
        (database, named),
        Format::Bson,
    )?;
    if serving
        .store
        .snapshot()
        .streams()
        .contains_key(&terms.stream)
    {
        let message = format!(
            "{stage} makes a new stream, and {} exists: events are immutable. A rollup keeps such results up to date: see [rollup.NAME]",
            terms.stream
        );
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
    }
    Ok(terms)
}

/// Stores the results of a pipeline as one batch: all of them, or none.
async fn write_results(
    caller: &Caller,
    terms: WriteTerms,
    mut results: PipelineReading,
) -> Result<()> {
    let serving = caller.serving();
    let bytes_max = serving.config.server.batch_bytes_max.0;
    let (mut brought, mut bytes) = (BatchRecords::default(), 0);
    while let Some(result) = results.next().await? {
        let result = result.into_encoded()?.into_bytes();
        bytes += result.len();
        if bytes as u64 > bytes_max {
            let message = format!(
                "the results have more than {bytes_max} bytes, the most of one batch (server.batch_bytes_max); make fewer, or write them in parts"
            );
            return Err(CommandError::new(code::BSON_OBJECT_TOO_LARGE, message));
        }
        brought.indexes.push(brought.indexes.len());
        brought.records.push(&result);
    }
    let length = Length::of(bytes);
    let stored = store(serving, &caller.client, terms, brought, length).await?;
    stored.succeed()
}

impl PipelineReading {
    /// Begins to read the documents of a pipeline: counts of equal ones where these are enough.
    pub(super) async fn begin(
        caller: &Caller,
        command: &MongoCommand<'_>,
        read: &CollectionRead,
        asked: Aggregation,
    ) -> Result<Self> {
        let serving = caller.serving();
        let terms = CollectionRead::terms(command, asked.filter, asked.expressions)?;
        let context = PipelineContext {
            expressions: terms.expressions.clone(),
            kept: KeptBytes::new(KEPT_BYTES_MAX),
        };
        let snapshot = serving.store.snapshot();
        let form = RowForm::of(&snapshot, &read.client, &read.collection);
        let scan = match (&read.collection, form) {
            (Collection::Stream(stream), Some(RowForm::Events(_))) => {
                let uses = asked.pipeline.counted_inputs(asked.first_stage);
                let uses = uses.filter(|_| !command.get("hint").is_some_and(is_natural));
                let meta = snapshot.streams().get(stream);
                meta.zip(uses).and_then(|(meta, uses)| {
                    let scan = CountedScan::new((stream, meta), &terms.filter, &uses)?;
                    Some((scan, meta.kind))
                })
            }
            _ => None,
        };
        let client = &read.client;
        let Some((scan, kind)) = scan else {
            let run = asked.pipeline.start(asked.first_stage, &context);
            let collection = &read.collection;
            let reading = DocumentReading::begin(serving, client, collection, terms).await?;
            let reading = ArrivalReading::begin(reading, u64::MAX).await?;
            return Ok(Self::new(
                reading,
                (run, context.kept),
                QueryStats::default(),
            ));
        };
        let run = CountedRun::start(&asked.pipeline, asked.first_stage, &context);
        let ask = |question| {
            let snapshot = Arc::clone(&snapshot);
            serving.ask_at(client, snapshot, terms.session(), question)
        };
        // One after the other: a client that waits for a second place among the queries while
        // it has one may wait for another that does the same.
        let deadline = context.expressions.deadline;
        let counted = ask(scan.counted).await?;
        let (run, mut figures) = run.push(counted, kind, deadline).await?;
        let others = match scan.others {
            Some(others) => Some(ask(others).await?),
            None => None,
        };
        let others = DocumentReading::of_answer(client, (others, form), terms);
        let others = ArrivalReading::begin(others, u64::MAX).await?;
        Ok(match run {
            CountedRun::Columns(groups) if others.has_ended() => {
                figures.add_read(&others.figures());
                Self::of_groups(groups.finish(), context.kept, figures)
            }
            run => Self::new(others, (run.into_run()?, context.kept), figures),
        })
    }
}

/// An aggregation that is understood.
pub(super) struct Aggregation {
    pipeline: Pipeline,
    /// The conditions that come first: they choose the documents that are read.
    pub(super) filter: Filter,
    /// The stage behind them.
    first_stage: usize,
    pub(super) expressions: ExpressionContext,
}

impl Aggregation {
    /// Reads the pipeline of a command.
    ///
    /// # Errors
    /// The reason for which it cannot be understood.
    pub(super) fn of(caller: &Caller, command: &MongoCommand<'_>) -> Result<Self> {
        let stages = stages(command)?;
        let (expressions, scope) = surroundings(caller, command)?;
        let pipeline = Pipeline::parse(&stages, &scope)?;
        let conditions = stages.iter().map_while(|stage| stage.get("$match"));
        let conditions: Vec<Bson> = conditions.cloned().collect();
        let (first_stage, mut filter) = (conditions.len(), Document::new());
        if !conditions.is_empty() {
            filter.insert("$and", conditions);
        }
        Ok(Self {
            pipeline,
            filter: Filter::parse_in(&filter, &scope)?,
            first_stage,
            expressions,
        })
    }
}

/// Returns whether a hint asks for the documents themselves: `{$natural: 1}`.
fn is_natural(hint: &Bson) -> bool {
    hint.as_document()
        .is_some_and(|hint| hint.contains_key("$natural"))
}

/// Returns the stages of the pipeline.
fn stages(command: &MongoCommand<'_>) -> Result<Vec<Document>> {
    let wrong = || {
        let message = "'aggregate.pipeline' is an array of stages, each an object";
        CommandError::new(code::TYPE_MISMATCH, message)
    };
    let Some(Bson::Array(stages)) = command.get("pipeline") else {
        return Err(wrong());
    };
    let stages = stages.iter().map(|stage| stage.as_document().cloned());
    stages.collect::<Option<Vec<_>>>().ok_or_else(wrong)
}

/// Returns the maximum documents of the first batch; `None` if the client names none.
fn batch_documents(command: &MongoCommand<'_>) -> Result<Option<u64>> {
    let Some(cursor) = command.document("cursor")? else {
        let message = "'aggregate.cursor' is missing; write cursor: {}";
        return Err(CommandError::new(code::FAILED_TO_PARSE, message));
    };
    if let Some(other) = cursor.keys().find(|name| *name != "batchSize") {
        let message = format!("'aggregate.cursor' has no field '{other}'");
        return Err(CommandError::new(code::UNKNOWN_FIELD, message));
    }
    let Some(size) = cursor.get("batchSize") else {
        return Ok(None);
    };
    let size = number(size).ok_or_else(|| {
        let message = format!("'cursor.batchSize' is {size}; it must be a number");
        CommandError::new(code::TYPE_MISMATCH, message)
    })?;
    counted("cursor.batchSize", size).map(Some)
}
