//! The accept loop: it serves connections up to a limit, and some in excess for supervisors.
//!
//! # Invariants
//! * All listeners together serve at most `connections_max` connections. One beyond them is served
//!   by [`Protocol::serve_beyond`], and at most `places.spare` of these per listener.
//! * One address has at most its share of the connections. Those beyond that are served like ones
//!   beyond `connections_max`, and have at most half of the places of these. They do not keep
//!   others of their address out by silence: the oldest that has sent nothing is closed when
//!   another arrives.
//! * The loop notices the stop signal wherever it waits.
//! * Connections take at most half of the descriptors of this process: the store and the queries
//!   need the other half.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Accepted, Protocol};
use crate::failure::Class;
use crate::serve::{Counted, Exceeded, FINISH_WITHIN, Serving};

/// A connection beyond `connections_max` that has sent no request for this time is closed when
/// another arrives.
const SPARE_WITHIN: Duration = Duration::from_millis(250);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Pause before the next accept when no descriptor is left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A limit of connections that a connection exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// `server.connections_max`.
    All,
    /// The share of one address.
    Address,
}

impl Beyond {
    /// Returns the class of the refusal, its message and a hint.
    pub(crate) fn explained(self) -> (Class, &'static str, &'static str) {
        match self {
            Self::All => (
                Class::Overloaded,
                "the server has reached its limit of connections",
                "send it again shortly, or raise server.connections_max",
            ),
            Self::Address => (
                Class::TooMany,
                "this address has reached its share of connections",
                "close some, raise server.connections_max or server.client_share, or list the address in server.proxies if many clients use it",
            ),
        }
    }
}

/// The accept loop of one listener.
pub(super) struct Accept<P> {
    protocol: Arc<P>,
    serving: Arc<Serving>,
    spare: VecDeque<Spare>,
}

/// A connection beyond a limit.
#[derive(Debug)]
struct Spare {
    limit: Beyond,
    began: Instant,
    /// The connection has sent its request.
    has_request: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl<P: Protocol> Accept<P> {
    pub(super) fn new(protocol: Arc<P>, serving: &Arc<Serving>) -> Self {
        Self {
            protocol,
            serving: Arc::clone(serving),
            spare: VecDeque::new(),
        }
    }

    /// Accepts connections until the stop signal, then waits for the open ones.
    pub(super) async fn run(mut self, listener: &TcpListener) {
        let stop = self.serving.stop.clone();
        loop {
            let accepted = tokio::select! {
                () = stop.heard() => break,
                accepted = self.next(listener) => accepted,
            };
            match accepted {
                Ok((socket, address)) => self.serve(socket, address),
                Err(error) => {
                    // Mostly a lack of file descriptors: other connections may close some.
                    tracing::warn!(%error, "could not accept a connection; trying again");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            }
        }
        for spare in &self.spare {
            spare.task.abort();
        }
        let all = u32::try_from(self.serving.places.connections).unwrap_or(u32::MAX);
        let free = &self.serving.connections.free;
        // Connections that do not end in time are cut off with the runtime.
        let _ignored = tokio::time::timeout(FINISH_WITHIN, free.acquire_many(all)).await;
    }

    /// Accepts the next connection, once there are fewer connections beyond the limit than
    /// allowed.
    async fn next(&mut self, listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
        loop {
            self.spare.retain(|spare| !spare.task.is_finished());
            if self.spare.len() < self.serving.places.spare {
                break;
            }
            let is_closed = self.close_silent(|spare| spare.limit == Beyond::Address)
                || self.close_silent(|spare| spare.began.elapsed() >= SPARE_WITHIN);
            if !is_closed {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        }
        listener.accept().await
    }

    /// Closes the oldest of these spare connections that has sent no request, if there is one.
    fn close_silent(&mut self, may_close: impl Fn(&Spare) -> bool) -> bool {
        let is_silent = |spare: &Spare| !spare.has_request.load(Ordering::Relaxed);
        let mut spares = self.spare.iter();
        let oldest = spares.position(|spare| is_silent(spare) && may_close(spare));
        let closed = oldest.and_then(|at| self.spare.remove(at));
        closed.inspect(|spare| spare.task.abort()).is_some()
    }

    /// Returns whether there is a place for a connection beyond a limit. Half of the places are
    /// for the supervisors of addresses within their shares.
    fn has_spare(&mut self, limit: Beyond) -> bool {
        self.spare.retain(|spare| !spare.task.is_finished());
        let of_addresses = |spare: &&Spare| spare.limit == Beyond::Address;
        limit == Beyond::All
            || self.spare.iter().filter(of_addresses).count()
                < self.serving.places.spare.div_ceil(2)
            || self.close_silent(|spare| spare.limit == Beyond::Address)
    }

    /// Returns the place of a connection in the share of its address. An open store has no shares.
    fn share(&self, address: SocketAddr) -> Result<Option<Counted>, Exceeded> {
        match self.serving.access.is_open() {
            true => Ok(None),
            false => self.serving.shares.connection(address.ip()),
        }
    }

    fn serve(&mut self, socket: TcpStream, client: SocketAddr) {
        // Without this, a small response waits for the acknowledgement of the previous packet.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let accepted = Accepted {
            socket,
            client,
            answer_time_max: self.serving.config.server.answer_time_max.0,
            tls: self.serving.tls.clone(),
            stop: self.serving.stop.clone(),
        };
        let connections = &self.serving.connections;
        let open = Open::one_more(&connections.open);
        let (place, limit) = match self.share(client) {
            Err(_) => (None, Beyond::Address),
            Ok(share) => {
                let free = Arc::clone(&connections.free).try_acquire_owned().ok();
                (free.map(|free| (free, share)), Beyond::All)
            }
        };
        let protocol = Arc::clone(&self.protocol);
        match place {
            Some(place) => {
                tokio::spawn(async move {
                    let _held = (place, open);
                    protocol.serve(accepted).await;
                });
            }
            None if !self.has_spare(limit) => {}
            None => {
                let has_request = Arc::<AtomicBool>::default();
                let sent = Arc::clone(&has_request);
                let task = tokio::spawn(async move {
                    let _held = open;
                    protocol.serve_beyond(accepted, limit, sent).await;
                });
                self.spare.push_back(Spare {
                    limit,
                    began: Instant::now(),
                    has_request,
                    task,
                });
            }
        }
    }
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
struct Open(Arc<AtomicUsize>);

impl Open {
    fn one_more(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
