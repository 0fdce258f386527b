//! The way in of a cluster: batches are divided among its shards, whose servers take the parts.
//!
//! # Invariants
//! * Each part is stored whole or not at all, under the identity of its batch. The parts of a batch
//!   that is sent again are those of before (`storage::ShardKey`), so that each shard recognises
//!   its own and a retry completes what was missing.
//! * A batch is acknowledged when all of its parts are. An answer that it was not stored means that
//!   no part was: if some were, the outcome is unknown, and a retry is asked for.
//! * The ranges of an ordered source go to all shards, with events or without, and to each shard in
//!   their order. So all shards have one position of it, but for batches under way.
//! * A key that was used with another body is refused before any part is stored: the home of the
//!   batch, which always gets a part, decides first.

mod gathering;
mod lanes;
mod owners;
mod requests;
mod send;
mod sources;
mod split;
mod status;
mod unnamed;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use query::ShardState;
use storage::{
    Ack, BackgroundPermit, Batch, Durability, EncodedBatch, Identity, Name, Replication, ShardKey,
    SourcePosition, Store, WriteConcern,
};
use tokio::runtime::Handle;

use super::Peers;
use super::catalog::{CatalogPlace, FirstShard, ObjectCatalog, OwnCatalog, SharedCatalog};
use crate::config::Config;
use crate::failure::Result;
use crate::intake::{Intake, Reply, StreamState};
use crate::wiring;
use gathering::Gathering;
use lanes::{Lanes, SentBytes, UnderWay};
pub(super) use owners::Owners;
pub(crate) use owners::ToldPosition;
pub(crate) use requests::{ShardReply, ShardRequest};
pub(crate) use send::{PartAnswer, PartRefusal};
use split::ItemShards;
pub(crate) use status::{ClusterStatus, SeenShard, ShardInfo};
use unnamed::UnnamedLanes;

/// The way in for all shards.
#[derive(Debug, Clone)]
pub(crate) struct ShardedIntake(Arc<Gateway>);

/// The parts of the way in, which batches under way share.
#[derive(Debug)]
struct Gateway {
    store: Arc<Store>,
    /// The shard of the own store; `None` for a node, whose own store has no events.
    own: Option<u16>,
    /// The number of all.
    shards: u16,
    /// Replication of the journals of all shards, where the own store is none of them.
    replication: Option<Replication>,
    catalog: SharedCatalog,
    owners: Arc<Owners>,
    lanes: Lanes,
    /// For each shard, the bytes on their way to it.
    under_way: Vec<UnderWay>,
    /// For each shard, the lanes of parts without an identity.
    unnamed: Vec<UnnamedLanes>,
    /// Streams that the own store is known to have.
    streams: Mutex<HashSet<Name>>,
    /// Ordered sources whose position all shards have.
    begun: Mutex<HashSet<String>>,
    /// The shards when they were looked at last.
    seen: Mutex<Vec<ShardState>>,
    runtime: Handle,
}

impl ShardedIntake {
    /// Returns the way in of a cluster; `None` if the configuration names no shards, and for a
    /// server that stores nothing.
    ///
    /// # Errors
    /// If the object store of the catalog cannot be used.
    pub(crate) fn of(
        config: &Config,
        store: &Arc<Store>,
        peers: Option<&Peers>,
        runtime: &Handle,
    ) -> Result<Option<Self>> {
        let (own, shards) = (config.cluster.shard, config.cluster.shards);
        let is_node = config.cluster.is_node();
        if config.server.read_only || (own.is_none() && !is_node) {
            return Ok(None);
        }
        let id = store.snapshot().manifest().store_id.clone();
        let places = peers.map(Peers::of_shards).unwrap_or_default();
        let own_store = own.map(|own| (own, id.clone()));
        let owners = Arc::new(Owners::new(places, shards, own_store, runtime.clone()));
        let place: Box<dyn CatalogPlace> = match wiring::catalog_depot(config)? {
            Some(depot) => Box::new(ObjectCatalog(depot)),
            None if own == Some(0) => Box::new(OwnCatalog(Arc::clone(store))),
            None => Box::new(FirstShard(Arc::clone(&owners))),
        };
        let replication = match is_node {
            true => Some(wiring::replication(config)?),
            false => None,
        };
        Ok(Some(Self(Arc::new(Gateway {
            store: Arc::clone(store),
            own,
            shards,
            replication,
            catalog: SharedCatalog::new(place, shards, config),
            owners,
            lanes: Lanes::default(),
            under_way: (0..shards).map(|_| UnderWay::default()).collect(),
            unnamed: (0..shards).map(|_| UnnamedLanes::of(&id)).collect(),
            streams: Mutex::default(),
            begun: Mutex::default(),
            seen: Mutex::default(),
            runtime: runtime.clone(),
        }))))
    }

    /// Returns the shard of this server, as it tells it to others; `None` for a node.
    pub(crate) fn info(&self) -> Option<ShardInfo> {
        let shard = self.0.own?;
        Some(ShardInfo::of(shard, self.0.shards, &self.0.store))
    }

    /// Returns the shard of this server; `None` for a node.
    pub(crate) fn own(&self) -> Option<u16> {
        self.0.own
    }

    /// Returns the shards of the cluster as this server sees them.
    pub(crate) async fn status(&self) -> ClusterStatus {
        self.0.owners.status(self.info()).await
    }

    /// Returns the shards of the cluster as [`ShardedIntake::begin_look`] has found them last.
    pub(crate) fn seen(&self) -> Vec<ShardState> {
        self.0.seen.lock().clone()
    }

    /// Begins to look at the shards of the cluster. Those that are silent are waited for.
    pub(crate) fn begin_look(&self) {
        let this = self.clone();
        self.0.runtime.spawn(async move {
            let status = this.status().await;
            *this.0.seen.lock() = status.shards();
        });
    }

    /// Reads the catalog, so that batches need not wait for it, and creates its streams in the own
    /// store: a question finds them there, though other shards have their events. Blocks.
    pub(crate) fn follow_catalog(&self) {
        if let Some(last) = self.0.catalog.follow()
            && let Err(error) = self.0.create_streams(&last)
        {
            tracing::debug!(%error, "the streams of the catalog are not created yet");
        }
    }

    /// Brings the columns of a batch for the own store into the catalog, and fits the batch to
    /// them: a shard has no column of its own. Blocks.
    ///
    /// # Errors
    /// If the catalog cannot be read or changed; then nothing of the batch may be stored.
    pub(crate) fn agree(&self, batch: &mut Batch) -> storage::Result<()> {
        self.0.catalog.agree(batch)?;
        self.0.create_streams(&batch.stream)
    }

    /// Hands a part that another server has divided to the own store. Blocks.
    ///
    /// # Errors
    /// The errors of [`Store::submit_encoded`]; then there is no reply.
    pub(crate) fn take_part(
        &self,
        part: EncodedBatch,
        concern: WriteConcern,
        reply: impl FnOnce(storage::Result<Ack>) + Send + 'static,
    ) -> storage::Result<()> {
        if part.has_events() {
            self.0.create_streams(part.stream())?;
        }
        self.0.store.submit_encoded(part, concern, reply)
    }
}

impl Gateway {
    /// Creates the streams of the catalog up to this one in the own store.
    fn create_streams(&self, name: &Name) -> storage::Result<()> {
        if self.streams.lock().contains(name) {
            return Ok(());
        }
        for stream in self.catalog.streams_to(name)? {
            let divided_by = self
                .own
                .and_then(|own| stream.division_at(own, self.shards));
            self.store
                .create_stream(&stream.name, stream.kind, divided_by)?;
            self.streams.lock().insert(stream.name);
        }
        Ok(())
    }

    /// Divides a batch; its home is the first part.
    fn divide(&self, mut batch: Batch) -> storage::Result<Vec<(u16, Batch)>> {
        let home = match &batch.identity {
            Some(identity) => ShardKey::home(identity, self.shards),
            None => ShardKey::shard_of(rand::random(), self.shards),
        };
        let stream = match batch.events.num_rows() {
            0 if batch.quarantine.iter().all(|item| item.event.is_none()) => None,
            // Its lines are events once their time has come.
            0 => Some(self.catalog.stream_to_be(&batch.stream, batch.kind)?),
            _ => Some(self.catalog.agree(&mut batch)?),
        };
        let places = ItemShards::of(&batch, stream.as_ref(), home, self.shards);
        split::split(batch, &places, home, self.shards)
    }

    /// Waits for room for a part on its way to a shard.
    fn room(&self, shard: u16, bytes: usize) -> storage::Result<SentBytes> {
        let room = self.under_way[usize::from(shard)].take(bytes);
        room.ok_or_else(|| storage::Error::Overloaded {
            what: format!("parts of batches wait for shard {shard}"),
        })
    }

    /// Hands a part over: to the own store, or to another server.
    fn hand_over(
        self: &Arc<Self>,
        (shard, part): (u16, Batch),
        concern: WriteConcern,
        gathering: Arc<Gathering>,
    ) {
        if Some(shard) != self.own {
            return self.send(shard, part, concern, gathering);
        }
        let done = Arc::clone(&gathering);
        let reply = move |outcome| done.done(shard, outcome);
        if let Err(error) = self.take_own(part, concern, reply) {
            gathering.done(shard, Err(error));
        }
    }

    fn take_own(
        &self,
        part: Batch,
        concern: WriteConcern,
        reply: impl FnOnce(storage::Result<Ack>) + Send + 'static,
    ) -> storage::Result<()> {
        if part.events.num_rows() > 0 {
            self.create_streams(&part.stream)?;
        }
        self.store.submit(part, concern, reply)
    }

    /// Hands over all parts at once.
    fn hand_over_all(
        self: &Arc<Self>,
        parts: Vec<(u16, Batch)>,
        concern: WriteConcern,
        reply: Reply,
    ) {
        let gathering = Gathering::of(parts.len(), reply);
        for part in parts {
            self.hand_over(part, concern, Arc::clone(&gathering));
        }
    }

    /// Hands over the part of the home, and the others when that one is acknowledged.
    fn hand_over_home_first(
        self: &Arc<Self>,
        mut parts: Vec<(u16, Batch)>,
        concern: WriteConcern,
        reply: Reply,
    ) {
        let home = parts.remove(0);
        let this = Arc::clone(self);
        let then: Reply = Box::new(move |outcome| match outcome {
            Err(error) => reply(Err(error)),
            Ok(acks) => {
                let reply = Gathering::joined(acks, reply);
                // The thread that answers takes the next batches of the store.
                let runtime = this.runtime.clone();
                runtime.spawn_blocking(move || this.hand_over_all(parts, concern, reply));
            }
        });
        self.hand_over(home, concern, Gathering::of(1, then));
    }
}

impl Intake for ShardedIntake {
    fn stream(&self, stream: &Name) -> StreamState {
        let known = self.0.catalog.stream(stream);
        known.map_or_else(StreamState::default, |stream| StreamState {
            columns: stream.columns,
            kind: Some(stream.kind),
        })
    }

    fn gives(&self, concern: WriteConcern) -> storage::Result<Durability> {
        match &self.0.replication {
            Some(replication) => replication.gives(concern),
            None => self.0.store.gives(concern),
        }
    }

    fn submit(&self, batch: Batch, concern: WriteConcern, reply: Reply) -> storage::Result<()> {
        let gateway = &self.0;
        self.gives(concern)?;
        batch.validate()?;
        let is_keyed = matches!(batch.identity, Some(Identity::Key { .. }));
        let is_unnamed = batch.identity.is_none();
        gateway.begin_source(&batch)?;
        let mut parts = gateway.divide(batch)?;
        match parts.len() {
            1 if Some(parts[0].0) == gateway.own => {
                let (shard, part) = parts.remove(0);
                let shard = Some(shard);
                let reply = move |outcome: storage::Result<Ack>| {
                    reply(outcome.map(|ack| vec![Ack { shard, ..ack }]));
                };
                gateway.take_own(part, concern, reply)?;
            }
            _ if is_unnamed => gateway.hand_over_unnamed(parts, concern, reply),
            2.. if is_keyed => gateway.hand_over_home_first(parts, concern, reply),
            _ => gateway.hand_over_all(parts, concern, reply),
        }
        Ok(())
    }

    fn tells_syncs(&self) -> bool {
        false
    }

    fn is_synced(&self, _acks: &[Ack]) -> bool {
        // Each store acknowledges when it has reached the concern.
        true
    }

    fn positions(&self, producer: &str) -> storage::Result<Vec<SourcePosition>> {
        let gateway = &self.0;
        let own = gateway.own.map(|_| gateway.store.source_states(producer));
        let others = gateway.owners.positions(gateway.own, producer)?;
        Ok(sources::common(own.into_iter().chain(others)))
    }

    fn producers(&self, prefix: &str) -> storage::Result<Vec<String>> {
        let mut all = self.0.owners.producers(self.0.own, prefix)?;
        if self.0.own.is_some() {
            all.extend(Intake::producers(&*self.0.store, prefix)?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    fn key_fingerprint(&self, key: &str) -> storage::Result<Option<u64>> {
        let identity = Identity::Key {
            key: key.to_owned(),
            body_hash: 0,
        };
        match ShardKey::home(&identity, self.0.shards) {
            home if Some(home) == self.0.own => Intake::key_fingerprint(&*self.0.store, key),
            home => self.0.owners.key_fingerprint(home, key),
        }
    }

    fn count_refused(&self, stream: &Name, items: u64) {
        Intake::count_refused(&*self.0.store, stream, items);
    }

    fn note_foreground(&self) {
        Intake::note_foreground(&*self.0.store);
    }

    fn background_permit(&self) -> BackgroundPermit<'_> {
        Intake::background_permit(&*self.0.store)
    }

    fn wait_for_bulk_room(&self, bytes: usize) {
        Intake::wait_for_bulk_room(&*self.0.store, bytes);
    }
}

#[cfg(test)]
mod tests;
