//! The state of a cluster: its shards with their servers.

use futures::future::join_all;
use query::ShardState;
use serde::{Deserialize, Serialize};
use storage::Store;

use super::owners::{Owners, told};

/// A shard, as the server that has it tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardInfo {
    pub(crate) shard: u16,
    /// The number of all shards.
    pub(crate) shards: u16,
    /// The id of the store.
    pub(crate) store: String,
    /// The epoch of its writer: the number of its starts.
    pub(crate) epoch: u32,
    /// Sequence numbers of events and quarantined items that are not sealed.
    pub(crate) unsealed: u64,
    /// Time of the last seal, microseconds since 1970.
    pub(crate) sealed_at_us: i64,
    /// Messages of the journal that a start would read, if the journal is shared.
    pub(crate) behind: Option<u64>,
    /// The reason for which it takes no batches, or does not seal them.
    pub(crate) error: Option<String>,
}

impl ShardInfo {
    /// Returns the shard that a store is.
    pub(super) fn of(shard: u16, shards: u16, store: &Store) -> Self {
        let (snapshot, status) = (store.snapshot(), store.status());
        let manifest = snapshot.manifest();
        let journal = status.journal.as_ref();
        let behind = journal.map(|j| j.position.next_offset.saturating_sub(j.sealed_offset));
        let full = status.disk_full.then(|| "its disk is full".to_owned());
        let refused = status.journal.and_then(|journal| journal.error);
        Self {
            shard,
            shards,
            store: manifest.store_id.clone(),
            epoch: manifest.writer_epoch,
            unsealed: snapshot.next_seq().saturating_sub(manifest.sealed_seq),
            sealed_at_us: manifest.sealed_at_us,
            behind,
            error: status.poisoned.or(refused).or(status.seal_error).or(full),
        }
    }
}

/// The shards of a cluster, as one server sees them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClusterStatus {
    /// The number of all.
    pub(crate) shards: u16,
    /// The servers, by their shards.
    pub(crate) servers: Vec<SeenShard>,
    /// The shards that no server has.
    pub(crate) missing: Vec<u16>,
}

/// A server of a cluster, as another one sees it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SeenShard {
    /// Its address, or `this server`.
    pub(crate) url: String,
    /// `None` if it does not answer.
    #[serde(flatten)]
    pub(crate) told: Option<ShardInfo>,
    /// The reason for which it does not answer, or has another number of shards.
    #[serde(rename = "unseen", default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl ClusterStatus {
    /// Returns all shards in their order, those without a server among them.
    pub(super) fn shards(&self) -> Vec<ShardState> {
        (0..self.shards).map(|shard| self.shard(shard)).collect()
    }

    fn shard(&self, shard: u16) -> ShardState {
        let has = |server: &&SeenShard| server.told.as_ref().is_some_and(|t| t.shard == shard);
        let server = self.servers.iter().find(has);
        let told = server.and_then(|server| Some((server, server.told.as_ref()?)));
        let Some((server, told)) = told else {
            return ShardState {
                shard,
                error: Some("no server has it".to_owned()),
                ..ShardState::default()
            };
        };
        ShardState {
            shard,
            server: Some(server.url.clone()),
            epoch: Some(told.epoch),
            unsealed: Some(told.unsealed),
            behind: told.behind,
            sealed_at_us: Some(told.sealed_at_us),
            error: told.error.clone().or_else(|| server.error.clone()),
        }
    }

    /// Returns whether each shard has a server that stores.
    pub(crate) fn is_whole(&self) -> bool {
        let has_error = |server: &SeenShard| {
            let told = server.told.as_ref();
            told.is_some_and(|told| told.error.is_some())
        };
        self.missing.is_empty() && !self.servers.iter().any(has_error)
    }
}

impl Owners {
    /// Returns all servers as they are seen, `own` among them if this server has a shard.
    pub(super) async fn status(&self, own: Option<ShardInfo>) -> ClusterStatus {
        let seen = |(url, answer): (String, Result<(_, ShardInfo), String>)| {
            let (told, error) = match answer {
                Ok((_, told)) => {
                    let error = (told.shards != self.shards)
                        .then(|| format!("it is in a cluster of {} shards", told.shards));
                    (Some(told), error)
                }
                Err(why) => (None, Some(why)),
            };
            SeenShard { url, told, error }
        };
        let asked = join_all(self.places.iter().map(told)).await;
        let own = own.map(|told| SeenShard {
            url: "this server".to_owned(),
            told: Some(told),
            error: None,
        });
        let mut servers: Vec<SeenShard> = asked.into_iter().map(seen).collect();
        servers.extend(own);
        let shard = |server: &SeenShard| server.told.as_ref().map(|told| told.shard);
        servers.sort_by_key(|server| shard(server).map_or((1, 0), |shard| (0, shard)));
        let has = |wanted: &u16| {
            let fits = |server: &&SeenShard| server.error.is_none();
            let mut fitting = servers.iter().filter(fits);
            fitting.any(|server| shard(server) == Some(*wanted))
        };
        ClusterStatus {
            shards: self.shards,
            missing: (0..self.shards).filter(|shard| !has(shard)).collect(),
            servers,
        }
    }
}
