//! The frames of a call with one message: of its request, and of its answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use futures::{Stream, StreamExt};
use hyper::body::Frame;
use tonic::Status;

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The message of a request, of which the prefix has come.
pub(super) struct Sent {
    pub(super) is_compressed: bool,
    pub(super) body: Body,
}

impl Sent {
    /// Reads the prefix.
    ///
    /// # Errors
    /// If the call ends or breaks before.
    pub(super) async fn read(body: Body) -> Result<Self, Status> {
        let mut rest = body.into_data_stream();
        let mut read = Vec::new();
        while read.len() < PREFIX_BYTES {
            match rest.next().await {
                Some(Ok(piece)) => read.extend_from_slice(&piece),
                Some(Err(error)) => return Err(Status::cancelled(error.to_string())),
                None => return Err(Status::invalid_argument("the call has no message")),
            }
        }
        let behind = read.split_off(PREFIX_BYTES);
        let prefix: [u8; PREFIX_BYTES] = read.try_into().expect("BUG: a prefix of five bytes");
        let [flag, length @ ..] = prefix;
        let message = SentMessage {
            behind: Some(behind.into()),
            rest,
            missing: u64::from(u32::from_be_bytes(length)),
        };
        Ok(Self {
            is_compressed: flag != 0,
            body: Body::from_stream(message),
        })
    }
}

/// The bytes of the message. A call that ends before, or goes on behind it, is an error: a message
/// that breaks off may be whole for protobuf.
struct SentMessage {
    behind: Option<Bytes>,
    rest: BodyDataStream,
    missing: u64,
}

impl Stream for SentMessage {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let piece = match self.behind.take() {
            Some(piece) => Some(Ok(piece)),
            None => ready!(self.rest.poll_next_unpin(context)),
        };
        Poll::Ready(match piece {
            Some(Ok(piece)) => match self.missing.checked_sub(piece.len() as u64) {
                Some(missing) => {
                    self.missing = missing;
                    Some(Ok(piece))
                }
                None => Some(Err(axum::Error::new(
                    "the call goes on behind its message; it has one",
                ))),
            },
            Some(Err(error)) => Some(Err(error)),
            None if self.missing > 0 => Some(Err(axum::Error::new(format!(
                "the call ends {} bytes before its message does",
                self.missing
            )))),
            None => None,
        })
    }
}

/// An answer of one message, and the trailers that end it.
pub(super) struct Unary {
    message: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Unary {
    pub(super) fn response(message: &[u8]) -> Response<tonic::body::Body> {
        let length = u32::try_from(message.len()).expect("BUG: an answer is short");
        let mut framed = vec![0];
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(message);
        let ok = (
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        );
        let body = Self {
            message: Some(framed.into()),
            trailers: Some(HeaderMap::from_iter([ok])),
        };
        let mut response = Response::new(tonic::body::Body::new(body));
        let grpc = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(header::CONTENT_TYPE, grpc);
        response
    }
}

impl HttpBody for Unary {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let message = self.message.take().map(Frame::data);
        let frame = message.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }
}

#[cfg(test)]
mod tests;
