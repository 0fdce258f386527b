//! The HTTP listener: its routes and its service.
//!
//! # Invariants
//! * A request of a foreign origin or under a foreign name has no effect and returns no data
//!   ([`origin`]).
//! * An ingest request is answered only after the store has answered. If the connection breaks
//!   before that, the outcome is unknown to the client, never wrong.

mod answer;
mod app;
mod backup;
mod bodies;
mod body;
mod connections;
mod front;
mod indexes;
mod ingest;
mod metrics;
mod origin;
mod partitions;
mod places;
mod quarantine;
mod rollups;
mod routes;
mod sql;
mod status;
mod tail;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use tokio::net::TcpListener;

use crate::failure::{FAILED, Failure, Result};
use crate::serve::{OpenService, Service, Serving, descriptors};
use app::App;
use connections::Connections;
use front::Front;
use places::Places;

/// The HTTP listener as a service.
struct Http {
    serving: Arc<Serving>,
    connections: Connections,
    listener: TcpListener,
}

/// Returns the HTTP listener of an address; `ready` is called with the bound address.
///
/// # Errors
/// If the address cannot be parsed, or is not a loopback address.
pub(crate) fn http(address: &str, ready: impl FnOnce(SocketAddr) + 'static) -> Result<OpenService> {
    let address = loopback(address)?;
    Ok(Box::new(move |serving| {
        let server = &serving.config.server;
        let places = Places::within(server.connections_max, descriptors::limit());
        if places.connections < server.connections_max {
            tracing::warn!(
                "the limit is {} connections instead of server.connections_max = {}: connections use at most half of the file descriptors; raise `ulimit -n`",
                places.connections,
                server.connections_max
            );
        }
        let bound = serving.runtime.block_on(TcpListener::bind(address));
        let listener =
            bound.map_err(|e| Failure::new(FAILED, format!("cannot listen at {address}: {e}")))?;
        let address = listener.local_addr()?;
        serving.store.announce(&address.to_string())?;
        let app = Arc::new(App::new(Arc::clone(serving), places));
        let open = Arc::clone(&app.connections);
        let connections = Connections::new(
            Arc::new(Front::new(app, address)),
            serving.stop.clone(),
            places,
            server.answer_time_max.0,
            open,
        );
        ready(address);
        Ok(Box::new(Http {
            serving: Arc::clone(serving),
            connections,
            listener,
        }))
    }))
}

impl Service for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let runtime = self.serving.runtime.clone();
        runtime.block_on(self.connections.accept(&self.listener));
        Ok(())
    }
}

/// Parses a listener's address. Without authentication only loopback addresses are accepted.
fn loopback(address: &str) -> Result<SocketAddr> {
    let with_default_port = |host: &str| format!("{host}:7070").parse().ok();
    let parsed: SocketAddr = address
        .replace("localhost", "127.0.0.1")
        .parse()
        .ok()
        .or_else(|| with_default_port(address))
        .ok_or_else(|| Failure::usage(format!("--http {address}: write it as 127.0.0.1:7070")))?;
    if parsed.ip().is_loopback() {
        return Ok(parsed);
    }
    Err(Failure::config(format!(
        "--http {address}: an address beyond this machine needs [auth], which this version does not have; listen on 127.0.0.1 and put a proxy with authentication in front"
    )))
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(status::health))
        .route("/ready", get(status::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/api/v1/ingest/{stream}", post(ingest::ingest))
        .route("/api/v1/sql", post(sql::sql))
        .route("/api/v1/tail", get(tail::tail))
        .route("/api/v1/streams", get(status::streams))
        .route("/api/v1/streams/{name}/schema", get(status::schema))
        .route(
            "/api/v1/partitions",
            get(partitions::list).delete(partitions::drop),
        )
        .route("/api/v1/partitions/detach", post(partitions::detach))
        .route("/api/v1/partitions/attach", post(partitions::attach))
        .route("/api/v1/partitions/retain", post(partitions::retain))
        .route("/api/v1/indexes", get(indexes::list))
        .route(
            "/api/v1/indexes/{stream}/{field}",
            post(indexes::create).delete(indexes::drop),
        )
        .route("/api/v1/quarantine", get(quarantine::list))
        .route("/api/v1/quarantine/explain", get(quarantine::explain))
        .route("/api/v1/quarantine/replay", post(quarantine::replay))
        .route("/api/v1/quarantine/drop", post(quarantine::drop))
        .route("/api/v1/partitions/compact", post(partitions::compact))
        .route("/api/v1/rollups", get(rollups::list))
        .route("/api/v1/rollups/run", post(rollups::run))
        .route("/api/v1/rollups/compact", post(rollups::compact))
        .route("/api/v1/rollups/{name}", delete(rollups::drop))
        .route("/api/v1/rollups/{name}/verify", post(rollups::verify))
        .route("/api/v1/rollups/{name}/rebuild", post(rollups::rebuild))
        .route(
            "/api/v1/backup",
            post(backup::backup).layer(DefaultBodyLimit::max(backup::BODY_BYTES_MAX)),
        )
        .route("/api/v1/sources", get(status::source))
        .route("/api/v1/queries", get(status::queries))
        .route("/api/v1/queries/{id}", delete(status::cancel))
        .fallback(page)
        // Each handler limits the body where it reads it, after decompression too.
        .layer(DefaultBodyLimit::disable())
        .with_state(app)
}

/// Returns the page or one of its assets, and 404 for any other path.
async fn page(uri: Uri) -> Response {
    let Some(asset) = dashboards::asset(uri.path()) else {
        return answer::error(
            axum::http::StatusCode::NOT_FOUND,
            "not_found",
            &format!("there is nothing at {}", uri.path()),
            Some("the page is at /, the API under /api/v1/"),
        );
    };
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static(asset.content_type),
        ),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(dashboards::CONTENT_SECURITY_POLICY),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (
            HeaderName::from_static("referrer-policy"),
            HeaderValue::from_static("no-referrer"),
        ),
    ];
    (headers, asset.body).into_response()
}
