//! Peers: servers whose stores take part in the questions of this one.
//!
//! # Invariants
//! * A question reads each peer in one state. The peer holds that state under a token until the
//!   question has ended, and is told so; at the latest until the token has expired.
//! * A peer that does not tell its state within [`STATE_WITHIN`] is gone for the question. One that
//!   is silent later and is not healthy either ends the question with an error; none waits for it.
//! * An answer that breaks off is an error, never a shorter answer.
//! * No store counts twice: of two peers with one store the second is gone, and a peer with the
//!   store of this server is.

mod calls;
mod catalog;
mod connect;
mod pieces;
mod shards;
mod state;
mod tokens;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use query::{GonePeer, Peer, PeerTables};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::config;
use crate::failure::Result;
use calls::{PeerHttp, PeerServer};
use connect::PeerConnector;
use tokens::PeerTokens;

pub(crate) use catalog::CatalogChange;
pub(crate) use shards::{
    ClusterStatus, PartAnswer, PartRefusal, SeenShard, ShardedIntake, ToldPosition,
};

/// Time in which a peer has to tell its state, the connection included.
const STATE_WITHIN: Duration = Duration::from_millis(800);

/// Path of the states that a server holds for others.
pub(crate) const SNAPSHOTS: &str = "/api/v1/cluster/snapshots";
/// Path of the requests of others.
pub(crate) const REQUESTS: &str = "/api/v1/cluster/requests";

/// Path of the catalog, at the server of the first shard.
const CATALOG: &str = "/api/v1/cluster/catalog";
/// Path of the shard of a server.
const SHARD: &str = "/api/v1/cluster/shard";
/// Path of the parts of batches.
const BATCHES: &str = "/api/v1/cluster/batches";
/// Path of the ordered sources that the store of a server knows.
const SOURCES: &str = "/api/v1/cluster/sources";

/// A state that a server holds for another one, as it tells it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PeerSnapshot {
    /// The name of the state; only the account that has asked for it knows it.
    pub(crate) token: String,
    /// The id of the store.
    pub(crate) store: String,
    pub(crate) tables: PeerTables,
}

/// The peers of this server.
#[derive(Debug)]
pub(crate) struct Peers(Vec<Arc<PeerServer>>);

impl Peers {
    /// Returns the peers of the configuration; `None` if it names none. Calls run on `runtime`.
    ///
    /// # Errors
    /// If a file that it names cannot be used.
    pub(crate) fn of(config: &config::Cluster, runtime: &Handle) -> Result<Option<Self>> {
        if config.peers.is_empty() {
            return Ok(None);
        }
        let tokens = match &config.token_file {
            Some(file) => PeerTokens::read(file, &config.peers)?,
            None => PeerTokens::default(),
        };
        let connector = PeerConnector::trusting(config.ca_file.as_deref())?;
        let http = PeerHttp::new(connector, runtime.clone());
        let peers = config.peers.iter();
        let servers = peers.map(|url| http.server(url, tokens.of(url)));
        Ok(Some(Self(servers.collect())))
    }

    /// Returns the servers.
    fn servers(&self) -> &[Arc<PeerServer>] {
        &self.0
    }

    /// Asks every peer for its present state. `store` is the id of this server's own store.
    pub(crate) async fn states(&self, store: &str) -> (Vec<Arc<dyn Peer>>, Vec<GonePeer>) {
        let told = join_all(self.0.iter().map(|server| server.state())).await;
        let mut known = HashMap::from([(store.to_owned(), "this server")]);
        let (mut states, mut gone): (Vec<Arc<dyn Peer>>, _) = (Vec::new(), Vec::new());
        for (server, told) in self.0.iter().zip(told) {
            let told = told.and_then(|state| match known.get(state.store()) {
                Some(other) => Err(counts_twice(other)),
                None => {
                    known.insert(state.store().to_owned(), server.name());
                    Ok(state)
                }
            });
            match told {
                Ok(state) => states.push(Arc::new(state)),
                Err(why) => gone.push(GonePeer {
                    name: server.name().to_owned(),
                    why,
                }),
            }
        }
        (states, gone)
    }
}

fn counts_twice(other: &str) -> String {
    format!(
        "it serves the same store as {other}, whose events would count twice: take it out of peers of [cluster]"
    )
}

#[cfg(test)]
mod tests;
