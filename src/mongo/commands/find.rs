//! Reads: `find`, `getMore`, `killCursors`, `count` and `distinct`.

use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use query::mongo::{DistinctValues, Projection};

use super::read::{Caller, CollectionRead, count_field, filter, refuse_collation, time_max};
use crate::mongo::command::MongoCommand;
use crate::mongo::cursor::{AWAIT_MAX, BatchOptions, CursorOrder, MongoCursor};
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::reading::RowForm;
use crate::mongo::tail::TailReading;

const FIND_FIELDS: [&str; 18] = [
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
    "tailable",
    "awaitData",
    "returnKey",
    "showRecordId",
    "min",
    "max",
];
/// Fields of `find` that would change its answer in a way that there is not yet.
const NOT_YET: [(&str, &str); 4] = [
    ("returnKey", "leave it out"),
    ("showRecordId", "leave it out"),
    ("min", "use $gte in the filter"),
    ("max", "use $lt in the filter"),
];

/// `find`
pub(super) async fn find(caller: &Caller, command: &MongoCommand<'_>) -> Result<RawDocumentBuf> {
    refuse_collation(command)?;
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
    let read = CollectionRead::of(caller, command, command.collection()?)?;
    let (filter, expressions) = filter(caller, command, "filter")?;
    let projection = command.document("projection")?.filter(|of| !of.is_empty());
    let projection = projection.map(Projection::parse).transpose()?;
    let order = CursorOrder::of(command)?;
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

    let cursor = match Following::of(command, read.form(caller), &order)? {
        Some(Following { awaits }) => {
            let has_events = caller.serving().has_events();
            has_events.map_err(|why| CommandError::new(code::COMMAND_NOT_SUPPORTED, why))?;
            let terms = CollectionRead::terms(command, filter, expressions)?;
            let serving = Arc::clone(caller.serving());
            let (client, collection) = (read.client.clone(), read.collection.clone());
            let tail = TailReading::new(serving, client, collection, terms);
            MongoCursor::tail(tail, projection, (skip, limit), awaits)
        }
        None => {
            let reading = read.begin(caller, command, filter, expressions).await?;
            MongoCursor::open(reading, order, projection, (skip, limit)).await?
        }
    };
    let options = BatchOptions {
        is_single,
        ..read.batch(documents)
    };
    caller.mongo.cursors.first(cursor, options).await
}

/// A find that follows its stream.
struct Following {
    /// A batch waits for documents.
    awaits: bool,
}

impl Following {
    /// Reads whether a find asks for a tailable cursor.
    ///
    /// # Errors
    /// If the collection is not followed, or the answer is to be sorted.
    fn of(
        command: &MongoCommand<'_>,
        form: Option<RowForm>,
        order: &CursorOrder,
    ) -> Result<Option<Self>> {
        let awaits = command.boolean("awaitData")?.unwrap_or(false);
        if !command.boolean("tailable")?.unwrap_or(false) {
            let message = "'find.awaitData' is for tailable cursors: set 'tailable', too";
            return match awaits {
                true => Err(CommandError::new(code::FAILED_TO_PARSE, message)),
                false => Ok(None),
            };
        }
        let refused = |message: &str| Err(CommandError::new(code::BAD_VALUE, message));
        if !matches!(order, CursorOrder::Arrival) {
            return refused("a tailable cursor reads in the order of arrival; leave out 'sort'");
        }
        match form {
            None | Some(RowForm::Events(_)) => Ok(Some(Self { awaits })),
            Some(RowForm::Level | RowForm::Counters) => {
                refused("a tailable cursor follows events; a level and a counter have states")
            }
        }
    }
}

/// `getMore`
pub(super) async fn get_more(
    caller: &Caller,
    command: &MongoCommand<'_>,
) -> Result<RawDocumentBuf> {
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
    let read = CollectionRead::of(caller, command, collection)?;
    let documents = count_field(command, "batchSize")?.filter(|most| *most > 0);
    let options = BatchOptions {
        within: time_max(command)?.map(|within| within.min(AWAIT_MAX)),
        ..read.batch(documents)
    };
    caller.mongo.cursors.next(id, options).await
}

/// `killCursors`
pub(super) fn kill_cursors(caller: &Caller, command: &MongoCommand<'_>) -> Result<Document> {
    let read = CollectionRead::of(caller, command, command.collection()?)?;
    let Some(Bson::Array(ids)) = command.get("cursors") else {
        return Err(command.missing("cursors"));
    };
    let options = read.batch(None);
    let (killed, missing): (Vec<Bson>, Vec<Bson>) = ids.iter().cloned().partition(|id| {
        let id = id.as_i64().or(id.as_i32().map(i64::from));
        id.is_some_and(|id| caller.mongo.cursors.close(id, options))
    });
    Ok(doc! {
        "cursorsKilled": killed,
        "cursorsNotFound": missing,
        "cursorsAlive": [],
        "cursorsUnknown": [],
    })
}

/// `count`
pub(super) async fn count(caller: &Caller, command: &MongoCommand<'_>) -> Result<Document> {
    refuse_collation(command)?;
    command.check_fields(&["query", "limit", "skip", "hint", "fields"])?;
    let read = CollectionRead::of(caller, command, command.collection()?)?;
    let (filter, expressions) = filter(caller, command, "query")?;
    let skip = count_field(command, "skip")?.unwrap_or(0);
    let limit = command
        .integer("limit")?
        .map(i64::unsigned_abs)
        .filter(|limit| *limit > 0);
    let most = limit.map_or(u64::MAX, |limit| limit.saturating_add(skip));
    let count = match command.document("query")?.is_none_or(Document::is_empty) {
        true => read.count(caller).await?.min(most),
        false => {
            let mut reading = read.begin(caller, command, filter, expressions).await?;
            let mut count = 0_u64;
            while count < most && reading.next_match().await?.is_some() {
                count += 1;
            }
            count
        }
    };
    let count = count.saturating_sub(skip);
    let count = i32::try_from(count).map_or(Bson::Int64(count.cast_signed()), Bson::Int32);
    Ok(doc! { "n": count })
}

/// `distinct`
pub(super) async fn distinct(caller: &Caller, command: &MongoCommand<'_>) -> Result<Document> {
    refuse_collation(command)?;
    command.check_fields(&["key", "query", "hint"])?;
    let read = CollectionRead::of(caller, command, command.collection()?)?;
    let key = command.text("key")?.ok_or_else(|| command.missing("key"))?;
    let mut values = DistinctValues::new(key);
    let (filter, expressions) = filter(caller, command, "query")?;
    let mut reading = read.begin(caller, command, filter, expressions).await?;
    while let Some((_, document)) = reading.next().await? {
        values.push(&document.into_document())?;
    }
    Ok(doc! { "values": values.finish() })
}
