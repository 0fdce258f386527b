//! Bodies of requests under way: a least pace, an end, and a bound for all of them together.
//!
//! # Invariants
//! * A body comes at `server.body_pace_min` at least, measured over the time since it began less
//!   [`GRACE`], and ends within `server.body_time_max`; otherwise its request fails with 408.
//! * The bytes that all requests under way have brought are at most `server.bodies_bytes_max`: what
//!   goes beyond fails with 503 and `Retry-After`. They count until the answer to their request.
//! * The reason counts, not the shape that it takes behind this: a reader of the body sees an error
//!   and answers something; [`Watch::refusal`] says what to answer instead.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::answer;
use crate::config;

/// A sender may be silent for so long before its pace counts: a pipe begins slowly, and a client
/// that asks `Expect: 100-continue` waits.
const GRACE: Duration = Duration::from_secs(10);

/// Limits of bodies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Of one body, from its first poll to its end.
    time_max: Duration,
    /// Bytes a second.
    pace_min: u64,
    grace: Duration,
    /// Of one body; whoever reads it refuses what is longer, and drops it as it comes.
    body_bytes_max: u64,
    /// Of all bodies together.
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

    /// Bytes of all bodies under way.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Watches a body. What it brings counts until the watch is dropped.
    pub(super) fn watch(&self, body: Body) -> (Body, Watch) {
        let share = Arc::new(Share {
            held: AtomicU64::new(0),
            all: Arc::clone(&self.held),
            refusal: Mutex::new(None),
        });
        let said = body.size_hint().lower().min(self.limits.body_bytes_max);
        if said > self.limits.bytes_max.saturating_sub(self.held()) {
            *share.refusal.lock() = Some(self.limits.busy());
        }
        let now = Instant::now();
        let watched = Watched {
            inner: body,
            share: Arc::clone(&share),
            limits: self.limits,
            began: now,
            received: 0,
            due: Box::pin(tokio::time::sleep_until(now)),
            ended: false,
        };
        (Body::new(watched), Watch(share))
    }
}

/// Share of one request in it.
#[derive(Debug)]
struct Share {
    held: AtomicU64,
    all: Arc<AtomicU64>,
    refusal: Mutex<Option<Refusal>>,
}

impl Share {
    fn take(&self, bytes: u64, limits: &Limits) -> bool {
        // The reader of a body throws away the bytes beyond its limit as they come.
        let room = limits.body_bytes_max - self.held.load(Ordering::Relaxed);
        let bytes = bytes.min(room);
        let taken = self
            .all
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
                all.checked_add(bytes)
                    .filter(|all| *all <= limits.bytes_max)
            });
        if taken.is_ok() {
            self.held.fetch_add(bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        self.all.fetch_sub(held, Ordering::Relaxed);
    }
}

/// Why a body failed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<&'static str>,
}

impl Limits {
    fn busy(&self) -> Refusal {
        Refusal {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "overloaded",
            message: format!(
                "the bodies of all requests under way have {} bytes together, which is the limit",
                self.bytes_max
            ),
            hint: Some("send it again shortly, or raise server.bodies_bytes_max"),
        }
    }

    fn slow(&self, took: Duration) -> Refusal {
        let message = match took >= self.time_max {
            true => format!(
                "the body did not end within {}",
                humantime::format_duration(self.time_max)
            ),
            false => format!(
                "the body came more slowly than {} bytes a second",
                self.pace_min
            ),
        };
        Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            code: "too_slow",
            message,
            hint: Some(
                "send smaller batches, or set server.body_time_max and server.body_pace_min",
            ),
        }
    }

    /// When a body that has brought so much is too slow.
    fn due(&self, began: Instant, received: u64) -> Instant {
        let paced = Duration::from_secs_f64(received as f64 / self.pace_min as f64);
        began + self.time_max.min(self.grace.saturating_add(paced))
    }
}

/// Outcome of a body, and its share of the bytes under way.
#[derive(Debug)]
pub(super) struct Watch(Arc<Share>);

impl Watch {
    /// The answer to a request whose body failed.
    pub(super) fn refusal(&self) -> Option<Response> {
        let refusal = self.0.refusal.lock().take()?;
        let mut response =
            answer::error(refusal.status, refusal.code, &refusal.message, refusal.hint);
        if refusal.status == StatusCode::SERVICE_UNAVAILABLE {
            answer::retry_soon(&mut response);
        }
        Some(response)
    }
}

/// A body on its way to whoever reads it.
#[derive(Debug)]
struct Watched {
    inner: Body,
    share: Arc<Share>,
    limits: Limits,
    began: Instant,
    received: u64,
    due: Pin<Box<Sleep>>,
    ended: bool,
}

impl Watched {
    fn fail(&mut self, refusal: Refusal) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.ended = true;
        let error = axum::Error::new(std::io::Error::other(refusal.message.clone()));
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
                if this.share.take(bytes, &this.limits) {
                    return Poll::Ready(Some(Ok(frame)));
                }
                let busy = this.limits.busy();
                this.fail(busy)
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
                let due = this.limits.due(this.began, this.received);
                if this.due.deadline() != due {
                    this.due.as_mut().reset(due);
                }
                ready!(this.due.as_mut().poll(context));
                let slow = this.limits.slow(this.began.elapsed());
                this.fail(slow)
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

/// A body that breaks off, or whose chunks are none.
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
    Refusal {
        status: StatusCode::BAD_REQUEST,
        code: "broken_body",
        message,
        hint: None,
    }
}

#[cfg(test)]
mod tests;
