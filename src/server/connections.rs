//! The accept loop: it serves connections up to a limit, and some in excess for supervisors.
//!
//! # Invariants
//! * At most `connections_max` connections are served. A connection beyond them gets a response
//!   to one request to `/health`, `/ready` or `/metrics`, which a supervisor always needs, or of
//!   a command that reads the store's directory, and 503 to any other; then it is closed.
//! * One address has at most its share of the connections. Those beyond that are served like ones
//!   beyond `connections_max`, with 429 in the place of 503, and have at most half of the places
//!   of these. They do not keep others of their address out by silence: the oldest that has sent
//!   nothing is closed when another arrives.
//! * The loop notices the stop signal wherever it waits.
//! * A connection whose client reads nothing of a response for `server.answer_time_max` is closed,
//!   and its query ends.
//! * Connections take at most half of the descriptors of this process: the store and the queries
//!   need the other half.

mod socket;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::front::{Beyond, Front};
use super::login::Peer;
use crate::serve::{Counted, Exceeded, FINISH_WITHIN, Places, Serving, Stop};
use crate::tls::{FIRST_BYTE, HANDSHAKE_WITHIN, Tls};
use socket::Socket;

/// Maximum time for the headers of a request; a slower client is disconnected.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// The same for a connection beyond the limit.
const SPARE_HEADERS_WITHIN: Duration = Duration::from_secs(2);
/// A connection beyond `connections_max` that has sent no request for this time is closed when
/// another arrives.
const SPARE_WITHIN: Duration = Duration::from_millis(250);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Pause before the next accept when no descriptor is left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    front: Arc<Front>,
    stop: Stop,
    places: Places,
    free: Arc<Semaphore>,
    spare: VecDeque<Spare>,
    serving: Arc<Serving>,
    answer_time_max: Duration,
    open: Arc<AtomicUsize>,
    tls: Option<Arc<Tls>>,
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

impl Connections {
    /// Creates the accept loop; `open` counts the open connections.
    pub(super) fn new(front: Arc<Front>, serving: &Arc<Serving>, open: Arc<AtomicUsize>) -> Self {
        let places = serving.places;
        Self {
            front,
            stop: serving.stop.clone(),
            places,
            free: Arc::new(Semaphore::new(places.connections)),
            spare: VecDeque::new(),
            serving: Arc::clone(serving),
            answer_time_max: serving.config.server.answer_time_max.0,
            open,
            tls: None,
        }
    }

    /// Encrypts the connections.
    pub(super) fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// Accepts connections until the stop signal, then waits for the open ones.
    ///
    /// The loop replaces `axum::serve`, which installs no timer: a client that never finishes its
    /// headers would hold its connection for ever.
    pub(super) async fn accept(mut self, listener: &TcpListener) {
        let stop = self.stop.clone();
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
        let all = u32::try_from(self.places.connections).unwrap_or(u32::MAX);
        // Connections that do not end in time are cut off with the runtime.
        let _ignored = tokio::time::timeout(FINISH_WITHIN, self.free.acquire_many(all)).await;
    }

    /// Accepts the next connection, once there are fewer connections beyond the limit than
    /// allowed.
    async fn next(&mut self, listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
        loop {
            self.spare.retain(|spare| !spare.task.is_finished());
            if self.spare.len() < self.places.spare {
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
            || self.spare.iter().filter(of_addresses).count() < self.places.spare.div_ceil(2)
            || self.close_silent(|spare| spare.limit == Beyond::Address)
    }

    /// Returns the place of a connection in the share of its address. An open store has no shares.
    fn share(&self, address: SocketAddr) -> Result<Option<Counted>, Exceeded> {
        match self.serving.access.is_open() {
            true => Ok(None),
            false => self.serving.shares.connection(address.ip()),
        }
    }

    fn serve(&mut self, socket: TcpStream, address: SocketAddr) {
        // Without this, a small response waits for the acknowledgement of the previous packet.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let accepted = Accepted {
            socket,
            address,
            answer_time_max: self.answer_time_max,
            tls: self.tls.clone(),
        };
        let open = Open::one_more(&self.open);
        let (place, limit) = match self.share(address) {
            Err(_) => (None, Beyond::Address),
            Ok(share) => {
                let free = Arc::clone(&self.free).try_acquire_owned().ok();
                (free.map(|free| (free, share)), Beyond::All)
            }
        };
        match place {
            Some(place) => {
                tokio::spawn(serve(
                    Arc::clone(&self.front),
                    self.stop.clone(),
                    accepted,
                    place,
                    open,
                ));
            }
            None if !self.has_spare(limit) => {}
            None => {
                let has_request = Arc::<AtomicBool>::default();
                let front = Arc::clone(&self.front);
                let task = tokio::spawn(serve_spare(
                    front,
                    accepted,
                    Arc::clone(&has_request),
                    limit,
                    self.stop.clone(),
                    open,
                ));
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

fn builder(headers_within: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(headers_within)
        .max_headers(64);
    http
}

/// A connection before its handshake.
struct Accepted {
    socket: TcpStream,
    address: SocketAddr,
    answer_time_max: Duration,
    tls: Option<Arc<Tls>>,
}

/// A socket with or without TLS.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Accepted {
    /// Makes the handshake of TLS, where there is one to make. Returns `None` when the client
    /// fails it or takes too long, or the server stops.
    async fn handshake(self, stop: &Stop) -> Option<(TokioIo<Box<dyn Io>>, Peer)> {
        tokio::select! {
            made = tokio::time::timeout(HANDSHAKE_WITHIN, self.make_handshake()) => made.ok()?,
            () = stop.heard() => None,
        }
    }

    async fn make_handshake(self) -> Option<(TokioIo<Box<dyn Io>>, Peer)> {
        let mut peer = Peer {
            address: self.address,
            local: self.socket.local_addr().ok()?,
            is_tls: self.tls.is_some(),
            user: None,
        };
        let Some(tls) = self.tls else {
            let socket: Box<dyn Io> = Box::new(Socket::new(self.socket, self.answer_time_max));
            return Some((TokioIo::new(socket), peer));
        };
        let mut first = [0];
        if self.socket.peek(&mut first).await.ok()? == 0 {
            return None;
        }
        let mut socket = Socket::new(self.socket, self.answer_time_max);
        if first != [FIRST_BYTE] {
            let _ignored = socket.write_all(PLAIN_ON_TLS.as_bytes()).await;
            let _ignored = socket.shutdown().await;
            return None;
        }
        match tls.accept(socket).await {
            Ok((stream, user)) => {
                peer.user = user;
                let socket: Box<dyn Io> = Box::new(stream);
                Some((TokioIo::new(socket), peer))
            }
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
        }
    }
}

/// The answer to a request without TLS at a port with it.
const PLAIN_ON_TLS: &str = "HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\nConnection: close\r\nContent-Length: 51\r\n\r\n\
    this port speaks HTTPS: write https:// in the URL.\n";

async fn serve(
    front: Arc<Front>,
    stop: Stop,
    accepted: Accepted,
    _place: (OwnedSemaphorePermit, Option<Counted>),
    _open: Open,
) {
    let Some((socket, peer)) = accepted.handshake(&stop).await else {
        return;
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, request) = (Arc::clone(&front), of_peer(request, &peer));
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let connection = builder(HEADERS_WITHIN).serve_connection(socket, service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => log_end(ended),
        () = stop.heard() => {
            connection.as_mut().graceful_shutdown();
            log_end(connection.await);
        }
    }
}

/// Serves one request of a connection beyond a limit.
async fn serve_spare(
    front: Arc<Front>,
    accepted: Accepted,
    has_request: Arc<AtomicBool>,
    limit: Beyond,
    stop: Stop,
    _open: Open,
) {
    let Some((socket, peer)) = accepted.handshake(&stop).await else {
        return;
    };
    let service = service_fn(move |request: Request<Incoming>| {
        has_request.store(true, Ordering::Relaxed);
        let (front, request) = (Arc::clone(&front), of_peer(request, &peer));
        async move { Ok::<_, Infallible>(front.answer_beyond(request, limit).await) }
    });
    let mut http = builder(SPARE_HEADERS_WITHIN);
    log_end(
        http.keep_alive(false)
            .serve_connection(socket, service)
            .await,
    );
}

/// Notes the peer of the connection in a request.
fn of_peer(request: Request<Incoming>, peer: &Peer) -> Request<Body> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer.clone());
    request
}

fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
