//! The servers that have the shards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures::future::join_all;
use hyper::Method;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage::{Error, SourcePosition};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::cluster::calls::PeerServer;
use crate::cluster::{SHARD, SOURCES};

/// Time for a question to another server.
const WITHIN: Duration = Duration::from_secs(5);

/// Time after an answer in which a server is taken to be there.
const ALIVE_FOR: Duration = Duration::from_millis(200);

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
    /// Returns whether each shard has a server that stores.
    pub(crate) fn is_whole(&self) -> bool {
        let has_error = |server: &SeenShard| {
            let told = server.told.as_ref();
            told.is_some_and(|told| told.error.is_some())
        };
        self.missing.is_empty() && !self.servers.iter().any(has_error)
    }
}

/// The servers of the other shards. Each tells its shard when it is asked, and what it has told is
/// remembered until it tells otherwise.
#[derive(Debug)]
pub(in crate::cluster) struct Owners {
    servers: Vec<Arc<PeerServer>>,
    shards: u16,
    known: Mutex<HashMap<u16, (Arc<PeerServer>, Instant)>>,
    runtime: Handle,
}

impl Owners {
    pub(super) fn new(servers: &[Arc<PeerServer>], shards: u16, runtime: Handle) -> Self {
        Self {
            servers: servers.to_vec(),
            shards,
            known: Mutex::default(),
            runtime,
        }
    }

    /// Returns the server of a shard.
    ///
    /// # Errors
    /// A sentence about the shard, if no server says that it has it.
    pub(super) async fn find(&self, shard: u16) -> Result<Arc<PeerServer>, String> {
        if let Some((server, _)) = self.known.lock().get(&shard) {
            return Ok(Arc::clone(server));
        }
        let asked = self.servers.iter().map(|server| async move {
            let told = within(server.get::<ShardInfo>(SHARD)).await;
            (server, told)
        });
        let mut silent = Vec::new();
        for (server, told) in join_all(asked).await {
            match told {
                Ok(told) if told.shards == self.shards => {
                    let told_at = (Arc::clone(server), Instant::now());
                    self.known.lock().insert(told.shard, told_at);
                }
                Ok(told) => silent.push(format!(
                    "{} is in a cluster of {} shards, and this server in one of {}",
                    server.name(),
                    told.shards,
                    self.shards
                )),
                Err(why) => silent.push(format!("{}: {why}", server.name())),
            }
        }
        match self.known.lock().get(&shard) {
            Some((server, _)) => Ok(Arc::clone(server)),
            None if silent.is_empty() => {
                Err(format!("no server among the peers has shard {shard}"))
            }
            None => Err(format!("shard {shard} is not found: {}", silent.join("; "))),
        }
    }

    /// Returns all servers as they are seen, `own` among them.
    pub(super) async fn status(&self, own: ShardInfo) -> ClusterStatus {
        let asked = self.servers.iter().map(|server| async move {
            let told = within(server.get::<ShardInfo>(SHARD)).await;
            let (told, error) = match told {
                Ok(told) => {
                    let error = (told.shards != self.shards)
                        .then(|| format!("it is in a cluster of {} shards", told.shards));
                    (Some(told), error)
                }
                Err(why) => (None, Some(why)),
            };
            SeenShard {
                url: server.name().to_owned(),
                told,
                error,
            }
        });
        let own = SeenShard {
            url: "this server".to_owned(),
            told: Some(own),
            error: None,
        };
        let mut servers = join_all(asked).await;
        servers.push(own);
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

    /// Returns the server of a shard that was there a moment ago.
    ///
    /// # Errors
    /// As [`Owners::find`].
    pub(super) async fn find_alive(&self, shard: u16) -> Result<Arc<PeerServer>, String> {
        let known = self.known.lock().get(&shard).cloned();
        match known {
            Some((server, at)) if at.elapsed() < ALIVE_FOR => return Ok(server),
            _ => self.forget(shard),
        }
        self.find(shard).await
    }

    /// Notes an answer of the server of a shard.
    pub(super) fn note_alive(&self, shard: u16) {
        if let Some((_, at)) = self.known.lock().get_mut(&shard) {
            *at = Instant::now();
        }
    }

    /// Forgets the server of a shard: it has told that it has another.
    pub(super) fn forget(&self, shard: u16) {
        self.known.lock().remove(&shard);
    }

    /// Asks the server of a shard. Blocks.
    ///
    /// # Errors
    /// If there is no answer.
    pub(in crate::cluster) fn get<T>(self: &Arc<Self>, shard: u16, path: &str) -> Result<T, String>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (this, path) = (Arc::clone(self), path.to_owned());
        self.wait_for(async move {
            let server = this.find(shard).await?;
            let told = within(server.get(&path)).await;
            told.map_err(|why| format!("{}: {why}", server.name()))
        })
    }

    /// Sends a change to the server of a shard. Blocks.
    ///
    /// # Errors
    /// If there is no answer; then the change may have happened.
    pub(in crate::cluster) fn put<T>(
        self: &Arc<Self>,
        shard: u16,
        path: &str,
        body: Bytes,
    ) -> Result<T, String>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (this, path) = (Arc::clone(self), path.to_owned());
        self.wait_for(async move {
            let server = this.find(shard).await?;
            let told = within(server.ask(Method::PUT, &path, body)).await;
            told.map_err(|why| format!("{}: {why}", server.name()))
        })
    }

    /// Returns the position of a source in one shard.
    ///
    /// # Errors
    /// A clause, if the shard does not tell it.
    pub(super) async fn position(
        &self,
        shard: u16,
        producer: &str,
    ) -> Result<Option<SourcePosition>, String> {
        let producer = utf8_percent_encode(producer, NON_ALPHANUMERIC);
        let path = format!("{SOURCES}?producer={producer}");
        let server = self.find(shard).await?;
        let told = within(server.get::<Vec<ToldPosition>>(&path)).await;
        let mut told = told.map_err(|why| format!("shard {shard} at {}: {why}", server.name()))?;
        Ok(told.pop().map(SourcePosition::from))
    }

    /// Returns what each other shard than `own` knows of a source, in any order. Blocks.
    pub(super) fn positions(
        self: &Arc<Self>,
        own: u16,
        producer: &str,
    ) -> storage::Result<Vec<Vec<SourcePosition>>> {
        let producer = utf8_percent_encode(producer, NON_ALPHANUMERIC);
        let path = format!("{SOURCES}?producer={producer}");
        self.of_others::<Vec<ToldPosition>>(own, &path).map(|all| {
            let states = |told: Vec<ToldPosition>| {
                let states = told.into_iter();
                states.map(SourcePosition::from).collect()
            };
            all.into_iter().map(states).collect()
        })
    }

    /// Returns the sources of other shards than `own` whose names begin with `prefix`. Blocks.
    pub(super) fn producers(
        self: &Arc<Self>,
        own: u16,
        prefix: &str,
    ) -> storage::Result<Vec<String>> {
        let prefix = utf8_percent_encode(prefix, NON_ALPHANUMERIC);
        let path = format!("{SOURCES}?prefix={prefix}");
        Ok(self.of_others::<Vec<String>>(own, &path)?.concat())
    }

    fn of_others<T>(self: &Arc<Self>, own: u16, path: &str) -> storage::Result<Vec<T>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (this, path) = (Arc::clone(self), path.to_owned());
        let told = self.wait_for(async move {
            let others = (0..this.shards).filter(|shard| *shard != own);
            let asked = others.map(|shard| {
                let (this, path) = (&this, &path);
                async move {
                    let server = this.find(shard).await?;
                    let told = within(server.get(path)).await;
                    told.map_err(|why| format!("shard {shard} at {}: {why}", server.name()))
                }
            });
            join_all(asked).await.into_iter().collect()
        });
        told.map_err(|what| Error::Overloaded { what })
    }

    /// Waits for work on the runtime of calls.
    fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String> {
        let (tell, told) = std::sync::mpsc::channel();
        self.runtime.spawn(async move {
            // The receiver below waits.
            let _told = tell.send(work.await);
        });
        let stopping = || Err("this server is stopping".to_owned());
        told.recv().unwrap_or_else(|_| stopping())
    }
}

/// A position as a server tells it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ToldPosition {
    pub(crate) to: u64,
    pub(crate) content: u64,
}

impl From<SourcePosition> for ToldPosition {
    fn from(SourcePosition { to, content }: SourcePosition) -> Self {
        Self { to, content }
    }
}

impl From<ToldPosition> for SourcePosition {
    fn from(ToldPosition { to, content }: ToldPosition) -> Self {
        Self { to, content }
    }
}

async fn within<T>(asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    match timeout(WITHIN, asked).await {
        Ok(told) => told,
        Err(_) => Err(format!("it does not answer within {} s", WITHIN.as_secs())),
    }
}
