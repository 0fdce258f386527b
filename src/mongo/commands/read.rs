//! The part of commands that read a collection: who may, and the documents that match.
//!
//! A command that reads runs apart from its connection, so that it can compute for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use bson::{DateTime, Document};
use query::mongo::{ExpressionContext, ExpressionScope, Filter};
use query::{Parameters, Question, Session};
use storage::{COUNTER, COUNTER_PATH};

use crate::access::{Action, Target};
use crate::mongo::Mongo;
use crate::mongo::command::MongoCommand;
use crate::mongo::cursor::BatchOptions;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::reading::{DocumentReading, ReadingTerms, RowForm};
use crate::serve::{Client, Serving};

/// The client of a command, apart from its connection.
#[derive(Debug)]
pub(in crate::mongo) struct Caller {
    pub(in crate::mongo) mongo: Arc<Mongo>,
    pub(in crate::mongo) client: Client,
}

impl Caller {
    pub(super) fn serving(&self) -> &Arc<Serving> {
        &self.mongo.serving
    }
}

/// The collection of a command that reads, and the client that may.
pub(super) struct CollectionRead {
    pub(super) client: Client,
    pub(super) collection: Collection,
    pub(super) namespace: String,
}

impl CollectionRead {
    /// Reads the collection of a command.
    ///
    /// # Errors
    /// If it is no stream, or if the client may not read.
    pub(super) fn of(
        caller: &Caller,
        command: &MongoCommand<'_>,
        collection: &str,
    ) -> Result<Self> {
        let client = caller.client.clone();
        let database = command.database()?;
        if !client.may(Action::Read, Target::Visible) {
            let message = format!("{} may not read", client.name());
            return Err(CommandError::new(code::UNAUTHORIZED, message));
        }
        if command.is_in_transaction() {
            let message = "there are no transactions: each command reads one state of the store";
            return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
        }
        let snapshot = caller.serving().store.snapshot();
        Ok(Self {
            client,
            collection: Collection::of(database, collection, &snapshot)?,
            namespace: format!("{database}.{collection}"),
        })
    }

    /// Returns the terms of a reading.
    ///
    /// # Errors
    /// If the client's limit of time is no number.
    pub(super) fn terms(
        command: &MongoCommand<'_>,
        filter: Filter,
        expressions: ExpressionContext,
    ) -> Result<ReadingTerms> {
        Ok(ReadingTerms {
            filter: Arc::new(filter),
            expressions,
            time_max: time_max(command)?,
        })
    }

    /// Returns the rows of the collection; `None` if it does not exist for the client.
    pub(super) fn form(&self, caller: &Caller) -> Option<RowForm> {
        let snapshot = caller.serving().store.snapshot();
        RowForm::of(&snapshot, &self.client, &self.collection)
    }

    /// Returns the options of a batch of so many documents at most.
    pub(super) fn batch(&self, documents: Option<u64>) -> BatchOptions<'_> {
        BatchOptions {
            owner: self.client.name(),
            namespace: &self.namespace,
            documents: documents.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            is_single: false,
            within: None,
        }
    }

    /// Begins to read the documents that match.
    pub(super) async fn begin(
        &self,
        caller: &Caller,
        command: &MongoCommand<'_>,
        filter: Filter,
        expressions: ExpressionContext,
    ) -> Result<DocumentReading> {
        let terms = Self::terms(command, filter, expressions)?;
        DocumentReading::begin(caller.serving(), &self.client, &self.collection, terms).await
    }

    /// Returns the number of all documents, which needs none of them.
    pub(super) async fn count(&self, caller: &Caller) -> Result<u64> {
        let question = match self.form(caller) {
            None => return Ok(0),
            Some(RowForm::Counters) => format!(
                "SELECT count(DISTINCT {COUNTER}) FROM {} WHERE {COUNTER_PATH} = ''",
                self.collection.table()
            ),
            Some(_) => format!("SELECT count(*) FROM {}", self.collection.table()),
        };
        let (base, none) = (Session::default(), Parameters::None);
        let question = Question::Sql(question);
        let asked = caller.serving().ask(&self.client, base, question, none);
        let (_, batches, _) = asked.await?.collect().await?;
        let counts = batches.iter().flat_map(|batch| {
            let counts = batch.column(0).as_primitive::<Int64Type>();
            counts.values().to_vec()
        });
        Ok(counts.sum::<i64>().unsigned_abs())
    }
}

/// Returns what the expressions of a command are evaluated with, and the scope that its `let`
/// makes. They end when the query does.
pub(super) fn surroundings(
    caller: &Caller,
    command: &MongoCommand<'_>,
) -> Result<(ExpressionContext, ExpressionScope)> {
    let mut expressions = ExpressionContext::new(DateTime::now());
    let limit = caller.serving().config.query.limits().time;
    let limit = time_max(command)?.into_iter().chain(limit).min();
    expressions.deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let nothing = Document::new();
    let scope = expressions.bind(command.document("let")?.unwrap_or(&nothing))?;
    Ok((expressions, scope))
}

/// Returns a filter of a field, and what its expressions are evaluated with; the filter that
/// matches everything if the field is missing.
pub(super) fn filter(
    caller: &Caller,
    command: &MongoCommand<'_>,
    name: &str,
) -> Result<(Filter, ExpressionContext)> {
    let nothing = Document::new();
    let (expressions, scope) = surroundings(caller, command)?;
    let filter = command.document(name)?.unwrap_or(&nothing);
    Ok((Filter::parse_in(filter, &scope)?, expressions))
}

/// Returns the limit of time that a client sets.
pub(super) fn time_max(command: &MongoCommand<'_>) -> Result<Option<Duration>> {
    let time_max = count_field(command, "maxTimeMS")?.filter(|ms| *ms > 0);
    Ok(time_max.map(Duration::from_millis))
}

/// Refuses the rules of a language.
///
/// # Errors
/// If the command names any.
pub(super) fn refuse_collation(command: &MongoCommand<'_>) -> Result<()> {
    match command.get("collation") {
        None => Ok(()),
        Some(_) => {
            let name = command.name;
            let message =
                format!("'{name}.collation' is not supported; texts compare by their bytes");
            Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message))
        }
    }
}

/// Returns a field that counts documents.
pub(super) fn count_field(command: &MongoCommand<'_>, name: &str) -> Result<Option<u64>> {
    command.integer(name)?.map(|n| counted(name, n)).transpose()
}

/// Returns a number of documents.
///
/// # Errors
/// If it is less than 0.
pub(super) fn counted(name: &str, number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| {
        let message = format!("'{name}' is {number}; it must be 0 or more");
        CommandError::new(code::BAD_VALUE, message)
    })
}
