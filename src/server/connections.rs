//! HTTP over accepted connections.
//!
//! # Invariants
//! * A connection beyond a limit gets a response to one request to `/health`, `/ready` or
//!   `/metrics`, which a supervisor always needs, or of a command that reads the store's
//!   directory, and 503 or 429 to any other; then it is closed.
//! * A connection counts, and a server that stops waits for it, until it is closed: as a WebSocket
//!   too ([`StillOpen`]).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::front::Front;
use crate::listen::{Accepted, Beyond, Io, Peer, Protocol, within_handshake};
use crate::tls::{Alpn, FIRST_BYTE};

/// Maximum time for the headers of a request; a slower client is disconnected.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// The same for a connection beyond the limit.
const SPARE_HEADERS_WITHIN: Duration = Duration::from_secs(2);
/// The answer to a request without TLS at a port with it.
const PLAIN_ON_TLS: &str = "HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\nConnection: close\r\nContent-Length: 51\r\n\r\n\
    this port speaks HTTPS: write https:// in the URL.\n";

/// Keeps the place of its connection among those of the listener while it is held, after the last
/// request too.
#[derive(Debug, Clone)]
pub(super) struct StillOpen {
    _until: mpsc::Sender<Infallible>,
}

/// HTTP as a protocol of a listener. It replaces `axum::serve`, which installs no timer: a client
/// that never finishes its headers would hold its connection for ever.
#[derive(Debug)]
pub(super) struct Http {
    front: Front,
}

impl Http {
    pub(super) fn new(front: Front) -> Self {
        Self { front }
    }
}

impl Protocol for Http {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let stop = accepted.stop.clone();
        let Some((socket, peer)) = handshake(accepted).await else {
            return;
        };
        let (open, mut closed) = mpsc::channel(1);
        let open = StillOpen { _until: open };
        let service = service_fn(move |request: Request<Incoming>| {
            let (this, mut request) = (Arc::clone(&self), of_peer(request, &peer));
            request.extensions_mut().insert(open.clone());
            async move { Ok::<_, Infallible>(this.front.answer(request).await) }
        });
        let connection = builder(HEADERS_WITHIN).serve_connection(socket, service);
        let mut connection = Box::pin(connection.with_upgrades());
        tokio::select! {
            ended = connection.as_mut() => log_end(ended),
            () = stop.heard() => {
                connection.as_mut().graceful_shutdown();
                log_end(connection.as_mut().await);
            }
        }
        drop(connection);
        // A live tail goes on as a WebSocket, in a task of its own.
        let _closed = closed.recv().await;
    }

    async fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        has_request: Arc<AtomicBool>,
    ) {
        let Some((socket, peer)) = handshake(accepted).await else {
            return;
        };
        let service = service_fn(move |request: Request<Incoming>| {
            has_request.store(true, Ordering::Relaxed);
            let (this, request) = (Arc::clone(&self), of_peer(request, &peer));
            async move { Ok::<_, Infallible>(this.front.answer_beyond(request, limit).await) }
        });
        let mut http = builder(SPARE_HEADERS_WITHIN);
        log_end(
            http.keep_alive(false)
                .serve_connection(socket, service)
                .await,
        );
    }
}

fn builder(headers_within: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(headers_within)
        .max_headers(64);
    http
}

/// Makes the handshake of TLS, where there is one to make. Returns `None` when the client fails it
/// or takes too long, or the server stops.
async fn handshake(accepted: Accepted) -> Option<(TokioIo<Box<dyn Io>>, Peer)> {
    let stop = accepted.stop.clone();
    within_handshake(&stop, make_handshake(accepted)).await?
}

async fn make_handshake(mut accepted: Accepted) -> Option<(TokioIo<Box<dyn Io>>, Peer)> {
    let ends = accepted.ends()?;
    let tls = accepted.tls.take();
    let mut peer = Peer {
        ends,
        is_tls: tls.is_some(),
        user: None,
    };
    let Some(tls) = tls else {
        let socket: Box<dyn Io> = Box::new(accepted.into_socket());
        return Some((TokioIo::new(socket), peer));
    };
    let first = accepted.first_byte().await?;
    let mut socket = accepted.into_socket();
    if first != FIRST_BYTE {
        let _ignored = socket.write_all(PLAIN_ON_TLS.as_bytes()).await;
        let _ignored = socket.shutdown().await;
        return None;
    }
    match tls.accept(socket, Alpn::Http).await {
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
