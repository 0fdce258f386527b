//! `shardCollection`: a store of one node is one shard, so the collection is sharded by any key.
//! The answer has the effects of the key with more shards.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use storage::TIME;
use storage::{Salt, ShardKey};

use super::{reader, visible_stream};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;

/// The number of shards of the answer.
const SHARDS: u16 = 16;

/// `shardCollection`
pub(super) async fn of_collection(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["key", "unique", "numInitialChunks", "presplitHashedZones"])?;
    let client = reader(connection, command)?;
    let namespace = command.collection()?;
    let Some((database, named)) = namespace.split_once('.') else {
        return Err(CommandError::new(
            code::INVALID_NAMESPACE,
            format!("'{namespace}' is no namespace; write database.collection"),
        ));
    };
    let key = command.document("key")?;
    let key = key.ok_or_else(|| command.missing("key"))?;
    check_key(key)?;
    if command.boolean("unique")? == Some(true) {
        let message = "'shardCollection.unique' is not supported: an insert appends";
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
    }
    let serving = Arc::clone(connection.serving());
    let snapshot = serving.store.snapshot();
    let Collection::Stream(stream) = Collection::of(database, named, &snapshot)? else {
        let message = format!("{namespace} is a view of a stream, and is sharded with it");
        return Err(CommandError::new(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            message,
        ));
    };
    let mut answer = doc! {
        "collectionsharded": namespace,
        "note": format!("this store is one node, which is one shard; `logmill stream suggest-shard-key {stream} --shards {SHARDS}` measures the keys of a cluster"),
    };
    let Some(meta) = visible_stream(&client, &snapshot, &stream) else {
        return Ok(answer);
    };
    let is_column = |field: &str| meta.column_type(field).is_some() && !field.starts_with('_');
    let key = shard_key(key, is_column);
    let measured = serving.shard_keys(&client, &stream, SHARDS, std::slice::from_ref(&key));
    if let Some(measured) = measured.await? {
        let measured = bson::serialize_to_bson(&measured);
        let measured =
            measured.map_err(|e| CommandError::new(code::INTERNAL_ERROR, e.to_string()))?;
        answer.insert("key", key.to_string());
        answer.insert("shardKeys", measured);
    }
    Ok(answer)
}

/// Checks that a key has fields, each with a direction or hashed.
fn check_key(key: &Document) -> Result<()> {
    let is_right = |value: &Bson| match value {
        Bson::String(text) => text == "hashed",
        Bson::Int32(number) => number.abs() == 1,
        Bson::Int64(number) => number.abs() == 1,
        Bson::Double(number) => number.abs() == 1.0,
        _ => false,
    };
    match key.iter().find(|(_, value)| !is_right(value)) {
        None if !key.is_empty() => Ok(()),
        None => Err(CommandError::new(
            code::BAD_VALUE,
            "the shard key has no field",
        )),
        Some((field, value)) => Err(CommandError::new(
            code::BAD_VALUE,
            format!("the shard key has {field}: {value}; write 1, -1 or \"hashed\""),
        )),
    }
}

/// Returns the key as streams have it. Ids are divided evenly, as batches are; a field that the
/// stream does not have is the hash that a program would add to divide a value further; and within
/// a value of another field the time divides nothing.
fn shard_key(key: &Document, is_column: impl Fn(&str) -> bool) -> ShardKey {
    let names: Vec<&str> = key.keys().map(String::as_str).collect();
    if names.first() == Some(&TIME) {
        return ShardKey::Time;
    }
    let columns = names
        .iter()
        .filter(|name| is_column(name) && **name != TIME);
    let fields: Vec<String> = columns.map(|name| (*name).to_owned()).collect();
    if names.contains(&"_id") || fields.is_empty() {
        return ShardKey::Batch;
    }
    let has_hash = names.iter().any(|name| !is_column(name));
    let salt = if has_hash { Salt::All } else { Salt::None };
    ShardKey::Fields { fields, salt }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_documents_is_a_key_of_the_stream() {
        let is_column = |field: &str| ["path", "host", "time"].contains(&field);
        for (key, expected) in [
            (doc! { "time": 1 }, "time"),
            (doc! { "time": 1, "path": 1 }, "time"),
            (doc! { "_id": "hashed" }, "batch"),
            (doc! { "path": 1 }, "path"),
            (doc! { "path": 1, "time": 1 }, "path"),
            (doc! { "path": "hashed", "host": -1 }, "path, host"),
            (doc! { "path": 1, "ssk": 1 }, "path + hash"),
            (doc! { "ssk": 1 }, "batch"),
        ] {
            assert!(check_key(&key).is_ok(), "{key}");
            assert_eq!(shard_key(&key, is_column).to_string(), expected, "{key}");
        }
        for wrong in [
            doc! {},
            doc! { "a": 2 },
            doc! { "a": "text" },
            doc! { "a": doc! {} },
        ] {
            assert!(check_key(&wrong).is_err(), "{wrong}");
        }
    }
}
