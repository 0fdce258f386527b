//! `listDatabases` and `listCollections`.
//!
//! Streams belong to no database: there is one by name, `logmill`, and a client that names another
//! sees the same streams in it, but for those that MongoDB keeps for itself.

use aggregator::Level;
use bson::{Bson, Document, doc};
use query::mongo::{Filter, encoded_bytes};
use storage::{RollupMeta, Snapshot};

use super::sizes::CollectionSize;
use super::{is_wanted, long, reader, visible};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::message::DOCUMENT_BYTES_MAX;
use crate::mongo::namespace::OWN;
use crate::mongo::session::MongoConnection;
use crate::serve::Client;

/// The name of the store as a database.
pub(super) const DATABASE: &str = "logmill";

/// Returns whether a database is one of MongoDB's own, which have no collections here.
pub(super) fn without_collections(database: &str) -> bool {
    OWN.contains(&database)
}

/// `listDatabases`
pub(super) fn databases(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["nameOnly", "filter", "authorizedDatabases"])?;
    let client = reader(connection, command)?;
    let snapshot = connection.serving().store.snapshot();
    let (mut total, mut is_empty) = (CollectionSize::default(), true);
    for (name, _) in visible(&client, &snapshot) {
        total += CollectionSize::of_stream(&snapshot, name);
        is_empty = false;
    }
    let mut database = doc! {
        "name": DATABASE,
        "sizeOnDisk": long(total.stored_bytes),
        "empty": is_empty,
    };
    let filter = command.document("filter")?.map(Filter::parse).transpose()?;
    let is_wanted = is_wanted(filter.as_ref(), &database)?;
    let names_only = command.boolean("nameOnly")?.unwrap_or(false);
    if names_only {
        database = doc! { "name": DATABASE };
    }
    let databases: Vec<Document> = is_wanted.then_some(database).into_iter().collect();
    let mut answer = doc! { "databases": databases };
    if !names_only {
        let listed = if is_wanted { total.stored_bytes } else { 0 };
        answer.insert("totalSize", long(listed));
        answer.insert("totalSizeMb", long(listed >> 20));
    }
    Ok(answer)
}

/// `listCollections`
pub(super) fn collections(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["nameOnly", "filter", "cursor", "authorizedCollections"])?;
    let client = reader(connection, command)?;
    let database = command.database()?;
    let filter = command.document("filter")?.map(Filter::parse).transpose()?;
    let names_only = command.boolean("nameOnly")?.unwrap_or(false);
    let snapshot = connection.serving().store.snapshot();
    let all = match without_collections(database) {
        true => Vec::new(),
        false => {
            let streams = streams(connection, &client, &snapshot);
            streams
                .into_iter()
                .chain(levels(&client, &snapshot))
                .collect()
        }
    };
    let mut listed = Vec::new();
    for collection in all {
        if !is_wanted(filter.as_ref(), &collection)? {
            continue;
        }
        listed.push(match names_only {
            true => {
                let mut named = collection;
                named.remove("options");
                named.remove("info");
                named.remove("idIndex");
                named
            }
            false => collection,
        });
    }
    cursor(&format!("{database}.$cmd.listCollections"), listed)
}

/// Answers with a cursor that ends with its first batch.
///
/// # Errors
/// If the batch is too long for a message.
pub(super) fn cursor(namespace: &str, batch: Vec<Document>) -> Result<Document> {
    let answer = doc! {
        "cursor": { "id": 0_i64, "ns": namespace, "firstBatch": batch },
    };
    check_length(&answer)?;
    Ok(answer)
}

/// Checks that an answer fits into a message.
pub(super) fn check_length(answer: &Document) -> Result<()> {
    match encoded_bytes(answer) > DOCUMENT_BYTES_MAX {
        false => Ok(()),
        true => Err(CommandError::new(
            code::BSON_OBJECT_TOO_LARGE,
            "the list is longer than a message; ask with nameOnly, or with a filter",
        )),
    }
}

/// Returns the streams as collections.
fn streams(connection: &MongoConnection, client: &Client, snapshot: &Snapshot) -> Vec<Document> {
    let config = connection.serving().config.store();
    let documents = visible(client, snapshot).map(|(name, _)| {
        let retention = config.retention(snapshot.manifest(), name);
        let mut options = Document::new();
        if let Some(bytes) = retention.bytes {
            options.insert("capped", true);
            options.insert("size", long(bytes));
        }
        doc! {
            "name": name.as_str(),
            "type": "collection",
            "options": options,
            "info": { "readOnly": false },
            "idIndex": { "v": 2, "key": { "_id": 1 }, "name": "_id_" },
        }
    });
    documents.collect()
}

/// Returns the levels of rollups as views of their streams.
fn levels(client: &Client, snapshot: &Snapshot) -> Vec<Document> {
    let own = visible_rollups(client, snapshot);
    let levels = own.flat_map(|rollup| rollup.levels.iter().map(move |level| (rollup, level)));
    let views = levels.filter_map(|(rollup, level)| {
        Some(doc! {
            "name": level_name(rollup, level)?,
            "type": "view",
            "options": { "viewOn": rollup.stream.as_str(), "pipeline": Bson::Array(Vec::new()) },
            "info": { "readOnly": true },
        })
    });
    views.collect()
}

/// Returns the rollups of the streams that a client may read.
pub(super) fn visible_rollups<'a>(
    client: &'a Client,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = &'a RollupMeta> {
    let manifest = snapshot.manifest();
    visible(client, snapshot).flat_map(move |(stream, _)| manifest.rollups_of(stream))
}

/// Returns the collection of a level: `stats.hourly` for `hour`.
fn level_name(rollup: &RollupMeta, level: &str) -> Option<String> {
    Some(format!(
        "{}.{}",
        rollup.name,
        Level::from_name(level)?.table()
    ))
}
