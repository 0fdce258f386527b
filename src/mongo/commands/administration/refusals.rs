//! Commands that are known and refused, each with the way to the same end here.

use bson::Document;

use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::session::MongoConnection;

/// Returns the way to the same end; `None` if the command is not known.
pub(super) fn hint(name: &str) -> Option<&'static str> {
    Some(match name {
        "reshardCollection" | "refineCollectionShardKey" => {
            "this store is one node, which holds every stream whole; `logmill stream suggest-shard-key` measures the keys of a cluster"
        }
        "enableSharding" | "addShard" | "removeShard" | "split" | "moveChunk" => {
            "this store is one node, and databases are names alone"
        }
        "compact" => {
            "parts are merged in the background; POST /api/v1/partitions/compact does it at once"
        }
        "reIndex" => "the store rebuilds a damaged index by itself",
        "convertToCapped" => {
            "set retention = { bytes = … } in [stream.NAME] of logmill.toml instead"
        }
        _ => return None,
    })
}

/// Refuses a command, of a client that may ask.
///
/// # Errors
/// Always.
pub(super) fn refuse(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
    hint: &str,
) -> Result<Document> {
    connection.principal(command.name)?;
    let message = format!("'{}' is not supported: {hint}", command.name);
    Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message))
}
