//! gRPC over accepted connections: HTTP/2 and its bounds, refused calls, and errors as statuses.
//!
//! # Invariants
//! * A connection without a call ends, and a client that is gone is found out.
//! * A browser cannot make a call for a page ([`is_of_a_client`]).

mod connection;
pub(crate) mod status;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::http::{HeaderMap, header};

use self::connection::Connection;
use crate::listen::{Accepted, Beyond, Protocol};

pub(crate) use connection::Calls;

/// Calls as the protocol of a listener.
#[derive(Debug)]
pub(crate) struct Grpc<C> {
    pub(crate) calls: Arc<C>,
}

impl<C: Calls> Protocol for Grpc<C> {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        if let Some(connection) = Connection::of(accepted).await {
            connection.serve(&self.calls).await;
        }
    }

    async fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        has_request: Arc<AtomicBool>,
    ) {
        if let Some(connection) = Connection::of(accepted).await {
            connection.refuse(limit, &has_request).await;
        }
    }
}

/// The content type of gRPC, perhaps followed by `+proto`.
const GRPC: &[u8] = b"application/grpc";

/// Returns whether a call comes from a program that speaks gRPC and not from a page in a browser.
pub(crate) fn is_of_a_client(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    content_type.is_some_and(|value| value.as_bytes().starts_with(GRPC))
        && !headers.contains_key(header::ORIGIN)
}
