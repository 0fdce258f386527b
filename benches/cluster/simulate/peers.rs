//! The states that the peers of a question tell, and the plan of a question over all of them.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use query::{NoSystemInfo, Peer, PeerBytes, PeerTables, Sources, Viewer};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::base::{self, Base};
use super::planning::{Plan, Planner};
use super::shape::{DAY_US, END_US, Size};

/// Runs of which the least counts.
const RUNS: usize = 20;
/// Characters of a token, as `src/server/cluster/snapshots.rs` makes them.
const TOKEN_CHARACTERS: usize = 32;

/// A state that a server holds, as it tells it; `PeerSnapshot` in `src/cluster.rs`.
#[derive(Serialize, Deserialize)]
struct Told {
    token: String,
    store: String,
    end_seq: u64,
    version: String,
    tables: Option<PeerTables>,
}

/// The states that one question reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    pub(crate) size: Size,
    /// Bytes of one shard.
    pub(crate) bytes: f64,
    /// CPU of one shard that tells, and of the server that asks.
    pub(crate) encode_ms: f64,
    pub(crate) decode_ms: f64,
    /// The plan at the server that asks.
    pub(crate) front: Plan,
}

impl Tokens {
    /// Returns the bytes of all shards.
    pub(crate) fn all_bytes(&self) -> f64 {
        self.bytes * f64::from(self.size.shards)
    }

    /// Returns the time of the server that asks for the states of all shards, ms.
    pub(crate) fn all_decode_ms(&self) -> f64 {
        self.decode_ms * f64::from(self.size.shards)
    }

    pub(crate) fn measure(base: &Base, size: Size) -> Self {
        let data = base.store();
        let snapshot = base::snapshot(data.path());
        let viewer = Viewer::default();
        let tables = PeerTables::of(&snapshot, &viewer);
        // The server that asks knows these tables from the question before.
        let tell = || {
            let tables = PeerTables::of(&snapshot, &viewer);
            let text = serde_json::to_vec(&tables).expect("plain data");
            let told = Told {
                token: "0".repeat(TOKEN_CHARACTERS),
                store: snapshot.manifest().store_id.clone(),
                end_seq: snapshot.next_seq(),
                version: format!("{:032x}", xxh3_128(&text)),
                tables: None,
            };
            serde_json::to_vec(&told).expect("plain data")
        };
        let json = tell();
        let encode_ms = least_ms(|| tell().len());
        let decode_ms = least_ms(|| {
            let told: Told = serde_json::from_slice(&json).expect("as it was written");
            told.version.len()
        });
        let peers = (1..size.shards).map(|shard| Absent::new(shard, &tables));
        let peers = peers.map(|peer| Arc::new(peer) as Arc<dyn Peer>);
        let sources = Sources::one(snapshot, Arc::new(NoSystemInfo));
        let sources = sources.with_peers(peers.collect(), Vec::new());
        Self {
            size,
            bytes: json.len() as f64,
            encode_ms,
            decode_ms,
            front: Planner::new().plan(&sources, (END_US - DAY_US, END_US)),
        }
    }
}

fn least_ms(mut work: impl FnMut() -> usize) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let began = Instant::now();
        std::hint::black_box(work());
        least = least.min(began.elapsed().as_secs_f64() * 1e3);
    }
    least
}

/// A peer that tells its tables and answers nothing: a question is only planned.
#[derive(Debug)]
struct Absent {
    name: String,
    tables: Arc<PeerTables>,
}

impl Absent {
    fn new(shard: u16, tables: &PeerTables) -> Self {
        Self {
            name: format!("shard {shard}"),
            tables: Arc::new(tables.clone()),
        }
    }
}

impl Peer for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn tables(&self) -> &Arc<PeerTables> {
        &self.tables
    }

    fn end_seq(&self) -> u64 {
        0
    }

    fn send(&self, _: Bytes) -> BoxFuture<'static, query::Result<PeerBytes>> {
        let error = query::Error::Peer {
            peer: self.name.clone(),
            why: "it is not there".to_owned(),
        };
        async move { Err(error) }.boxed()
    }
}
