//! Where peers are: at a URL of the configuration, or where the object store says that the server
//! of a shard is.
//!
//! # Invariant
//! A question reads a shard from the server that had committed last at most [`FRESH_FOR`] before
//! the question, or [`KNOWN_FOR`] while the object store does not answer. A server that was
//! superseded reads its successor's fence in the journal and stops; one that cannot read the
//! journal would answer without the events that its successor has acknowledged.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::SecretString;
use storage::{Depot, writer_address};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::calls::{PeerHttp, PeerServer};
use super::state::PeerState;
use crate::config::Config;
use crate::failure::Failure;
use crate::wiring;

/// Age up to which what the object store has told counts for questions.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Age up to which it counts while the object store does not tell it again.
const KNOWN_FOR: Duration = Duration::from_secs(10);
/// Time for the object store to tell it again, where a server is known already.
const AGAIN_WITHIN: Duration = Duration::from_millis(300);
/// Time for the object store to tell it where no server is known that counts.
const FIRST_WITHIN: Duration = Duration::from_secs(2);

/// Returns the places of the other shards of a cluster whose servers tell their addresses in the
/// object store. They get this token.
///
/// # Errors
/// If the object store cannot be used.
pub(super) fn in_objects(
    config: &Config,
    http: &PeerHttp,
    token: Option<SecretString>,
) -> Result<impl Iterator<Item = PeerPlace>, Failure> {
    let own = config.cluster.shard;
    let shards = (0..).zip(wiring::shard_depots(config)?);
    let others = shards.filter(move |(shard, _)| own != Some(*shard));
    let http = http.clone();
    let place = move |(shard, depot): (u16, Arc<dyn Depot>)| {
        let address: AddressOf = Arc::new(move || writer_address(&*depot));
        let place = ShardPlace::new(shard, address, http.clone(), token.clone());
        PeerPlace::Shard(Arc::new(place))
    };
    Ok(others.map(place))
}

/// Tells the URL of the server that has committed last to a store. Blocks.
type AddressOf = Arc<dyn Fn() -> storage::Result<Option<String>> + Send + Sync>;

/// The place of a peer.
#[derive(Debug, Clone)]
pub(super) enum PeerPlace {
    /// A server of the configuration.
    At(Arc<PeerServer>),
    /// The server that has a shard now.
    Shard(Arc<ShardPlace>),
}

impl PeerPlace {
    /// Returns its name for messages: a URL, or the number of a shard.
    pub(super) fn name(&self) -> String {
        match self {
            Self::At(server) => server.name().to_owned(),
            Self::Shard(place) => format!("shard {}", place.shard),
        }
    }

    /// Returns the shard of a place that is one's.
    pub(super) fn shard(&self) -> Option<u16> {
        match self {
            Self::At(_) => None,
            Self::Shard(place) => Some(place.shard),
        }
    }

    /// Returns the server that is known; asks for one if none is.
    ///
    /// # Errors
    /// A clause, if no server is known.
    pub(super) async fn server(&self) -> Result<Arc<PeerServer>, String> {
        match self {
            Self::At(server) => Ok(Arc::clone(server)),
            Self::Shard(place) => place.server(None).await,
        }
    }

    /// Returns the server for a question.
    ///
    /// # Errors
    /// As [`PeerPlace::server`].
    pub(super) async fn fresh_server(&self) -> Result<Arc<PeerServer>, String> {
        match self {
            Self::At(server) => Ok(Arc::clone(server)),
            Self::Shard(place) => place.server(Some(FRESH_FOR)).await,
        }
    }

    /// Asks the server for its present state.
    ///
    /// # Errors
    /// A clause, if there is no server, or it does not tell its state in time.
    pub(super) async fn state(&self) -> Result<PeerState, String> {
        let server = self.fresh_server().await?;
        let why = match server.state().await {
            Ok(state) => return Ok(state),
            Err(why) => why,
        };
        self.forget(&server);
        // The shard may have been moved a moment ago.
        match self {
            Self::At(_) => Err(why),
            Self::Shard(_) => match self.fresh_server().await {
                Ok(next) if next.name() != server.name() => next.state().await,
                _ => Err(format!("{}: {why}", server.name())),
            },
        }
    }

    /// Returns whether another server may have the shard by now: the object store has not told it
    /// for a while.
    pub(super) fn is_old(&self) -> bool {
        match self {
            Self::At(_) => false,
            Self::Shard(place) => {
                let known = place.known.lock();
                let is_old = |known: &KnownServer| known.read_at.elapsed() > FRESH_FOR;
                known.as_ref().is_none_or(is_old)
            }
        }
    }

    /// Forgets a server that does not answer: another one may have the shard.
    pub(super) fn forget(&self, server: &Arc<PeerServer>) {
        if let Self::Shard(place) = self {
            place.forget(server);
        }
    }
}

/// The place of a shard.
pub(super) struct ShardPlace {
    shard: u16,
    address: AddressOf,
    http: PeerHttp,
    token: Option<SecretString>,
    known: Mutex<Option<KnownServer>>,
}

struct KnownServer {
    server: Arc<PeerServer>,
    read_at: Instant,
}

impl fmt::Debug for ShardPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShardPlace").field(&self.shard).finish()
    }
}

impl ShardPlace {
    fn new(shard: u16, address: AddressOf, http: PeerHttp, token: Option<SecretString>) -> Self {
        Self {
            shard,
            address,
            http,
            token,
            known: Mutex::default(),
        }
    }

    /// Returns the server that is known, if what is known is young enough.
    async fn server(&self, age_max: Option<Duration>) -> Result<Arc<PeerServer>, String> {
        let known = {
            let known = self.known.lock();
            let known = known.as_ref();
            known.map(|known| (Arc::clone(&known.server), known.read_at.elapsed()))
        };
        if let Some((server, age)) = &known
            && age_max.is_none_or(|most| *age < most)
        {
            return Ok(Arc::clone(server));
        }
        let within = match &known {
            Some((_, age)) if *age < KNOWN_FOR => AGAIN_WITHIN,
            _ => FIRST_WITHIN,
        };
        let told = timeout(within, self.read()).await;
        let late = || Err("the object store does not tell its server".to_owned());
        match (told.unwrap_or_else(|_| late()), known) {
            (Ok(server), _) => Ok(server),
            (Err(_), Some((server, age))) if age < KNOWN_FOR => Ok(server),
            (Err(why), _) => Err(why),
        }
    }

    async fn read(&self) -> Result<Arc<PeerServer>, String> {
        let (address, read_at) = (Arc::clone(&self.address), Instant::now());
        let url = match spawn_blocking(move || address()).await {
            Ok(Ok(url)) => url,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("this server is stopping".to_owned()),
        };
        let url = url.ok_or_else(|| "no server has it yet".to_owned())?;
        let mut known = self.known.lock();
        let server = match &*known {
            Some(known) if known.server.name() == url => Arc::clone(&known.server),
            _ => self.http.server(&url, self.token.clone()),
        };
        // A reading that took longer does not replace a later one.
        if known.as_ref().is_none_or(|known| known.read_at < read_at) {
            let server = Arc::clone(&server);
            *known = Some(KnownServer { server, read_at });
        }
        Ok(server)
    }

    fn forget(&self, server: &Arc<PeerServer>) {
        let mut known = self.known.lock();
        let is_this = |known: &KnownServer| Arc::ptr_eq(&known.server, server);
        if known.as_ref().is_some_and(is_this) {
            *known = None;
        }
    }
}

#[cfg(test)]
mod tests;
