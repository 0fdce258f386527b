//! Reads: `find`, `getMore`, `killCursors`, `count` and `distinct`.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use bson::{Bson, Document, doc};
use query::mongo::{DistinctValues, Filter, Projection, Sort};
use query::{Parameters, Question, Session};
use storage::Name;

use crate::access::{Action, Target};
use crate::mongo::command::MongoCommand;
use crate::mongo::cursor::{BatchOptions, MongoCursor};
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::reading::{self, DocumentReading};
use crate::mongo::session::MongoConnection;
use crate::serve::Client;

const FIND_FIELDS: [&str; 19] = [
    "filter",
    "sort",
    "projection",
    "hint",
    "skip",
    "limit",
    "batchSize",
    "singleBatch",
    "noCursorTimeout",
    "allowDiskUse",
    "allowPartialResults",
    "let",
    "collation",
    "tailable",
    "awaitData",
    "returnKey",
    "showRecordId",
    "min",
    "max",
];
/// Fields of `find` that would change its answer in a way that there is not yet.
const NOT_YET: [(&str, &str); 8] = [
    ("collation", "texts compare by their bytes"),
    ("tailable", "follow the stream at /api/v1/tail"),
    ("awaitData", "follow the stream at /api/v1/tail"),
    ("returnKey", "leave it out"),
    ("showRecordId", "leave it out"),
    ("min", "use $gte in the filter"),
    ("max", "use $lt in the filter"),
    ("let", "write the values into the filter"),
];

/// The stream of a command that reads, and the client that may.
struct StreamRead {
    client: Client,
    stream: Name,
    namespace: String,
}

impl StreamRead {
    fn of(
        connection: &mut MongoConnection,
        command: &MongoCommand<'_>,
        collection: &str,
    ) -> Result<Self> {
        let client = connection.client(command.name)?;
        let database = command.database()?;
        if !client.may(Action::Read, Target::Visible) {
            let message = format!("not authorized on {database} to execute {}", command.name);
            return Err(CommandError::new(code::UNAUTHORIZED, message));
        }
        if command.is_in_transaction() {
            let message = "there are no transactions: each command reads one state of the store";
            return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
        }
        let snapshot = connection.serving().store.snapshot();
        match Collection::of(database, collection, &snapshot)? {
            Collection::Stream(stream) => Ok(Self {
                client,
                stream,
                namespace: format!("{database}.{collection}"),
            }),
            Collection::Level { rollup, level } => Err(CommandError::new(
                code::COMMAND_NOT_SUPPORTED,
                format!(
                    "the level '{rollup}.{level}' is read by SQL: SELECT * FROM {rollup}.{level}"
                ),
            )),
        }
    }

    /// Begins to read the documents that match.
    async fn begin(
        &self,
        connection: &mut MongoConnection,
        command: &MongoCommand<'_>,
        filter: Filter,
    ) -> Result<DocumentReading> {
        let serving = Arc::clone(connection.serving());
        let time_max = count_field(command, "maxTimeMS")?.filter(|ms| *ms > 0);
        let terms = (Arc::new(filter), time_max.map(Duration::from_millis));
        let reading = DocumentReading::begin(&serving, &self.client, &self.stream, terms);
        connection.until_gone(reading).await?
    }

    /// Returns the number of all documents, which needs none of them.
    async fn count(&self, connection: &mut MongoConnection) -> Result<u64> {
        let serving = Arc::clone(connection.serving());
        if reading::kind(&serving, &self.client, &self.stream).is_none() {
            return Ok(0);
        }
        let question = format!("SELECT count(*) FROM \"{}\"", self.stream);
        let counting = async {
            let (base, none) = (Session::default(), Parameters::None);
            let question = Question::Sql(question);
            let (_, batches, _) = serving
                .ask(&self.client, base, question, none)
                .await?
                .collect()
                .await?;
            let counts = batches.iter().flat_map(|batch| {
                let counts = batch.column(0).as_primitive::<Int64Type>();
                counts.values().to_vec()
            });
            Ok(counts.sum::<i64>().unsigned_abs())
        };
        connection.until_gone(counting).await?
    }
}

/// Returns a filter of a field; the one that matches everything if it is missing.
fn filter(command: &MongoCommand<'_>, name: &str) -> Result<Filter> {
    let empty = Document::new();
    Ok(Filter::parse(command.document(name)?.unwrap_or(&empty))?)
}

/// Returns a field that counts documents.
fn count_field(command: &MongoCommand<'_>, name: &str) -> Result<Option<u64>> {
    let number = command.integer(name)?;
    let number = number.map(|number| {
        u64::try_from(number).map_err(|_| {
            let message =
                format!("BSON field '{name}' value must be >= 0, actual value '{number}'");
            CommandError::new(code::BAD_VALUE, message)
        })
    });
    number.transpose()
}

/// `find`
pub(super) async fn find(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&FIND_FIELDS)?;
    for (name, hint) in NOT_YET {
        let is_set = command
            .get(name)
            .is_some_and(|value| *value != Bson::Boolean(false));
        if is_set {
            let message = format!("'find.{name}' is not supported; {hint}");
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
        }
    }
    let read = StreamRead::of(connection, command, command.collection()?)?;
    let filter = filter(command, "filter")?;
    let projection = command.document("projection")?.filter(|of| !of.is_empty());
    let projection = projection.map(Projection::parse).transpose()?;
    let sort = command.document("sort")?.filter(|of| !of.is_empty());
    let sort = sort.map(Sort::parse).transpose()?;
    let (mut limit, mut is_single) = (command.integer("limit")?, false);
    if let Some(negative) = limit.filter(|limit| *limit < 0) {
        (limit, is_single) = (negative.checked_neg(), true);
    }
    let limit = limit
        .and_then(|limit| u64::try_from(limit).ok())
        .filter(|limit| *limit > 0);
    let skip = count_field(command, "skip")?.unwrap_or(0);
    let documents = count_field(command, "batchSize")?;
    is_single |= command.boolean("singleBatch")?.unwrap_or(false);

    let reading = read.begin(connection, command, filter).await?;
    let opened = MongoCursor::open(reading, sort, projection, (skip, limit));
    let cursor = connection.until_gone(opened).await??;
    let options = BatchOptions {
        owner: read.client.name(),
        namespace: &read.namespace,
        documents: documents.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        is_single,
    };
    let mongo = Arc::clone(&connection.mongo);
    connection
        .until_gone(mongo.cursors.first(cursor, options))
        .await?
}

/// `getMore`
pub(super) async fn get_more(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&[
        "collection",
        "batchSize",
        "term",
        "lastKnownCommittedOpTime",
    ])?;
    let id = command
        .integer("getMore")?
        .ok_or_else(|| command.missing("getMore"))?;
    let collection = command.text("collection")?;
    let collection = collection.ok_or_else(|| command.missing("collection"))?;
    let read = StreamRead::of(connection, command, collection)?;
    let documents = count_field(command, "batchSize")?.filter(|most| *most > 0);
    let options = BatchOptions {
        owner: read.client.name(),
        namespace: &read.namespace,
        documents: documents.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        is_single: false,
    };
    let mongo = Arc::clone(&connection.mongo);
    connection
        .until_gone(mongo.cursors.next(id, options))
        .await?
}

/// `killCursors`
pub(super) fn kill_cursors(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let read = StreamRead::of(connection, command, command.collection()?)?;
    let Some(Bson::Array(ids)) = command.get("cursors") else {
        return Err(command.missing("cursors"));
    };
    let options = BatchOptions {
        owner: read.client.name(),
        namespace: &read.namespace,
        documents: None,
        is_single: false,
    };
    let (killed, missing): (Vec<Bson>, Vec<Bson>) = ids.iter().cloned().partition(|id| {
        let id = id.as_i64().or(id.as_i32().map(i64::from));
        id.is_some_and(|id| connection.mongo.cursors.close(id, options))
    });
    Ok(doc! {
        "cursorsKilled": killed,
        "cursorsNotFound": missing,
        "cursorsAlive": [],
        "cursorsUnknown": [],
    })
}

/// `count`
pub(super) async fn count(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["query", "limit", "skip", "hint", "fields"])?;
    let read = StreamRead::of(connection, command, command.collection()?)?;
    let filter = filter(command, "query")?;
    let skip = count_field(command, "skip")?.unwrap_or(0);
    let limit = command
        .integer("limit")?
        .map(i64::unsigned_abs)
        .filter(|limit| *limit > 0);
    let most = limit.map_or(u64::MAX, |limit| limit.saturating_add(skip));
    let count = match command.document("query")?.is_none_or(Document::is_empty) {
        true => read.count(connection).await?.min(most),
        false => {
            let mut reading = read.begin(connection, command, filter).await?;
            let counting = async {
                let mut count = 0_u64;
                while count < most && reading.next().await?.is_some() {
                    count += 1;
                }
                Ok::<_, CommandError>(count)
            };
            connection.until_gone(counting).await??
        }
    };
    let count = count.saturating_sub(skip);
    let count = i32::try_from(count).map_or(Bson::Int64(count.cast_signed()), Bson::Int32);
    Ok(doc! { "n": count })
}

/// `distinct`
pub(super) async fn distinct(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["key", "query", "hint"])?;
    let read = StreamRead::of(connection, command, command.collection()?)?;
    let key = command.text("key")?.ok_or_else(|| command.missing("key"))?;
    let mut values = DistinctValues::new(key);
    let mut reading = read
        .begin(connection, command, filter(command, "query")?)
        .await?;
    let gathering = async {
        while let Some((_, document)) = reading.next().await? {
            values.push(&document)?;
        }
        Ok::<_, CommandError>(())
    };
    connection.until_gone(gathering).await??;
    Ok(doc! { "values": values.finish() })
}
