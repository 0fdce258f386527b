//! gRPC over accepted connections: HTTP/2 and its bounds, refused calls, and errors as statuses.
//!
//! # Invariants
//! * A connection without a call ends, and a client that is gone is found out.
//! * A browser cannot make a call for a page ([`is_of_a_client`]).

mod connection;
mod held;
pub(crate) mod status;

use axum::http::{HeaderMap, header};

pub(crate) use connection::{Calls, Connection};
pub(crate) use held::held;

/// The content type of gRPC, perhaps followed by `+proto`.
const GRPC: &[u8] = b"application/grpc";

/// Returns whether a call comes from a program that speaks gRPC and not from a page in a browser.
pub(crate) fn is_of_a_client(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(GRPC))
        && !headers.contains_key(header::ORIGIN)
}
