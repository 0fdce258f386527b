//! HTTP/2 over accepted connections: the handshake of TLS, the bounds of the protocol, and the end
//! of connections without calls.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tonic::body::Body;

use super::status;
use crate::failure::Class;
use crate::held::held;
use crate::listen::{Accepted, Beyond, Io, Peer, within_handshake};
use crate::serve::Stop;
use crate::tls::{Alpn, FIRST_BYTE};

/// Calls of a connection at once.
const CALLS_MAX: u32 = 64;
/// Bytes of the headers of a call, decompressed.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// Bytes of an answer that wait in the connection for their client.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Interval at which a silent client is asked for a sign of life, and the time that it has.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_WITHIN: Duration = Duration::from_secs(20);
/// A connection whose client has not made a call yet is closed after this time.
const FIRST_CALL_WITHIN: Duration = Duration::from_secs(30);
/// A connection without a call is closed after this time.
const IDLE_WITHIN: Duration = Duration::from_secs(3600);
/// Time that a connection has to end after it was told to.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time of a connection beyond a limit.
const SPARE_WITHIN: Duration = Duration::from_secs(2);

/// The calls of a listener.
pub(crate) trait Calls: Send + Sync + 'static {
    /// Answers a call.
    fn answer(
        &self,
        call: Request<Incoming>,
        peer: &Peer,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// A connection after its handshake.
pub(crate) struct Connection {
    socket: TokioIo<Box<dyn Io>>,
    peer: Peer,
    stop: Stop,
}

impl Connection {
    /// Makes the handshake of TLS, where there is one to make. Returns `None` when the client fails
    /// it or takes too long, or the server stops.
    pub(crate) async fn of(accepted: Accepted) -> Option<Self> {
        let stop = accepted.stop.clone();
        within_handshake(&stop, Self::made(accepted)).await?
    }

    async fn made(mut accepted: Accepted) -> Option<Self> {
        let stop = accepted.stop.clone();
        let mut peer = Peer {
            ends: accepted.ends()?,
            is_tls: accepted.tls.is_some(),
            user: None,
        };
        let socket: Box<dyn Io> = match accepted.tls.take() {
            None => Box::new(accepted.into_socket()),
            // A client without TLS could not read a refusal of HTTP/2 either: it is disconnected.
            Some(_) if accepted.first_byte().await? != FIRST_BYTE => return None,
            Some(tls) => match tls.accept(accepted.into_socket(), Alpn::Grpc).await {
                Ok((stream, user)) => {
                    peer.user = user;
                    Box::new(stream)
                }
                Err(error) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    return None;
                }
            },
        };
        Some(Self {
            socket: TokioIo::new(socket),
            peer,
            stop,
        })
    }

    /// Serves calls until the client leaves, makes none for too long, or the server stops.
    pub(crate) async fn serve(self, calls: &Arc<impl Calls>) {
        let open = Arc::new(OpenCalls::default());
        let (counted, peer) = (Arc::clone(&open), self.peer);
        let calls = Arc::clone(calls);
        let service = service_fn(move |request: Request<Incoming>| {
            let call = OpenCalls::begin(&counted);
            let (calls, peer) = (Arc::clone(&calls), peer.clone());
            async move {
                let response = calls.answer(request, &peer).await;
                Ok::<_, Infallible>(held(response, call).map(Body::new))
            }
        });
        let connection = builder().serve_connection(self.socket, service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => log_end(ended),
            () = open.idle() => {
                connection.as_mut().graceful_shutdown();
                let _ignored = tokio::time::timeout(END_WITHIN, connection).await;
            }
            () = self.stop.heard() => {
                connection.as_mut().graceful_shutdown();
                log_end(connection.await);
            }
        }
    }

    /// Refuses the calls of a connection beyond a limit of connections.
    pub(crate) async fn refuse(self, limit: Beyond, has_request: &Arc<AtomicBool>) {
        let (sent, has_request) = (Arc::clone(has_request), Arc::clone(has_request));
        let service = service_fn(move |_: Request<Incoming>| {
            sent.store(true, Ordering::Relaxed);
            let (_, message, hint) = limit.explained();
            // The one code that every client takes for a reason to try again.
            let refused = status::of_class(Class::Unavailable, message, Some(hint));
            std::future::ready(Ok::<Response<Body>, Infallible>(refused.into_http()))
        });
        let connection = builder().serve_connection(self.socket, service);
        let mut connection = std::pin::pin!(connection);
        let called = async {
            while !has_request.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::select! {
            _ = connection.as_mut() => true,
            _ = tokio::time::timeout(SPARE_WITHIN, called) => false,
        };
        if !ended {
            connection.as_mut().graceful_shutdown();
            let _ignored = tokio::time::timeout(END_WITHIN, connection).await;
        }
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(CALLS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .max_send_buf_size(UNSENT_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_WITHIN);
    http
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// The open calls of a connection.
#[derive(Debug)]
struct OpenCalls(Mutex<CallsNow>);

#[derive(Debug)]
struct CallsNow {
    open: usize,
    /// The time of the last change of their number.
    changed: Instant,
    has_had_one: bool,
}

impl Default for OpenCalls {
    fn default() -> Self {
        Self(Mutex::new(CallsNow {
            open: 0,
            changed: Instant::now(),
            has_had_one: false,
        }))
    }
}

impl OpenCalls {
    fn begin(this: &Arc<Self>) -> Call {
        let mut now = this.0.lock();
        now.open += 1;
        now.changed = Instant::now();
        now.has_had_one = true;
        Call(Arc::clone(this))
    }

    /// Returns the time for which there may still be no call; `None` when it is over.
    fn left(&self) -> Option<Duration> {
        let now = self.0.lock();
        let within = match now.has_had_one {
            true => IDLE_WITHIN,
            false => FIRST_CALL_WITHIN,
        };
        match now.open {
            0 => within.checked_sub(now.changed.elapsed()),
            _ => Some(within),
        }
    }

    /// Waits until there was no call for too long.
    async fn idle(&self) {
        while let Some(left) = self.left() {
            tokio::time::sleep(left + Duration::from_millis(1)).await;
        }
    }
}

/// A call, until its response has ended.
#[derive(Debug)]
struct Call(Arc<OpenCalls>);

impl Drop for Call {
    fn drop(&mut self) {
        let mut now = self.0.0.lock();
        now.open -= 1;
        now.changed = Instant::now();
    }
}
