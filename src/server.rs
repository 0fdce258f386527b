//! The HTTP listener: its routes and its service.
//!
//! # Invariants
//! * A request of a foreign origin or under a foreign name has no effect and returns no data
//!   ([`origin`]).
//! * An ingest request is answered only after the store has answered. If the connection breaks
//!   before that, the outcome is unknown to the client, never wrong.

mod accounts;
mod answer;
mod app;
mod backup;
mod bodies;
mod body;
mod cluster;
mod connections;
pub(crate) mod credentials;
mod erase;
mod front;
mod indexes;
mod ingest;
mod login;
mod loki;
mod metrics;
mod nodes;
mod origin;
mod otlp_grpc;
pub(crate) mod own_names;
mod partitions;
mod prometheus;
mod quarantine;
mod read_call;
pub(crate) mod request_parameters;
mod rollups;
mod routes;
mod shippers;
mod sql;
mod status;
mod tail;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};

use crate::failure::Result;
use crate::listen::{Address, Listener, local_address};
use crate::serve::OpenService;
use app::App;
pub(crate) use app::SharedApp;
use connections::Http;
use front::Front;
pub(crate) use otlp_grpc::otlp_grpc;

/// The port of an address without one.
const PORT: u16 = 7070;

/// Returns the HTTP listener of an address; `ready` is called with its URL. Returns `None` for
/// `off`.
///
/// # Errors
/// If the address cannot be parsed.
pub(crate) fn http(
    address: &str,
    app: SharedApp,
    ready: impl FnOnce(&str) + 'static,
) -> Result<Option<OpenService>> {
    let Some(address) = Address::parse("--http", address, PORT)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |serving| {
        let listener = address.bind(serving)?;
        let address = listener.local_addr()?;
        let has_tls = serving.tls.is_some();
        let secret = serving.access.new_operator_secret();
        let url = url_of(local_address(address), has_tls);
        serving.store.announce(&url, secret.reveal())?;
        let http = Http::new(Front::new(app.of(serving), address));
        ready(&url_of(address, has_tls));
        let service = Listener::new("http", serving, listener, http);
        Ok(Some(Box::new(service)))
    })))
}

/// Returns the URL of an address.
fn url_of(address: SocketAddr, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Returns all routes. Each handler limits the body where it reads it, after decompression too.
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
        .route("/api/v1/streams/{name}/shard-keys", get(status::shard_keys))
        .route(
            "/api/v1/streams/{name}/erase",
            post(erase::erase).layer(DefaultBodyLimit::max(erase::BODY_BYTES_MAX)),
        )
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
        .route("/api/v1/session", get(login::session))
        .route("/api/v1/login", post(login::login))
        .route("/api/v1/logout", post(login::logout))
        .route("/api/v1/users", get(accounts::users))
        .route(
            "/api/v1/users/{name}",
            put(accounts::add_user).delete(accounts::remove_user),
        )
        .route(
            "/api/v1/users/{name}/password",
            put(accounts::change_password),
        )
        .route("/api/v1/tokens", get(accounts::tokens))
        .route(
            "/api/v1/tokens/{name}",
            post(accounts::create_token).delete(accounts::revoke_token),
        )
        .route("/api/v1/queries", get(status::queries))
        .route("/api/v1/queries/{id}", delete(status::cancel))
        .merge(cluster::routes())
        .merge(prometheus::routes())
        .merge(loki::routes())
        .merge(shippers::routes())
        .fallback(page)
        .layer(DefaultBodyLimit::disable())
        .with_state(app)
}

/// Returns the page or one of its assets, and 404 for any other path. A client of Elasticsearch
/// that asks for the page gets a greeting.
async fn page(request: Request) -> Response {
    let (head, _) = request.into_parts();
    let uri = &head.uri;
    if shippers::is_greeted(&head) {
        return shippers::greeting().await;
    }
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
