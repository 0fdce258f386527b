//! What every request passes before its route: whether it may ask at all.
//!
//! It stands around the router as a whole, so that a route which is added later, the page, and paths
//! that lead nowhere are behind it too.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use tower::ServiceExt;

use super::App;
use super::origin::OwnNames;

/// The checks and the routes behind them.
#[derive(Debug)]
pub(super) struct Front {
    own: OwnNames,
    router: Router,
}

impl Front {
    /// The front of the listener at `address`.
    pub(super) fn new(app: Arc<App>, address: SocketAddr) -> Self {
        Self {
            own: OwnNames::new(address, &app.config.server.hosts),
            router: super::router(app),
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Body>) -> Response {
        let (head, body) = request.into_parts();
        if let Err(refused) = self.own.check(&head) {
            return *refused;
        }
        let request = Request::from_parts(head, body);
        self.router.clone().oneshot(request).await.into_response()
    }
}
