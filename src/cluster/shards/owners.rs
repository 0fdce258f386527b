//! The servers that have the shards.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use hyper::Method;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage::{Error, SourcePosition};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::status::ShardInfo;
use crate::cluster::calls::PeerServer;
use crate::cluster::places::{LOOK_AGAIN, MOVED_WITHIN, PeerPlace};
use crate::cluster::{SHARD, SOURCES};

/// Time for a question to another server.
const WITHIN: Duration = Duration::from_secs(5);

/// Time after an answer in which a server is taken to be there.
const ALIVE_FOR: Duration = Duration::from_millis(200);

/// The servers of the other shards. Each tells its shard when it is asked, and what it has told is
/// remembered until it tells otherwise.
#[derive(Debug)]
pub(in crate::cluster) struct Owners {
    pub(super) places: Vec<PeerPlace>,
    pub(super) shards: u16,
    known: Mutex<HashMap<u16, (Arc<PeerServer>, Instant)>>,
    /// The store of each shard that was seen first.
    stores: Mutex<HashMap<u16, String>>,
    runtime: Handle,
}

impl Owners {
    /// Returns the servers of a cluster; `own` is the shard of the own store, and its id.
    pub(super) fn new(
        places: Vec<PeerPlace>,
        shards: u16,
        own: Option<(u16, String)>,
        runtime: Handle,
    ) -> Self {
        Self {
            places,
            shards,
            known: Mutex::default(),
            stores: Mutex::new(own.into_iter().collect()),
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
        let may_have = |place: &&PeerPlace| place.shard().is_none_or(|of| of == shard);
        let asked = self.places.iter().filter(may_have).map(told);
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut silent = Vec::new();
        while let Some((name, answer)) = asked.next().await {
            match answer {
                Ok((server, told)) if told.shards == self.shards => {
                    let is_wanted = told.shard == shard;
                    match self.note(&server, told) {
                        Ok(()) if is_wanted => return Ok(server),
                        Ok(()) => {}
                        Err(why) => silent.push(why),
                    }
                }
                Ok((_, told)) => silent.push(format!(
                    "{name} is in a cluster of {} shards, and this server in one of {}",
                    told.shards, self.shards
                )),
                Err(why) => silent.push(format!("{name}: {why}")),
            }
        }
        Err(match silent.is_empty() {
            true => format!("no server among the peers has shard {shard}"),
            false => format!("shard {shard} is not found: {}", silent.join("; ")),
        })
    }

    /// Returns the time up to which a batch waits for a shard without a server; the present, where
    /// shards stay where they are.
    pub(super) fn moved_until(&self) -> Instant {
        match self.may_move() {
            true => Instant::now() + MOVED_WITHIN,
            false => Instant::now(),
        }
    }

    fn may_move(&self) -> bool {
        self.places.iter().any(|place| place.shard().is_some())
    }

    /// Waits before a shard is looked for again. Returns whether it is.
    pub(super) async fn look_again(&self, until: Instant) -> bool {
        let is_due = Instant::now() < until;
        if is_due {
            sleep(LOOK_AGAIN).await;
        }
        is_due
    }

    /// Notes the shard that a server has told.
    ///
    /// # Errors
    /// If another store was this shard before: it does not know the batches that came to that one.
    fn note(&self, server: &Arc<PeerServer>, told: ShardInfo) -> Result<(), String> {
        let ShardInfo { shard, store, .. } = told;
        let mut stores = self.stores.lock();
        let first = stores.entry(shard).or_insert_with(|| store.clone());
        if *first != store {
            return Err(format!(
                "{} has another store as shard {shard} than this server has seen before: stop one of them; start this server again if the other is gone for good",
                server.name()
            ));
        }
        let told_at = (Arc::clone(server), Instant::now());
        self.known.lock().insert(shard, told_at);
        Ok(())
    }

    /// Returns the server of a shard that was there a moment ago. Waits for one that is being
    /// moved, up to [`Owners::moved_until`].
    ///
    /// # Errors
    /// As [`Owners::find`].
    pub(super) async fn find_alive(
        &self,
        shard: u16,
        until: Instant,
    ) -> Result<Arc<PeerServer>, String> {
        loop {
            match self.try_find_alive(shard).await {
                Ok(server) => return Ok(server),
                Err(why) if !self.look_again(until).await => return Err(why),
                Err(_) => {}
            }
        }
    }

    async fn try_find_alive(&self, shard: u16) -> Result<Arc<PeerServer>, String> {
        let known = self.known.lock().get(&shard).cloned();
        let Some((server, at)) = known else {
            return self.find(shard).await;
        };
        if at.elapsed() < ALIVE_FOR {
            return Ok(server);
        }
        match within(server.get::<ShardInfo>(SHARD)).await {
            Ok(told) if told.shard == shard && told.shards == self.shards => {
                if let Some(why) = &told.error {
                    return Err(format!("shard {shard} at {}: {why}", server.name()));
                }
                self.note(&server, told)?;
                Ok(server)
            }
            _ => {
                self.forget(shard);
                self.find(shard).await
            }
        }
    }

    /// Notes an answer of the server of a shard.
    pub(super) fn note_alive(&self, shard: u16) {
        if let Some((_, at)) = self.known.lock().get_mut(&shard) {
            *at = Instant::now();
        }
    }

    /// Forgets the server of a shard: it has told that it has another.
    pub(super) fn forget(&self, shard: u16) {
        let known = self.known.lock().remove(&shard);
        if let Some((server, _)) = known {
            self.places.iter().for_each(|place| place.forget(&server));
        }
    }

    /// Looks for the server of a shard anew next time, if it may be another one: this one is
    /// silent.
    pub(super) fn doubt(&self, shard: u16) {
        if self.may_move() {
            self.forget(shard);
        }
    }

    /// Looks for the server of a shard anew next time, if it may be another one: this one refuses
    /// what its successor may take. One that is cut off from the journal does not know of it.
    pub(super) fn note_refusal(&self, shard: u16) {
        let mut places = self.places.iter();
        if places.any(|place| place.shard() == Some(shard) && place.is_old()) {
            self.forget(shard);
        }
    }

    /// Returns the reason for which a shard does not answer. Its server is looked for anew next
    /// time.
    fn silent(&self, shard: u16, server: &PeerServer, why: &str) -> String {
        self.forget(shard);
        format!("shard {shard} at {}: {why}", server.name())
    }

    /// Returns the fingerprint of the request that a key stands for in one shard. Blocks.
    ///
    /// # Errors
    /// [`Error::Overloaded`], if the shard does not tell it.
    pub(super) fn key_fingerprint(
        self: &Arc<Self>,
        shard: u16,
        key: &str,
    ) -> storage::Result<Option<u64>> {
        let key = utf8_percent_encode(key, NON_ALPHANUMERIC);
        let told = self.get(shard, &format!("{SOURCES}?key={key}"));
        told.map_err(|what| Error::Overloaded { what })
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
            told.map_err(|why| this.silent(shard, &server, &why))
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
            told.map_err(|why| this.silent(shard, &server, &why))
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
        let mut told = told.map_err(|why| self.silent(shard, &server, &why))?;
        Ok(told.pop().map(SourcePosition::from))
    }

    /// Returns what each other shard than `own` knows of a source, in any order. Blocks.
    pub(super) fn positions(
        self: &Arc<Self>,
        own: Option<u16>,
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
        own: Option<u16>,
        prefix: &str,
    ) -> storage::Result<Vec<String>> {
        let prefix = utf8_percent_encode(prefix, NON_ALPHANUMERIC);
        let path = format!("{SOURCES}?prefix={prefix}");
        Ok(self.of_others::<Vec<String>>(own, &path)?.concat())
    }

    fn of_others<T>(self: &Arc<Self>, own: Option<u16>, path: &str) -> storage::Result<Vec<T>>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let (this, path) = (Arc::clone(self), path.to_owned());
        let told = self.wait_for(async move {
            let others = (0..this.shards).filter(|shard| Some(*shard) != own);
            let asked = others.map(|shard| {
                let (this, path) = (&this, &path);
                async move {
                    let server = this.find(shard).await?;
                    let told = within(server.get(path)).await;
                    told.map_err(|why| this.silent(shard, &server, &why))
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
        let wait = || told.recv().unwrap_or_else(|_| stopping());
        match Handle::try_current() {
            // The thread may run other tasks, and this work among them.
            Ok(_) => tokio::task::block_in_place(wait),
            Err(_) => wait(),
        }
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

/// Asks the server at a place for its shard. Returns the server, as messages name it, too.
pub(super) async fn told(
    place: &PeerPlace,
) -> (String, Result<(Arc<PeerServer>, ShardInfo), String>) {
    let server = match place.server().await {
        Ok(server) => server,
        Err(why) => {
            place.note(false);
            return (place.name(), Err(why));
        }
    };
    let told = within(server.get::<ShardInfo>(SHARD)).await;
    place.note(told.is_ok());
    if told.is_err() {
        place.forget(&server);
    }
    let name = server.name().to_owned();
    (name, told.map(|told| (server, told)))
}

/// Waits for the answer to a question, for a while.
pub(super) async fn within<T>(asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    match timeout(WITHIN, asked).await {
        Ok(told) => told,
        Err(_) => Err(format!("it does not answer within {} s", WITHIN.as_secs())),
    }
}
