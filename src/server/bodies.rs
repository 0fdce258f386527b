//! Limits on request bodies: a minimum pace, a maximum time, and a maximum size of all together.
//!
//! # Invariants
//! * A body arrives at `server.body_pace_min` or faster, measured over the time since its
//!   beginning less [`GRACE`], and ends within `server.body_time_max`; otherwise its request fails
//!   with 408.
//! * The bodies of all requests under way have at most `server.bodies_bytes_max` bytes together: a
//!   body beyond that fails with 503 and `Retry-After`. Bytes count until their request is
//!   answered.
//! * A body that its handler stores in pieces ([`BodyPieces`]) may be of any length and take any
//!   time, as long as some bytes come every [`PIECE_WITHIN`]; its bytes count until they are
//!   stored.
//! * The client gets the reason of the failure, not its consequence. A reader of the body only
//!   sees an error and builds some response; [`Watch::refusal`] returns the response to send
//!   instead.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::answer;
use crate::{config, serve};

/// Time for which a sender may be silent before its pace counts: a pipe begins slowly, and a
/// client that sends `Expect: 100-continue` waits.
const GRACE: Duration = Duration::from_secs(10);

/// Time for the next bytes of a body that is stored in pieces.
const PIECE_WITHIN: Duration = Duration::from_secs(60);

/// Limits of bodies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum time of one body, from its first poll to its end.
    time_max: Duration,
    /// Minimum pace, bytes a second.
    pace_min: u64,
    grace: Duration,
    /// Maximum bytes of one body. The reader of the body refuses a longer one, and drops its bytes
    /// as they arrive.
    body_bytes_max: u64,
    /// Maximum bytes of all bodies together.
    bytes_max: u64,
}

impl Limits {
    pub(super) fn of(server: &config::Server) -> Self {
        Self {
            time_max: server.body_time_max.0,
            pace_min: server.body_pace_min.0.max(1),
            grace: GRACE,
            body_bytes_max: server.batch_bytes_max.0,
            bytes_max: server.bodies_bytes_max.0,
        }
    }
}

/// All bodies under way.
#[derive(Debug)]
pub(super) struct Bodies {
    limits: Limits,
    held: Arc<AtomicU64>,
}

impl Bodies {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            held: Arc::default(),
        }
    }

    /// Returns the bytes of all bodies under way.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Watches a body. Its bytes count until the watch is dropped, and in the share of its client.
    pub(super) fn watch(&self, body: Body, client: &serve::Share) -> (Body, Watch) {
        let announced = body.size_hint().lower().min(self.limits.body_bytes_max);
        let (of_client, refusal) = match client.body(announced) {
            Err(exceeded) => (None, Some(Refusal::Share(exceeded))),
            Ok(of_client) if announced > self.limits.bytes_max.saturating_sub(self.held()) => {
                (of_client, Some(self.limits.too_many_bytes()))
            }
            Ok(of_client) => (of_client, None),
        };
        let share = Arc::new(BodyShare {
            of_client,
            held: AtomicU64::new(0),
            all: Arc::clone(&self.held),
            is_in_pieces: AtomicBool::new(false),
            refusal: Mutex::new(refusal),
        });
        let now = Instant::now();
        let watched = Watched {
            inner: body,
            share: Arc::clone(&share),
            limits: self.limits,
            began: now,
            received: 0,
            waits_since: None,
            due: Box::pin(tokio::time::sleep_until(now)),
            ended: false,
        };
        (Body::new(watched), Watch(share))
    }
}

/// Share of one request in the bytes of all.
#[derive(Debug)]
struct BodyShare {
    of_client: Option<serve::Counted>,
    held: AtomicU64,
    all: Arc<AtomicU64>,
    is_in_pieces: AtomicBool,
    refusal: Mutex<Option<Refusal>>,
}

impl BodyShare {
    fn take(&self, bytes: u64, limits: &Limits) -> Result<(), Refusal> {
        // Bytes beyond the limit of one body do not count: its reader drops them as they arrive.
        let room = limits.body_bytes_max - self.held.load(Ordering::Relaxed);
        let bytes = bytes.min(room);
        let taken = self
            .all
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
                all.checked_add(bytes)
                    .filter(|all| *all <= limits.bytes_max)
            });
        taken.map_err(|_| limits.too_many_bytes())?;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let of_client = self.of_client.as_ref();
        let taken = of_client.map_or(Ok(()), |held| held.grow(bytes));
        taken.map_err(Refusal::Share)
    }
}

impl BodyShare {
    fn give_back(&self, bytes: u64) {
        let bytes = bytes.min(self.held.load(Ordering::Relaxed));
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(held) = &self.of_client {
            held.shrink(bytes);
        }
    }
}

/// The body of a request as its handler may take it: in pieces that are stored while more comes.
#[derive(Debug, Clone)]
pub(super) struct BodyPieces(Arc<BodyShare>);

impl BodyPieces {
    /// Begins: from now on the body has no limit of its length or its time as a whole.
    pub(super) fn begin(&self) {
        self.0.is_in_pieces.store(true, Ordering::Relaxed);
    }

    /// Notes that so many bytes are stored, and held no more.
    pub(super) fn stored(&self, bytes: usize) {
        self.0.give_back(bytes as u64);
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        self.all.fetch_sub(held, Ordering::Relaxed);
    }
}

/// The reason why a body failed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// The client has reached its share of bytes.
    Share(serve::Exceeded),
    Body(BadBody),
}

impl Refusal {
    fn message(&self) -> String {
        match self {
            Self::Share(exceeded) => exceeded.message(),
            Self::Body(bad) => bad.message.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct BadBody {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<&'static str>,
}

impl Limits {
    fn too_many_bytes(&self) -> Refusal {
        Refusal::Body(BadBody {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "overloaded",
            message: format!(
                "the bodies of all requests under way have reached the limit of {} bytes",
                self.bytes_max
            ),
            hint: Some("send it again shortly, or raise server.bodies_bytes_max"),
        })
    }

    fn too_slow(&self, took: Duration) -> Refusal {
        let message = match took >= self.time_max {
            true => format!(
                "the body did not end within {}",
                humantime::format_duration(self.time_max)
            ),
            false => format!(
                "the body arrived more slowly than {} bytes a second",
                self.pace_min
            ),
        };
        Refusal::Body(BadBody {
            status: StatusCode::REQUEST_TIMEOUT,
            code: "too_slow",
            message,
            hint: Some(
                "send smaller batches, or set server.body_time_max and server.body_pace_min",
            ),
        })
    }

    /// Returns the time at which a body with so many received bytes becomes too slow.
    fn due(&self, began: Instant, received: u64) -> Instant {
        let paced = Duration::from_secs_f64(received as f64 / self.pace_min as f64);
        began + self.time_max.min(self.grace.saturating_add(paced))
    }
}

fn silent() -> Refusal {
    Refusal::Body(BadBody {
        status: StatusCode::REQUEST_TIMEOUT,
        code: "too_slow",
        message: format!("no byte of the body came for {} s", PIECE_WITHIN.as_secs()),
        hint: Some("send it again: what was stored before is recognised"),
    })
}

/// Outcome of a body, and its share of the bytes of all.
#[derive(Debug)]
pub(super) struct Watch(Arc<BodyShare>);

impl Watch {
    /// Returns the body as pieces, for a handler that stores them.
    pub(super) fn pieces(&self) -> BodyPieces {
        BodyPieces(Arc::clone(&self.0))
    }

    /// Returns the response to a request whose body failed.
    pub(super) fn refusal(&self) -> Option<Response> {
        let refusal = self.0.refusal.lock().take()?;
        let bad = match refusal {
            Refusal::Share(exceeded) => return Some(answer::of_share(&exceeded)),
            Refusal::Body(bad) => bad,
        };
        let mut response = answer::error(bad.status, bad.code, &bad.message, bad.hint);
        if bad.status == StatusCode::SERVICE_UNAVAILABLE {
            answer::retry_soon(&mut response);
        }
        Some(response)
    }
}

/// A body as its reader sees it.
#[derive(Debug)]
struct Watched {
    inner: Body,
    share: Arc<BodyShare>,
    limits: Limits,
    began: Instant,
    received: u64,
    /// The time since which the reader waits for bytes.
    waits_since: Option<Instant>,
    due: Pin<Box<Sleep>>,
    ended: bool,
}

impl Watched {
    fn fail(&mut self, refusal: Refusal) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.ended = true;
        let error = axum::Error::new(std::io::Error::other(refusal.message()));
        *self.share.refusal.lock() = Some(refusal);
        Poll::Ready(Some(Err(error)))
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                this.received += bytes;
                this.waits_since = None;
                match this.share.take(bytes, &this.limits) {
                    Ok(()) => Poll::Ready(Some(Ok(frame))),
                    Err(refusal) => this.fail(refusal),
                }
            }
            Poll::Ready(Some(Err(error))) => {
                let broken = broken(&error);
                this.fail(broken)
            }
            Poll::Ready(None) => {
                this.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let since = *this.waits_since.get_or_insert_with(Instant::now);
                let is_in_pieces = this.share.is_in_pieces.load(Ordering::Relaxed);
                let due = match is_in_pieces {
                    true => since + PIECE_WITHIN,
                    false => this.limits.due(this.began, this.received),
                };
                if this.due.deadline() != due {
                    this.due.as_mut().reset(due);
                }
                ready!(this.due.as_mut().poll(context));
                let too_slow = match is_in_pieces {
                    true => silent(),
                    false => this.limits.too_slow(this.began.elapsed()),
                };
                this.fail(too_slow)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Returns the refusal of a body that breaks off or has invalid chunks.
fn broken(error: &axum::Error) -> Refusal {
    let mut message = format!("the body is broken: {error}");
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        if !message.ends_with(&text) {
            message += ": ";
            message += &text;
        }
        cause = deeper.source();
    }
    Refusal::Body(BadBody {
        status: StatusCode::BAD_REQUEST,
        code: "broken_body",
        message,
        hint: None,
    })
}

#[cfg(test)]
mod tests;
