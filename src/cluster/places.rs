//! Where peers are: at a URL of the configuration, or where the object store says that the server
//! of a shard is.
//!
//! # Invariant
//! A question reads a shard from the server that had committed last at most [`FRESH_FOR`] before
//! the question, or [`KNOWN_FOR`] while the object store does not answer. A server that was
//! superseded reads its successor's fence in the journal and stops; one that cannot read the
//! journal would answer without the events that its successor has acknowledged.
//!
//! While a shard is without a server, questions and batches wait for the next one, up to
//! [`MOVED_WITHIN`] after it was missed first. Later ones fail at once: no node takes it over.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::SecretString;
use storage::{Depot, writer_address};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout, timeout_at};

use super::calls::{NoAnswer, PeerHttp, PeerServer};
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

/// Time in which a shard is moved to another node.
pub(super) const MOVED_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two looks for its server.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

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

    /// Returns the server that the object store names now.
    ///
    /// # Errors
    /// A clause, if it names none.
    pub(super) async fn present_server(&self) -> Result<Arc<PeerServer>, String> {
        match self {
            Self::At(server) => Ok(Arc::clone(server)),
            Self::Shard(place) => {
                let late = |_| Err("the object store does not tell its server".to_owned());
                timeout(FIRST_WITHIN, place.read())
                    .await
                    .unwrap_or_else(late)
            }
        }
    }

    /// Asks the server for its present state.
    ///
    /// # Errors
    /// A clause, if there is no server, or it does not tell its state in time.
    pub(super) async fn state(&self) -> Result<PeerState, String> {
        let told = self.try_state().await;
        self.note_of(&told);
        told.map_err(NoAnswer::why)
    }

    async fn try_state(&self) -> Result<PeerState, NoAnswer> {
        let server = self.fresh_server().await.map_err(NoAnswer::Gone)?;
        let failure = match server.state().await {
            Ok(state) => return Ok(state),
            Err(failure) => failure,
        };
        self.forget(&server);
        // The shard may have been moved a moment ago.
        match self {
            Self::At(_) => Err(failure),
            Self::Shard(_) => match self.fresh_server().await {
                Ok(next) if next.name() != server.name() => next.state().await,
                _ => Err(failure.at(server.name())),
            },
        }
    }

    /// Notes whether the server has answered. One that refuses is there.
    pub(super) fn note_of<T>(&self, answer: &Result<T, NoAnswer>) {
        self.note(!matches!(answer, Err(NoAnswer::Gone(_))));
    }

    /// Notes whether the server has answered.
    pub(super) fn note(&self, is_there: bool) {
        if let Self::Shard(place) = self {
            let mut missed_since = place.missed_since.lock();
            match is_there {
                true => *missed_since = None,
                false => drop(missed_since.get_or_insert_with(Instant::now)),
            }
        }
    }

    /// Returns the time up to which the server of a shard is waited for; `None` if it answers, and
    /// for peers that stay where they are.
    fn awaited_until(&self) -> Option<Instant> {
        match self {
            Self::At(_) => None,
            Self::Shard(place) => {
                let missed_since = *place.missed_since.lock();
                missed_since.map(|since| since + MOVED_WITHIN)
            }
        }
    }

    /// Returns whether the server of a shard is missed, and may be on its way to another node.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited_until()
            .is_some_and(|until| until > Instant::now())
    }

    /// Waits until the server of a shard lives again, or until nobody waits for it any more.
    pub(super) async fn wait_for_server(&self) {
        let (Self::Shard(place), Some(until)) = (self, self.awaited_until()) else {
            return;
        };
        let looked = async {
            // One client looks for all that wait.
            let _looking = place.looking.lock().await;
            while self.awaited_until().is_some() && !place.is_alive().await {
                sleep(LOOK_AGAIN).await;
            }
        };
        let _in_time = timeout_at(until.into(), looked).await;
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
    /// `None` while it has a server that answers.
    missed_since: Mutex<Option<Instant>>,
    /// The client that holds it looks for the server.
    looking: tokio::sync::Mutex<()>,
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
            missed_since: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
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

    async fn is_alive(&self) -> bool {
        match self.server(Some(LOOK_AGAIN)).await {
            Ok(server) => server.check_alive().await.is_ok(),
            Err(_) => false,
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
pub(super) mod tests;
