//! Fair shares: the part of the machine that one client can take from the others.
//!
//! A client is an account. A request without one belongs to the client's address (of IPv6: the
//! /64).
//!
//! # Invariants
//! * A request counts once: for its account, or else for its address. An address also counts its
//!   connections, and each request that is refused before it gets an account or for want of a
//!   right. So an address that floods the server takes nothing from the accounts that are used
//!   there.
//! * A client has at most its share of each [`Resource`] and of the requests of a second. Beyond
//!   it, the client is refused, and nobody else is. A probe of a supervisor is not refused: too
//!   many of one address wait for their answers.
//! * A client runs and parses at most its share at once, and one of its bulk requests waits in the
//!   line of all. The rest of its work waits in lines of its own, so that another client's next
//!   request waits for no more than a share.
//! * The requests that a client sends as a peer have a line of their own: its queries may wait for
//!   another server whose queries wait for such requests.
//! * A connection counts until it ends, a request until its response has given its last byte to
//!   the connection or is dropped. A query, a body that is parsed and work on a thread count until
//!   nothing computes for them, even if their client has gone.
//! * A client with anything under way is not forgotten.
//! * An address of `server.proxies` has no share of connections and of probes: it stands for many
//!   clients.
//! * Clients of an open store have no shares: each is the store's administrator. Nor has a command
//!   that reads the store's directory. Its connection counts for its address all the same;
//!   [`Front::answer_beyond`](crate::server) answers it beyond that share, too.

mod exceeded;
mod parts;

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::Quota;
use parking_lot::Mutex;
use query::{Line, LinePlace};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::parsing::Length;
use crate::access::{Principal, network};
use crate::budgets::Budgets;
pub(crate) use exceeded::Exceeded;
pub(crate) use parts::Parts;

/// Clients without anything under way are forgotten when there are more than this, and then at
/// each doubling.
const SWEPT_AT: usize = 1024;
/// Probes a second that an address gets an answer to at once.
const PROBES_PER_SECOND: NonZeroU32 = NonZeroU32::new(200).expect("BUG: not zero");

/// The account, or the address, that a client uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ClientKey {
    Address(IpAddr),
    Account(String),
}

/// A resource of which a client has a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Connections,
    Requests,
    Tails,
    BodyBytes,
    UnacknowledgedBytes,
}

impl Resource {
    const COUNT: usize = 5;

    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests under way",
            Self::Tails => "tails",
            Self::BodyBytes => "bytes of bodies under way",
            Self::UnacknowledgedBytes => "bytes of bodies with w=0 that wait",
        }
    }
}

/// Resources that a client has taken.
#[derive(Debug)]
struct Taken {
    parts: Parts,
    counts: [AtomicU64; Resource::COUNT],
    queries: Line,
    /// The line of requests as a peer, apart from its queries: these may wait for another server
    /// whose queries wait for such requests here.
    peer_requests: Line,
    parsing_short: Arc<Semaphore>,
    parsing_long: Arc<Semaphore>,
    computing: Arc<Semaphore>,
    decoded_kib: Arc<Semaphore>,
    bulk: Arc<Semaphore>,
}

impl Taken {
    fn new(parts: Parts) -> Self {
        Self {
            parts,
            counts: Default::default(),
            queries: Line::new(parts.queries_running, parts.queries_waiting),
            peer_requests: Line::new(parts.queries_running, parts.queries_waiting),
            parsing_short: Arc::new(Semaphore::new(parts.parsing_short)),
            parsing_long: Arc::new(Semaphore::new(parts.parsing_long)),
            computing: Arc::new(Semaphore::new(parts.computing)),
            decoded_kib: Arc::new(Semaphore::new(parts.decoded_kib)),
            bulk: Arc::new(Semaphore::new(1)),
        }
    }

    fn take(self: &Arc<Self>, of: Resource, amount: u64) -> Result<Counted, Exceeded> {
        let held = Counted {
            taken: Arc::clone(self),
            of,
            amount: AtomicU64::new(0),
        };
        held.grow(amount)?;
        Ok(held)
    }

    async fn place(self: &Arc<Self>, places: &Arc<Semaphore>) -> ClientPlace {
        self.places(places, 1).await
    }

    async fn places(self: &Arc<Self>, places: &Arc<Semaphore>, count: usize) -> ClientPlace {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let permit = Arc::clone(places).acquire_many_owned(count).await;
        ClientPlace {
            _permit: permit.expect("BUG: the places are never closed"),
            _taken: Arc::clone(self),
        }
    }
}

/// An amount of a resource that counts in the share of a client until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    taken: Arc<Taken>,
    of: Resource,
    amount: AtomicU64,
}

impl Counted {
    /// Takes more of the resource.
    ///
    /// # Errors
    /// If that is beyond the share.
    pub(crate) fn grow(&self, more: u64) -> Result<(), Exceeded> {
        let most = self.most();
        let added = |now: u64| now.checked_add(more).filter(|sum| *sum <= most);
        self.count()
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, added)
            .map_err(|_| Exceeded::new(self.of.name(), most))?;
        self.amount.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Gives back some of the resource.
    pub(crate) fn shrink(&self, less: u64) {
        self.amount.fetch_sub(less, Ordering::Relaxed);
        self.count().fetch_sub(less, Ordering::Relaxed);
    }

    /// Checks that there is so much left.
    ///
    /// # Errors
    /// If it is not.
    fn check(&self, more: u64) -> Result<(), Exceeded> {
        let most = self.most();
        match more <= most.saturating_sub(self.count().load(Ordering::Relaxed)) {
            true => Ok(()),
            false => Err(Exceeded::new(self.of.name(), most)),
        }
    }

    fn most(&self) -> u64 {
        self.taken.parts.counted[self.of as usize]
    }

    fn count(&self) -> &AtomicU64 {
        &self.taken.counts[self.of as usize]
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let amount = *self.amount.get_mut();
        self.count().fetch_sub(amount, Ordering::Relaxed);
    }
}

/// A place of a client, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ClientPlace {
    _permit: OwnedSemaphorePermit,
    /// Another client's sweep must not make a new client of this one.
    _taken: Arc<Taken>,
}

/// The shares of all clients.
#[derive(Debug)]
pub(crate) struct Shares {
    parts: Parts,
    proxies: Vec<IpAddr>,
    clients: Mutex<Clients>,
    rates: Option<Budgets<ClientKey>>,
    probes: Budgets<IpAddr>,
}

#[derive(Debug)]
struct Clients {
    known: HashMap<ClientKey, Arc<Taken>>,
    swept_at: usize,
}

impl Shares {
    /// Creates the shares of a server.
    pub(crate) fn new(parts: Parts, proxies: &[IpAddr]) -> Self {
        Self {
            parts,
            proxies: proxies.iter().map(IpAddr::to_canonical).collect(),
            clients: Mutex::new(Clients {
                known: HashMap::new(),
                swept_at: SWEPT_AT,
            }),
            rates: parts.per_second.map(|n| Budgets::new(Quota::per_second(n))),
            probes: Budgets::new(Quota::per_second(PROBES_PER_SECOND)),
        }
    }

    fn client(&self, client: ClientKey) -> Arc<Taken> {
        let mut clients = self.clients.lock();
        if clients.known.len() > clients.swept_at {
            // The engine holds places in the line of queries, all others hold the client.
            let is_used = |taken: &Arc<Taken>| {
                let has_places = taken.queries.is_used() || taken.peer_requests.is_used();
                has_places || Arc::strong_count(taken) > 1
            };
            clients.known.retain(|_, taken| is_used(taken));
            clients.swept_at = SWEPT_AT.max(2 * clients.known.len());
        }
        let taken = clients
            .known
            .entry(client)
            .or_insert_with(|| Arc::new(Taken::new(self.parts)));
        Arc::clone(taken)
    }

    /// Begins a connection of an address; `None` for one without a share.
    ///
    /// # Errors
    /// If it is beyond the share.
    pub(crate) fn connection(&self, address: IpAddr) -> Result<Option<Counted>, Exceeded> {
        if self.is_proxy(address) {
            return Ok(None);
        }
        let client = self.client(ClientKey::Address(network(address)));
        client.take(Resource::Connections, 1).map(Some)
    }

    /// Begins a probe of an address. Returns false if there were too many in the last second.
    pub(crate) fn probe(&self, address: IpAddr) -> bool {
        self.is_proxy(address) || self.probes.spend(&network(address)).is_ok()
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.contains(&address.to_canonical())
    }

    /// Begins a request of a principal, or, without one, of an address.
    ///
    /// # Errors
    /// If it is beyond the share of requests under way, or of those in a second.
    pub(crate) fn request(
        &self,
        address: IpAddr,
        principal: Option<&Principal>,
    ) -> Result<Share, Exceeded> {
        let client = match principal {
            Some(who) if who.is_local() => return Ok(Share::default()),
            Some(who) => ClientKey::Account(who.name().to_owned()),
            None => ClientKey::Address(network(address)),
        };
        if let (Some(rates), Some(most)) = (&self.rates, self.parts.per_second) {
            rates.spend(&client).map_err(|wait| Exceeded {
                resource: "requests a second",
                most: most.get().into(),
                wait,
            })?;
        }
        let request = self.client(client).take(Resource::Requests, 1)?;
        Ok(Share(Some(request)))
    }
}

/// A request within the share of its client. The default has no limits.
#[derive(Debug, Default)]
pub(crate) struct Share(Option<Counted>);

impl Share {
    fn client(&self) -> Option<&Arc<Taken>> {
        self.0.as_ref().map(|request| &request.taken)
    }

    /// Takes an amount of a resource.
    ///
    /// # Errors
    /// If it is beyond the share.
    pub(crate) fn take(&self, of: Resource, amount: u64) -> Result<Option<Counted>, Exceeded> {
        let client = self.client();
        client.map(|client| client.take(of, amount)).transpose()
    }

    /// Begins a body, of which no byte has arrived yet.
    ///
    /// # Errors
    /// If the announced bytes are beyond the share.
    pub(crate) fn body(&self, announced: u64) -> Result<Option<Counted>, Exceeded> {
        let body = self.take(Resource::BodyBytes, 0)?;
        if let Some(body) = &body {
            body.check(announced)?;
        }
        Ok(body)
    }

    /// Returns the line of the client's queries.
    pub(crate) fn line(&self) -> Option<Line> {
        self.client().map(|client| client.queries.clone())
    }

    /// Returns the line of the client's requests as a peer.
    pub(crate) fn peer_line(&self) -> Option<Line> {
        self.client().map(|client| client.peer_requests.clone())
    }

    /// Waits for a place among the client's queries, for work of that kind outside of the engine.
    ///
    /// # Errors
    /// If too many of its queries wait.
    pub(crate) async fn work(&self) -> query::Result<Option<LinePlace>> {
        let Some(line) = self.line() else {
            return Ok(None);
        };
        let place = line.place().await;
        place.map(Some).map_err(query::Error::ShareBusy)
    }

    /// Returns the turns of the client's work outside of the engine.
    pub(crate) fn turns(&self) -> Option<Arc<Semaphore>> {
        self.client().map(|client| Arc::clone(&client.computing))
    }

    /// Waits until the client may decode a command of so many KiB, or of its whole share.
    pub(crate) async fn decode(&self, kib: usize) -> Option<ClientPlace> {
        let client = self.client()?;
        let kib = kib.min(client.parts.decoded_kib);
        Some(client.places(&client.decoded_kib, kib).await)
    }

    /// Waits until the client may parse one more body of a length.
    pub(super) async fn parse(&self, length: Length) -> Option<ClientPlace> {
        let client = self.client()?;
        let places = match length {
            Length::Short => &client.parsing_short,
            Length::Long => &client.parsing_long,
        };
        Some(client.place(places).await)
    }

    /// Waits until no other bulk request of the client waits in the line of all.
    pub(crate) async fn bulk(&self) -> Option<ClientPlace> {
        let client = self.client()?;
        Some(client.place(&client.bulk).await)
    }
}

#[cfg(test)]
mod tests;
