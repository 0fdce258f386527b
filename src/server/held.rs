//! Responses that hold something until they have given their last byte to the connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

/// Keeps `guard` until the body of the response has ended or failed, or is dropped with its
/// connection. The last bytes may be on their way to the client then.
pub(super) fn held<T: Send + Unpin + 'static>(response: Response, guard: T) -> Response {
    response.map(|inner| {
        Body::new(HeldBody {
            inner,
            guard: Some(guard),
        })
    })
}

struct HeldBody<T> {
    inner: Body,
    guard: Option<T>,
}

impl<T: Unpin> HttpBody for HeldBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_guard_ends_with_the_last_byte_or_with_the_response() {
        let guard = Arc::new(());
        let response = held(Response::new(Body::from("text")), Arc::clone(&guard));
        assert_eq!(response.body().size_hint().exact(), Some(4));
        assert_eq!(Arc::strong_count(&guard), 2);
        let text = axum::body::to_bytes(response.into_body(), 9).await;
        assert_eq!(&*text.expect("a body"), b"text");
        assert_eq!(Arc::strong_count(&guard), 1);
        drop(held(Response::new(Body::from("text")), Arc::clone(&guard)));
        assert_eq!(Arc::strong_count(&guard), 1);
    }
}
