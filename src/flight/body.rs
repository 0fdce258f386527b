//! The bodies of calls: bounds on the bytes and the time of a request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

use super::status;

use crate::failure::Class;
use crate::serve::{Counted, Share};

/// Maximum bytes of the requests of all calls under way.
const REQUESTS_BYTES_MAX: u64 = 64 << 20;
/// Maximum bytes of a request: a statement, or the values of its parameters.
pub(super) const REQUEST_BYTES_MAX: usize = 4 << 20;

/// The requests of all calls under way.
#[derive(Debug)]
pub(super) struct Requests {
    time_max: Duration,
    bytes: Arc<AtomicU64>,
}

impl Requests {
    /// Creates the bounds; a request ends within `time_max`.
    pub(super) fn within(time_max: Duration) -> Self {
        Self {
            time_max,
            bytes: Arc::default(),
        }
    }

    /// Watches a request. Its bytes count until it is dropped, and in the share of its client.
    ///
    /// # Errors
    /// If the client has reached its share.
    pub(super) fn watch(&self, inner: Incoming, share: &Share) -> Result<Request, Status> {
        let of_client = share
            .body(0)
            .map_err(|exceeded| status::of_share(&exceeded))?;
        Ok(Request {
            inner,
            of_client,
            of_all: Arc::clone(&self.bytes),
            bytes: 0,
            time_max: self.time_max,
            due: Box::pin(tokio::time::sleep(self.time_max)),
        })
    }
}

/// The body of a request as its reader sees it.
pub(super) struct Request {
    inner: Incoming,
    of_client: Option<Counted>,
    of_all: Arc<AtomicU64>,
    bytes: u64,
    time_max: Duration,
    due: Pin<Box<Sleep>>,
}

impl Request {
    fn take(&mut self, bytes: u64) -> Result<(), Status> {
        if self.bytes + bytes > REQUEST_BYTES_MAX as u64 {
            let message = format!("the request has more than {REQUEST_BYTES_MAX} bytes");
            let hint = "bind fewer or shorter values";
            return Err(status::of_class(Class::TooLarge, &message, Some(hint)));
        }
        let added = |all: u64| {
            all.checked_add(bytes)
                .filter(|all| *all <= REQUESTS_BYTES_MAX)
        };
        let taken = self
            .of_all
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
        if taken.is_err() {
            let message = format!("the requests under way have {REQUESTS_BYTES_MAX} bytes");
            let hint = "send it again shortly";
            return Err(status::of_class(Class::Overloaded, &message, Some(hint)));
        }
        self.bytes += bytes;
        let grown = self
            .of_client
            .as_ref()
            .map_or(Ok(()), |held| held.grow(bytes));
        grown.map_err(|exceeded| status::of_share(&exceeded))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl HttpBody for Request {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                Poll::Ready(Some(this.take(bytes).map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                let broken = Status::cancelled(format!("the request is broken: {error}"));
                Poll::Ready(Some(Err(broken)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(this.due.as_mut().poll(context));
                let time_max = humantime::format_duration(this.time_max);
                let message = format!("the request did not end within {time_max}");
                Poll::Ready(Some(Err(Status::deadline_exceeded(message))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
