//! A peer: a store that another process serves, and the tables that it had in one state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use storage::{Column, Division, Name, RollupMeta, Snapshot, StreamKind};

use crate::error::Result;
use crate::question::Viewer;

/// A store that another process serves, in one state: all requests of one query read that state.
/// It is given back when this is dropped.
pub trait Peer: fmt::Debug + Send + Sync {
    /// Returns its address, for errors and plans.
    fn name(&self) -> &str;

    /// Returns the tables that it had in this state. States whose tables are the same should have
    /// one copy of them: what the stores agree upon is kept while the copies are those of the
    /// question before.
    fn tables(&self) -> &Arc<PeerTables>;

    /// Returns the exclusive end of the sequence numbers of its events.
    fn end_seq(&self) -> u64;

    /// Sends a request, which [`Engine::answer_peer`](crate::Engine::answer_peer) answers there.
    /// The stream has the bytes of the answer; dropping it cancels the request. An answer that
    /// ends too early ends with an error.
    ///
    /// # Errors
    /// [`Error::Peer`](crate::Error::Peer) if the peer cannot be reached, also within the stream;
    /// or the error with which it has refused the request.
    fn send(&self, request: Bytes) -> BoxFuture<'static, Result<PeerBytes>>;
}

/// The bytes of a peer's answer.
pub type PeerBytes = BoxStream<'static, Result<Bytes>>;

/// A peer that did not tell its state.
#[derive(Debug, Clone)]
pub struct GonePeer {
    /// Its address.
    pub name: String,
    /// The reason, as a clause: `connection refused`.
    pub why: String,
}

/// The tables of a peer that take part in questions over several stores.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerTables {
    /// Its streams, without the quarantine.
    pub streams: BTreeMap<Name, StreamColumns>,
    /// Its rollups, the newest generation of each.
    pub rollups: Vec<RollupMeta>,
    /// The rules by which all events of a stream came to the store, where it is a shard.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub divisions: BTreeMap<Name, Division>,
}

/// The columns of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamColumns {
    /// The kind of the events.
    pub kind: StreamKind,
    /// The columns, in the order in which they appeared.
    pub columns: Vec<Column>,
}

impl PeerTables {
    /// Returns the tables of a snapshot that a client sees.
    pub fn of(snapshot: &Arc<Snapshot>, viewer: &Viewer) -> Self {
        let streams = snapshot.streams().iter();
        let seen = streams.filter(|(name, meta)| {
            meta.kind != StreamKind::Quarantine && viewer.sees(name.as_str())
        });
        let divisions = seen.clone().filter_map(|(name, meta)| {
            let divided_by = meta.divided_by.clone()?;
            Some((name.clone(), divided_by))
        });
        let divisions = divisions.collect();
        let streams = seen.map(|(name, meta)| {
            let columns = StreamColumns {
                kind: meta.kind,
                columns: meta.columns.clone(),
            };
            (name.clone(), columns)
        });
        let rollups = snapshot.manifest().rollups.iter();
        let newest: BTreeMap<&Name, &RollupMeta> = rollups
            .filter(|rollup| viewer.sees(rollup.stream.as_str()))
            .map(|rollup| (&rollup.name, rollup))
            .collect();
        Self {
            streams: streams.collect(),
            rollups: newest.into_values().cloned().collect(),
            divisions,
        }
    }
}
