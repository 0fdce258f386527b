//! Responses that hold something until they have ended.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::http::Response;
use hyper::body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

/// Keeps `guard` until the body of the response has ended or failed, or is dropped with its
/// connection.
pub(crate) fn held<T: Send + Unpin + 'static>(
    response: Response<Body>,
    guard: T,
) -> Response<Body> {
    response.map(|inner| {
        Body::new(GuardedBody {
            inner,
            guard: Some(guard),
        })
    })
}

struct GuardedBody<T> {
    inner: Body,
    guard: Option<T>,
}

impl<T: Unpin> HttpBody for GuardedBody<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.guard = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
