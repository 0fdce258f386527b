//! Peers: servers whose stores take part in the questions of this one.
//!
//! # Invariants
//! * A question reads each peer in one state. The peer holds that state under a token until the
//!   question has ended, and is told so; at the latest until the token has expired.
//! * A peer that does not tell its state within [`STATE_WITHIN`] is gone for the question, unless
//!   its shard may be on its way to another node. One that is silent later and is not healthy
//!   either ends the question with an error; none waits for it.
//! * An answer that breaks off is an error, never a shorter answer.
//! * No store counts twice: of two peers with one store the second is gone, and a peer with the
//!   store of this server is.

mod calls;
mod catalog;
mod connect;
mod following;
mod pieces;
mod places;
mod shards;
mod state;
mod tokens;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use query::{GonePeer, Peer, PeerTables};
use serde::{Deserialize, Serialize};
use storage::Snapshot;
use tokio::runtime::Handle;
use tokio::time::sleep;
use xxhash_rust::xxh3::xxh3_128;

use crate::config::Config;
use crate::failure::Result;
use calls::PeerHttp;
use connect::PeerConnector;
use places::{LOOK_AGAIN, PeerPlace};
use tokens::PeerTokens;

pub(crate) use catalog::CatalogChange;
pub(crate) use following::{BEAT, PeerFrames, TailFrame};
pub(crate) use shards::{
    ClusterStatus, PartAnswer, PartRefusal, SeenShard, ShardReply, ShardRequest, ShardedIntake,
    ToldPosition,
};

/// Time in which a peer has to tell its state, the connection included.
const STATE_WITHIN: Duration = Duration::from_millis(800);

/// Path of the states that a server holds for others.
pub(crate) const SNAPSHOTS: &str = "/api/v1/cluster/snapshots";
/// Path of the requests of others.
pub(crate) const REQUESTS: &str = "/api/v1/cluster/requests";
/// Path of the new events of a server.
const TAIL: &str = "/api/v1/cluster/tail";

/// Path of the catalog, at the server of the first shard.
const CATALOG: &str = "/api/v1/cluster/catalog";
/// Path of the shard of a server.
const SHARD: &str = "/api/v1/cluster/shard";
/// Header of a refusal for the lack of the thing that a request names.
pub(crate) const MISSING: &str = "logmill-missing";

/// Path of the parts of batches.
const BATCHES: &str = "/api/v1/cluster/batches";
/// Path of the ordered sources that the store of a server knows.
const SOURCES: &str = "/api/v1/cluster/sources";

/// A request for a state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SnapshotRequest {
    /// The version of the tables that the server knows.
    #[serde(default)]
    pub(crate) known: Option<String>,
    /// The tokens of states that it gives back.
    #[serde(default)]
    pub(crate) given_back: Vec<String>,
}

/// A state that a server holds for another one, as it tells it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PeerSnapshot {
    /// The name of the state; only the account that has asked for it knows it.
    pub(crate) token: String,
    /// The id of the store.
    pub(crate) store: String,
    /// Exclusive end of the sequence numbers of its events.
    pub(crate) end_seq: u64,
    /// The version of the tables: a hash of 128 bits, so that other tables have another one.
    pub(crate) version: String,
    /// The tables; `None` if the server knows this version.
    pub(crate) tables: Option<PeerTables>,
}

impl PeerSnapshot {
    /// Returns a state for a server that knows the tables of version `known`.
    pub(crate) fn of(
        snapshot: &Snapshot,
        tables: PeerTables,
        token: String,
        known: Option<&str>,
    ) -> Self {
        let text = serde_json::to_vec(&tables).expect("BUG: tables are JSON");
        let version = format!("{:032x}", xxh3_128(&text));
        Self {
            token,
            store: snapshot.manifest().store_id.clone(),
            end_seq: snapshot.next_seq(),
            tables: (known != Some(&*version)).then_some(tables),
            version,
        }
    }
}

/// The peers of this server.
#[derive(Debug)]
pub(crate) struct Peers(Vec<PeerPlace>);

impl Peers {
    /// Returns the peers of the configuration; `None` if it has none. Calls run on `runtime`.
    ///
    /// # Errors
    /// If a file that it names, or the object store, cannot be used.
    pub(crate) fn of(config: &Config, runtime: &Handle) -> Result<Option<Self>> {
        let cluster = &config.cluster;
        if cluster.peers.is_empty() && !cluster.finds_shards() {
            return Ok(None);
        }
        let tokens = match &cluster.token_file {
            Some(file) => PeerTokens::read(file, &cluster.peers)?,
            None => PeerTokens::default(),
        };
        let connector = PeerConnector::trusting(cluster.ca_file.as_deref())?;
        let http = PeerHttp::new(connector, runtime.clone());
        let servers = cluster.peers.iter();
        let servers = servers.map(|url| PeerPlace::At(http.server(url, tokens.of(url))));
        let mut places: Vec<PeerPlace> = servers.collect();
        if cluster.finds_shards() {
            places.extend(places::in_objects(config, &http, tokens.of_all())?);
        }
        Ok(Some(Self(places)))
    }

    /// Returns the places of which some have the shards of a cluster.
    fn of_shards(&self) -> Vec<PeerPlace> {
        let is_one = |place: &&PeerPlace| place.shard().is_some();
        let shards: Vec<PeerPlace> = self.0.iter().filter(is_one).cloned().collect();
        match shards.is_empty() {
            true => self.0.clone(),
            false => shards,
        }
    }

    /// Asks every peer for its present state, as [`Peers::awaited_states`] does. Returns the states
    /// with the shards of those that have one.
    ///
    /// # Errors
    /// The first that is gone.
    pub(crate) async fn states_by_shard(
        &self,
        store: &str,
        patience: impl Future<Output = ()>,
    ) -> Result<Vec<(Option<u16>, Arc<dyn Peer>)>, GonePeer> {
        let (states, missing) = self.awaited_states(store, patience).await;
        match missing.gone().into_iter().next() {
            Some(gone) => Err(gone),
            // One state of each place, in their order.
            None => Ok(self.0.iter().map(PeerPlace::shard).zip(states).collect()),
        }
    }

    /// Asks every peer for its present state. `store` is the id of this server's own store.
    pub(crate) async fn states(&self, store: &str) -> (Vec<Arc<dyn Peer>>, MissingPeers<'_>) {
        Self::states_of(self.0.iter().collect(), store).await
    }

    /// As [`Peers::states`], without the shards of a cluster: all of their streams are in this
    /// server's own store, too.
    pub(crate) async fn states_beside_shards(
        &self,
        store: &str,
    ) -> (Vec<Arc<dyn Peer>>, MissingPeers<'_>) {
        let places = self.0.iter().filter(|place| place.shard().is_none());
        Self::states_of(places.collect(), store).await
    }

    async fn states_of<'a>(
        places: Vec<&'a PeerPlace>,
        store: &str,
    ) -> (Vec<Arc<dyn Peer>>, MissingPeers<'a>) {
        let told = join_all(places.iter().map(|place| place.state())).await;
        let mut known = HashMap::from([(store.to_owned(), "this server".to_owned())]);
        let (mut states, mut missing): (Vec<Arc<dyn Peer>>, _) = (Vec::new(), Vec::new());
        for (place, told) in places.into_iter().zip(told) {
            let told = told.and_then(|state| match known.get(state.store()) {
                Some(other) => Err(counts_twice(other)),
                None => {
                    known.insert(state.store().to_owned(), place.name());
                    Ok(state)
                }
            });
            match told {
                Ok(state) => states.push(Arc::new(state)),
                Err(why) => {
                    let name = place.name();
                    missing.push((place, GonePeer { name, why }));
                }
            }
        }
        (states, MissingPeers(missing))
    }

    /// As [`Peers::states`], but waits for shards that are on their way to another node while
    /// `patience` lasts.
    pub(crate) async fn awaited_states(
        &self,
        store: &str,
        patience: impl Future<Output = ()>,
    ) -> (Vec<Arc<dyn Peer>>, MissingPeers<'_>) {
        let mut patience = pin!(patience);
        let mut is_patient = true;
        loop {
            let (states, missing) = self.states(store).await;
            if !is_patient || !missing.are_awaited() {
                return (states, missing);
            }
            // A peer holds a bounded number of states: none meanwhile.
            drop(states);
            is_patient = tokio::select! {
                () = missing.wait() => true,
                () = &mut patience => false,
            };
        }
    }
}

/// Peers that are gone for a question.
#[derive(Debug)]
pub(crate) struct MissingPeers<'a>(Vec<(&'a PeerPlace, GonePeer)>);

impl MissingPeers<'_> {
    /// Returns whether none is gone.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the question may have all peers soon: each that is gone has a shard that may
    /// be on its way to another node.
    pub(crate) fn are_awaited(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|(place, _)| place.is_awaited())
    }

    /// Waits until their servers answer again, or until nobody waits for them any more.
    pub(crate) async fn wait(&self) {
        sleep(LOOK_AGAIN).await;
        join_all(self.0.iter().map(|(place, _)| place.wait_for_server())).await;
    }

    /// Returns what is told of them.
    pub(crate) fn gone(&self) -> Vec<GonePeer> {
        self.0.iter().map(|(_, gone)| gone.clone()).collect()
    }
}

fn counts_twice(other: &str) -> String {
    format!(
        "it serves the same store as {other}, whose events would count twice: take it out of peers of [cluster]"
    )
}

#[cfg(test)]
mod tests;
