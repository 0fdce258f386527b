//! Fair shares: the part of the machine that one client can take from the others.
//!
//! A client counts twice: as its address, and as its account.
//!
//! # Invariants
//! * A client has at most its share of the connections, of the requests and queries under way and
//!   of the bytes of bodies; beyond it, it is refused, and nobody else is.
//! * A client runs and parses at most its share at once. The rest of its work waits in a line of
//!   its own, so that another client's next request waits for no more than a share.
//! * A share ends with the response, at the latest when its connection breaks.
//! * Clients of an open store have no shares: each is the store's administrator. Nor has a command
//!   that reads the store's directory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::{Principal, network};
use crate::config::Config;

/// Clients are swept when there are more than this.
const SWEPT_AT: usize = 1024;
/// Time after which a refused client may try again, where the limit is no rate.
const AGAIN: Duration = Duration::from_secs(1);

/// A client as the one address, or the one account, that it uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Client {
    Address(IpAddr),
    Account(String),
}

/// The part of each resource that one client can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    connections: u64,
    requests: u64,
    queries: u64,
    queries_running: usize,
    parsing: usize,
    bytes: u64,
    per_second: Option<NonZeroU32>,
}

impl Parts {
    /// Returns the parts that the configuration gives.
    pub(crate) fn of(config: &Config, parsing_max: usize) -> Self {
        let (server, query) = (&config.server, &config.query);
        let part = |all: u64| ((all as f64 * server.client_share).ceil() as u64).max(1);
        let count = |all: usize| usize::try_from(part(all as u64)).unwrap_or(usize::MAX);
        Self {
            connections: part(server.connections_max as u64),
            requests: part(server.connections_max as u64),
            queries: part((query.running_max + query.queued_max) as u64),
            queries_running: count(query.running_max),
            parsing: count(parsing_max),
            // A client can always send one body.
            bytes: part(server.bodies_bytes_max.0).max(server.batch_bytes_max.0),
            per_second: NonZeroU32::new(server.client_requests_per_second),
        }
    }
}

/// Resources that a client has taken.
#[derive(Debug)]
struct Taken {
    connections: AtomicU64,
    requests: AtomicU64,
    queries: AtomicU64,
    bytes: AtomicU64,
    running: Arc<Semaphore>,
    parsing: Arc<Semaphore>,
}

impl Taken {
    fn new(parts: &Parts) -> Self {
        Self {
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            running: Arc::new(Semaphore::new(parts.queries_running)),
            parsing: Arc::new(Semaphore::new(parts.parsing)),
        }
    }
}

/// A limit that a client has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// The limited resource.
    pub(crate) resource: &'static str,
    pub(crate) most: u64,
    /// Time after which the client may try again.
    pub(crate) wait: Duration,
}

impl Exceeded {
    fn new(resource: &'static str, most: u64) -> Self {
        Self {
            resource,
            most,
            wait: AGAIN,
        }
    }

    /// Returns the message for the client.
    pub(crate) fn message(&self) -> String {
        format!(
            "this address or account has reached its share of {} {}",
            self.most, self.resource
        )
    }
}

/// The shares of all clients.
#[derive(Debug)]
pub(crate) struct Shares {
    parts: Parts,
    clients: Mutex<HashMap<Client, Arc<Taken>>>,
    rates: Option<RateLimiter<Client, HashMapStateStore<Client>, DefaultClock>>,
}

impl Shares {
    /// Creates the shares of a server.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            parts,
            clients: Mutex::default(),
            rates: parts
                .per_second
                .map(|n| RateLimiter::hashmap(Quota::per_second(n))),
        }
    }

    fn client(&self, client: Client) -> Arc<Taken> {
        let mut clients = self.clients.lock();
        if clients.len() > SWEPT_AT {
            // Only the map holds a client that has nothing under way.
            clients.retain(|_, taken| Arc::strong_count(taken) > 1);
        }
        let taken = clients
            .entry(client)
            .or_insert_with(|| Arc::new(Taken::new(&self.parts)));
        Arc::clone(taken)
    }

    /// Begins a connection of an address; `None` beyond its share.
    pub(crate) fn connection(&self, address: IpAddr) -> Option<Connection> {
        let taken = self.client(Client::Address(network(address)));
        let most = self.parts.connections;
        take(&taken.connections, 1, most).then(|| Connection(taken))
    }

    /// Begins a request of an address, and of an account where the client has logged in.
    ///
    /// # Errors
    /// If it is beyond the share of requests under way, or of those in a second.
    pub(crate) fn request(
        &self,
        address: IpAddr,
        principal: Option<&Principal>,
    ) -> Result<Share, Exceeded> {
        if principal.is_some_and(Principal::is_local) {
            return Ok(Share::default());
        }
        let mut share = Share {
            parts: Some(self.parts),
            clients: Vec::with_capacity(2),
        };
        let account = principal.map(|who| Client::Account(who.name().to_owned()));
        for client in [Some(Client::Address(network(address))), account] {
            let Some(client) = client else { continue };
            self.check_rate(&client)?;
            let taken = self.client(client);
            if !take(&taken.requests, 1, self.parts.requests) {
                return Err(Exceeded::new("requests under way", self.parts.requests));
            }
            share.clients.push(ClientPart {
                taken,
                bytes: AtomicU64::new(0),
            });
        }
        Ok(share)
    }

    fn check_rate(&self, client: &Client) -> Result<(), Exceeded> {
        let (Some(rates), Some(most)) = (&self.rates, self.parts.per_second) else {
            return Ok(());
        };
        let checked = rates.check_key(client).map_err(|until| Exceeded {
            resource: "requests a second",
            most: u64::from(most.get()),
            wait: until.wait_time_from(DefaultClock::default().now()),
        });
        if rates.len() > SWEPT_AT {
            rates.retain_recent();
        }
        checked
    }
}

/// Adds to a counter unless that would exceed the limit.
fn take(counter: &AtomicU64, more: u64, most: u64) -> bool {
    let added = |now: u64| now.checked_add(more).filter(|sum| *sum <= most);
    counter
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, added)
        .is_ok()
}

/// A connection within the share of its address.
#[derive(Debug)]
pub(crate) struct Connection(Arc<Taken>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request within the shares of its client. The default has no limits.
#[derive(Debug, Default)]
pub(crate) struct Share {
    parts: Option<Parts>,
    clients: Vec<ClientPart>,
}

#[derive(Debug)]
struct ClientPart {
    taken: Arc<Taken>,
    /// Bytes of the request's body.
    bytes: AtomicU64,
}

impl Drop for ClientPart {
    fn drop(&mut self) {
        self.taken.requests.fetch_sub(1, Ordering::Relaxed);
        let bytes = *self.bytes.get_mut();
        self.taken.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Share {
    /// Takes bytes for the body.
    ///
    /// # Errors
    /// If they are beyond the share of the bytes of all bodies.
    pub(crate) fn take_bytes(&self, more: u64) -> Result<(), Exceeded> {
        let Some(parts) = &self.parts else {
            return Ok(());
        };
        for client in &self.clients {
            if !take(&client.taken.bytes, more, parts.bytes) {
                return Err(Exceeded::new("bytes of bodies under way", parts.bytes));
            }
            client.bytes.fetch_add(more, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the client may run one more query.
    ///
    /// # Errors
    /// If too many of its queries run or wait.
    pub(crate) async fn query(&self) -> Result<Query, Exceeded> {
        let mut query = Query::default();
        let Some(parts) = &self.parts else {
            return Ok(query);
        };
        for client in &self.clients {
            if !take(&client.taken.queries, 1, parts.queries) {
                return Err(Exceeded::new("queries under way", parts.queries));
            }
            query.under_way.push(UnderWay(Arc::clone(&client.taken)));
        }
        // Addresses before accounts, so that no two requests wait for each other.
        for client in &self.clients {
            query.running.extend(place(&client.taken.running).await);
        }
        Ok(query)
    }

    /// Waits until the client may parse one more body.
    pub(crate) async fn parse(&self) -> Vec<OwnedSemaphorePermit> {
        let mut places = Vec::new();
        for client in &self.clients {
            places.extend(place(&client.taken.parsing).await);
        }
        places
    }
}

async fn place(places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // The semaphore is never closed.
    Arc::clone(places).acquire_owned().await.ok()
}

/// A running query within the shares of its client.
#[derive(Debug, Default)]
pub(crate) struct Query {
    under_way: Vec<UnderWay>,
    running: Vec<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct UnderWay(Arc<Taken>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.queries.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
