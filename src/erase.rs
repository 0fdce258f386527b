//! Erasing the events of a stream that pass a condition, for the command and for the server.
//!
//! The condition names what is to be forgotten, so it goes into no log, no list of queries and no
//! record.

use query::StreamColumns;
use serde::{Deserialize, Serialize};
use storage::{EraseReport, Name, QUARANTINE, Store};
use tokio::runtime::Handle;

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::wiring;

/// The events to erase.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EraseRequest {
    /// An SQL expression over the columns of the stream.
    #[serde(rename = "where")]
    pub(crate) condition: String,
    /// Only counts the events.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The columns upon which the stores of a cluster agree, as a node names them to each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) columns: Option<StreamColumns>,
}

/// The result of an erasure.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Erased {
    #[serde(flatten)]
    pub(crate) report: EraseReport,
    /// Peers of a node that have the stream and are no shards: they have erased nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_asked: Vec<String>,
}

impl From<EraseReport> for Erased {
    fn from(report: EraseReport) -> Self {
        let not_asked = Vec::new();
        Self { report, not_asked }
    }
}

/// Erases the events that pass the condition. The caller's thread may block.
///
/// # Errors
/// If there is no such stream, the condition is wrong, or the store cannot be changed.
pub(crate) fn erase(
    (config, runtime): (&Config, &Handle),
    store: &Store,
    stream: &Name,
    request: &EraseRequest,
) -> Result<EraseReport> {
    let snapshot = store.snapshot();
    let is_unknown = !snapshot.streams().contains_key(stream);
    if is_unknown && request.columns.is_some() {
        // Other shards have it.
        return Ok(EraseReport::default());
    }
    if stream.as_str() == QUARANTINE || (is_unknown && stream.as_str() == "quarantine") {
        return Err(Failure::usage(
            "quarantined lines are no events of a stream; discard them with `logmill quarantine drop`",
        ));
    }
    // Its queries have no limits, and are in no list of the server.
    let engine = wiring::engine_of_one(config, None)?;
    let (condition, columns) = (&request.condition, request.columns.as_ref());
    let found = query::matching(&engine, snapshot, stream, condition, columns);
    let seqs = runtime.block_on(found)?;
    Ok(store.erase(stream, seqs, request.dry_run)?)
}
