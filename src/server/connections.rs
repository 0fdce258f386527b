//! The accept loop: it serves connections up to a limit, and some in excess for supervisors.
//!
//! # Invariants
//! * At most `connections_max` connections are served. A connection beyond them gets responses
//!   from `/health`, `/ready` and `/metrics`, which a supervisor always needs, and 503 from all
//!   other routes; then it is closed.
//! * The loop notices the stop signal wherever it waits.
//! * A connection whose client reads nothing of a response for `server.answer_time_max` is closed,
//!   and its query ends.
//! * Connections take at most half of the descriptors of this process: the store and the queries
//!   need the other half.

mod socket;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::front::Front;
use super::places::Places;
use crate::serve::{FINISH_WITHIN, Stop};
use socket::Socket;

/// Maximum time for the headers of a request; a slower client is disconnected.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// The same for a connection beyond the limit.
const SPARE_HEADERS_WITHIN: Duration = Duration::from_secs(2);
/// A connection beyond the limit that has sent no request for this time is closed when another
/// arrives.
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
    answer_time_max: Duration,
    open: Arc<AtomicUsize>,
}

/// A connection beyond `connections_max`.
#[derive(Debug)]
struct Spare {
    began: Instant,
    /// The connection has sent its request.
    has_request: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Connections {
    /// Creates the accept loop; `open` counts the open connections.
    pub(super) fn new(
        front: Arc<Front>,
        stop: Stop,
        places: Places,
        answer_time_max: Duration,
        open: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            front,
            stop,
            places,
            free: Arc::new(Semaphore::new(places.connections)),
            spare: VecDeque::new(),
            answer_time_max,
            open,
        }
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
                Ok(socket) => self.serve(socket),
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
    async fn next(&mut self, listener: &TcpListener) -> std::io::Result<TcpStream> {
        loop {
            self.spare.retain(|spare| !spare.task.is_finished());
            if self.spare.len() < self.places.spare {
                break;
            }
            let silent = self.spare.iter().position(|spare| {
                !spare.has_request.load(Ordering::Relaxed) && spare.began.elapsed() >= SPARE_WITHIN
            });
            match silent.and_then(|at| self.spare.remove(at)) {
                Some(spare) => spare.task.abort(),
                None => tokio::time::sleep(CHECK_INTERVAL).await,
            }
        }
        Ok(listener.accept().await?.0)
    }

    fn serve(&mut self, socket: TcpStream) {
        // Without this, a small response waits for the acknowledgement of the previous packet.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let socket = TokioIo::new(Socket::new(socket, self.answer_time_max));
        let open = Open::one_more(&self.open);
        match Arc::clone(&self.free).try_acquire_owned() {
            Ok(place) => {
                tokio::spawn(serve(
                    Arc::clone(&self.front),
                    self.stop.clone(),
                    socket,
                    place,
                    open,
                ));
            }
            Err(_) => {
                let has_request = Arc::<AtomicBool>::default();
                let front = Arc::clone(&self.front);
                let task = tokio::spawn(serve_spare(front, socket, Arc::clone(&has_request), open));
                self.spare.push_back(Spare {
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

async fn serve(
    front: Arc<Front>,
    stop: Stop,
    socket: TokioIo<Socket<TcpStream>>,
    _place: OwnedSemaphorePermit,
    _open: Open,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let front = Arc::clone(&front);
        async move { Ok::<_, Infallible>(front.answer(request.map(Body::new)).await) }
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

/// Serves one request of a connection beyond `connections_max`.
async fn serve_spare(
    front: Arc<Front>,
    socket: TokioIo<Socket<TcpStream>>,
    has_request: Arc<AtomicBool>,
    _open: Open,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        has_request.store(true, Ordering::Relaxed);
        let front = Arc::clone(&front);
        async move { Ok::<_, Infallible>(front.answer_beyond(request.map(Body::new)).await) }
    });
    let mut http = builder(SPARE_HEADERS_WITHIN);
    log_end(
        http.keep_alive(false)
            .serve_connection(socket, service)
            .await,
    );
}

fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

#[cfg(test)]
mod tests;
