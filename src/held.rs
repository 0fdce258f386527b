//! Responses that hold something until they have given their last byte to the connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::http::Response;
use hyper::body::{Frame, SizeHint};

/// Keeps `guard` until the body of the response has ended or failed, or is dropped with its
/// connection. The last bytes may be on their way to the client then.
pub(crate) fn held<B, T>(response: Response<B>, guard: T) -> Response<HeldBody<B, T>> {
    response.map(|inner| HeldBody {
        inner,
        guard: Some(guard),
    })
}

/// A body that holds something.
pub(crate) struct HeldBody<B, T> {
    inner: B,
    guard: Option<T>,
}

impl<B: HttpBody<Data = Bytes> + Unpin, T: Unpin> HttpBody for HeldBody<B, T> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
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

    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn a_guard_ends_with_the_last_byte_or_with_the_response() {
        let guard = Arc::new(());
        let response = held(Response::new(Body::from("text")), Arc::clone(&guard));
        assert_eq!(response.body().size_hint().exact(), Some(4));
        assert_eq!(Arc::strong_count(&guard), 2);
        let body = Body::new(response.into_body());
        let text = axum::body::to_bytes(body, 9).await;
        assert_eq!(&*text.expect("a body"), b"text");
        assert_eq!(Arc::strong_count(&guard), 1);
        drop(held(Response::new(Body::from("text")), Arc::clone(&guard)));
        assert_eq!(Arc::strong_count(&guard), 1);
    }
}
