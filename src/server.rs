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
mod connections;
pub(crate) mod credentials;
mod erase;
mod front;
mod held;
mod indexes;
mod ingest;
mod login;
mod metrics;
mod origin;
pub(crate) mod own_names;
mod partitions;
mod quarantine;
pub(crate) mod request_parameters;
mod rollups;
mod routes;
mod sql;
mod status;
mod tail;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use tokio::net::{TcpListener, TcpSocket};

use crate::failure::{FAILED, Failure, Result};
use crate::serve::{OpenService, Service, Serving};
use crate::tls::Tls;
use app::App;
use connections::Connections;
use front::Front;

/// Connections that the kernel keeps until they are accepted, if its own limit allows them
/// (`net.core.somaxconn`, 4,096 on Linux). It drops the first packet of one beyond them, which the
/// client sends again after a second.
const BACKLOG: u32 = 4096;

/// The HTTP listener as a service.
struct Http {
    serving: Arc<Serving>,
    connections: Connections,
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
}

/// Returns the HTTP listener of an address; `ready` is called with its URL.
///
/// # Errors
/// If the address cannot be parsed. The service is refused at an address beyond this machine, if
/// the store is open or the connections would not be encrypted.
pub(crate) fn http(address: &str, ready: impl FnOnce(&str) + 'static) -> Result<OpenService> {
    let (named, address) = (address.to_owned(), parse_address(address)?);
    Ok(Box::new(move |serving| {
        let server = &serving.config.server;
        let tls = Tls::of(&serving.config.tls)?;
        if !address.ip().is_loopback() {
            check_exposed(&named, serving, tls.is_some())?;
            serving.access.close();
        }
        if serving.places.connections < server.connections_max {
            tracing::warn!(
                "the limit is {} connections instead of server.connections_max = {}: connections use at most half of the file descriptors; raise `ulimit -n`",
                serving.places.connections,
                server.connections_max
            );
        }
        let bound = serving.runtime.block_on(async { bind(address) });
        let listener =
            bound.map_err(|e| Failure::new(FAILED, format!("cannot listen at {address}: {e}")))?;
        let address = listener.local_addr()?;
        let secret = serving.access.new_operator_secret();
        let url = url_of(local_address(address), tls.is_some());
        serving.store.announce(&url, secret.reveal())?;
        let app = Arc::new(App::new(Arc::clone(serving)));
        let open = Arc::clone(&app.connections);
        let connections = Connections::new(Arc::new(Front::new(app, address)), serving, open)
            .with_tls(tls.clone());
        ready(&url_of(address, tls.is_some()));
        Ok(Box::new(Http {
            serving: Arc::clone(serving),
            connections,
            listener,
            tls,
        }))
    }))
}

impl Service for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let runtime = self.serving.runtime.clone();
        let follow = self.tls.map(|tls| runtime.spawn(tls.follow()));
        runtime.block_on(self.connections.accept(&self.listener));
        if let Some(follow) = follow {
            follow.abort();
        }
        Ok(())
    }
}

/// Binds a listener; within a runtime.
fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A server that starts again need not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Parses a listener's address.
fn parse_address(address: &str) -> Result<SocketAddr> {
    let with_default_port = |host: &str| format!("{host}:7070").parse().ok();
    address
        .replace("localhost", "127.0.0.1")
        .parse()
        .ok()
        .or_else(|| with_default_port(address))
        .ok_or_else(|| Failure::usage(format!("--http {address}: write it as 127.0.0.1:7070")))
}

/// Checks that a listener beyond this machine asks for a login and is encrypted.
fn check_exposed(named: &str, serving: &Serving, has_tls: bool) -> Result<()> {
    let mut missing = Vec::new();
    if serving.access.accounts().is_empty() {
        missing.push("the store has no users: run `logmill user add NAME --role admin --data DIR`");
    }
    if !has_tls && !serving.config.server.insecure_plaintext {
        missing.push("there is no certificate: run `logmill tls self-signed` and add its output to logmill.toml, or accept plain text with --insecure-plaintext");
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::config(format!(
            "--http {named}: other machines can reach this address; {}",
            missing.join("; ")
        ))),
    }
}

/// Returns the URL of an address.
fn url_of(address: SocketAddr, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Returns the address at which commands on this machine reach a listener.
fn local_address(mut bound: SocketAddr) -> SocketAddr {
    match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => bound.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => bound.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    bound
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
