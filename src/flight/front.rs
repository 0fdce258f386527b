//! Checks of every call before its method: its origin, its credentials, its rights, its share and
//! its database.
//!
//! # Invariants
//! * No method is reached without a [`Client`], which is an extension of its request.
//! * A browser cannot make a call for a page: calls with an `Origin`, with another content type
//!   than gRPC's, or with a cookie for credentials alone are refused.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use secrecy::{ExposeSecret, SecretString};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;

use super::body::{REQUEST_BYTES_MAX, Requests};
use super::dialect::Dialect;
use super::service::Flights;
use super::status;
use super::{DATABASE, DATABASE_HEADER};
use crate::access::token::Token;
use crate::access::{Action, Credentials, Principal, Target};
use crate::failure::Class;
use crate::grpc::{Calls, is_of_a_client};
use crate::held::held;
use crate::listen::Peer;
use crate::serve::{Client, Serving, Share};
use crate::server::credentials::credentials;

/// Time for which a call beyond a share waits for its answer.
const SLOWED: Duration = Duration::from_millis(250);
const API_KEY: &str = "x-api-key";

/// The checks, and the methods behind them.
pub(super) struct Front {
    serving: Arc<Serving>,
    requests: Requests,
    flights: FlightServiceServer<Flights>,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").finish_non_exhaustive()
    }
}

impl Calls for Front {
    async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        if !is_of_a_client(request.headers()) {
            let mut refused = Response::new(Body::default());
            *refused.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return refused;
        }
        let admitted = self.admit(request.headers(), peer).await;
        // A call that is refused counts for its address: a flood of these is a flood as well.
        let share = match self.share(peer, admitted.as_deref().ok()) {
            Ok(share) => Arc::new(share),
            Err(exceeded) => {
                // A client that makes its next call at once would be refused at the speed of the
                // processor.
                tokio::time::sleep(SLOWED).await;
                return exceeded.into_http();
            }
        };
        let passed = match admitted {
            Ok(principal) => self.pass(request, principal, &share).await,
            Err(refused) => refused.into_http(),
        };
        held(passed, share).map(Body::new)
    }
}

impl Front {
    pub(super) fn new(serving: &Arc<Serving>) -> Self {
        let flights = Flights::new(serving);
        Self {
            serving: Arc::clone(serving),
            requests: Requests::within(serving.config.server.body_time_max.0),
            flights: FlightServiceServer::new(flights).max_decoding_message_size(REQUEST_BYTES_MAX),
        }
    }

    async fn pass(
        &self,
        request: Request<Incoming>,
        principal: Arc<Principal>,
        share: &Arc<Share>,
    ) -> Response<Body> {
        if let Err(wrong) = check_database(request.headers()) {
            return wrong.into_http();
        }
        let (mut head, body) = request.into_parts();
        let body = match self.requests.watch(body, share) {
            Ok(body) => body,
            Err(exceeded) => return exceeded.into_http(),
        };
        let client = Client::new(principal, Arc::clone(share));
        head.extensions.insert(client);
        head.extensions.insert(Dialect::of(&head.headers));
        let request = Request::from_parts(head, body);
        let Ok(response) = self.flights.clone().call(request).await;
        response
    }

    /// Returns the principal of a call that may read.
    async fn admit(&self, headers: &HeaderMap, peer: &Peer) -> Result<Arc<Principal>, Status> {
        let given = given(headers).map_err(|why| {
            let hint = "send Authorization: Bearer TOKEN, or a user and a password as Basic";
            status::of_class(Class::Unauthenticated, why, Some(hint))
        })?;
        let of_certificate = || peer.user.clone().map(Credentials::Certificate);
        let access = &self.serving.access;
        let admitted = access.admit(given.or_else(of_certificate), peer.ends.client.ip());
        let principal = admitted.await.map_err(status::of_login)?;
        if principal.may(Action::Read, Target::Visible) {
            return Ok(principal);
        }
        let message = format!(
            "the role {} of {} does not read",
            principal.role().as_str(),
            principal.name()
        );
        Err(status::of_class(Class::Forbidden, &message, None))
    }

    /// Returns the share of a call. An open store has none.
    fn share(&self, peer: &Peer, principal: Option<&Principal>) -> Result<Share, Status> {
        if self.serving.access.is_open() {
            return Ok(Share::default());
        }
        let share = self
            .serving
            .shares
            .request(peer.ends.client.ip(), principal);
        share.map_err(|exceeded| status::of_share(&exceeded))
    }
}

/// Reads the credentials of a call: those of HTTP, or as a bearer the session that a handshake
/// began.
fn given(headers: &HeaderMap) -> Result<Option<Credentials>, &'static str> {
    let has_own = headers.contains_key(header::AUTHORIZATION) || headers.contains_key(API_KEY);
    if !has_own {
        return Ok(None);
    }
    let is_token = |text: &SecretString| Token::parse(text.expose_secret()).is_some();
    Ok(match credentials(headers)? {
        Some(Credentials::Token(text)) if !is_token(&text) => Some(Credentials::Session(text)),
        given => given,
    })
}

/// Checks the database that a client names, if it names one.
fn check_database(headers: &HeaderMap) -> Result<(), Status> {
    let named = headers.get(DATABASE_HEADER).map(|value| value.as_bytes());
    match named {
        None | Some(b"") => Ok(()),
        Some(name) if name == DATABASE.as_bytes() => Ok(()),
        Some(name) => {
            let name = String::from_utf8_lossy(name);
            let message = format!("database {name:?} does not exist");
            let hint = format!("the database is {DATABASE}");
            Err(status::invalid(&message, Some(&hint)))
        }
    }
}
