//! The HTTP listener: routes, start and stop.
//!
//! # Invariants
//! * Nothing is done, and nothing told, for a request of a foreign origin or under a foreign name
//!   ([`origin`]).
//! * An answer to an ingest request is sent only after the store has answered; a connection that
//!   breaks before leaves the outcome unknown, never wrong.
//! * The first signal stops accepting, finishes what is under way, seals and exits 0; the second
//!   stops at once.

mod answer;
mod backup;
mod bodies;
mod body;
mod bulk;
mod connections;
mod descriptors;
mod front;
mod indexes;
mod ingest;
mod metrics;
mod origin;
mod partitions;
mod quarantine;
mod rollups;
mod routes;
mod scrub;
mod sql;
mod status;
mod tail;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use parking_lot::{Condvar, Mutex};
use query::Engine;
use storage::Store;
use tokio::net::TcpListener;

use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::wiring;
use bodies::{Bodies, Limits};
use connections::{Connections, Places};
use front::Front;
use metrics::Requests;
use tail::Tails;

pub(crate) use origin::check_host;

/// What is under way when the server is told to stop may take this long.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// What every handler gets.
#[derive(Debug)]
pub(crate) struct App {
    store: Arc<Store>,
    engine: Engine,
    config: Config,
    started: Instant,
    started_at: SystemTime,
    stop: Stop,
    /// Differences that `verify` and the scrub have found since the start.
    mismatches: AtomicU64,
    /// Windows that the scrub has verified.
    scrubbed: AtomicU64,
    /// Rollups that it could not verify.
    scrub_failures: AtomicU64,
    /// The last thing that it found wrong.
    scrub_error: Mutex<Option<String>>,
    requests: Requests,
    bodies: Bodies,
    /// Connections that are open.
    connections: Arc<AtomicUsize>,
    tails: Arc<Tails>,
    bulk: bulk::Bulk,
    unacknowledged: ingest::Unacknowledged,
    /// Places of requests that are parsed: rows take far more memory than their lines.
    parsing: Arc<tokio::sync::Semaphore>,
}

/// Told once, heard by everyone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<(Mutex<bool>, Condvar, tokio::sync::Notify)>);

impl Stop {
    /// Says that it is time.
    pub(crate) fn set(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
        self.0.2.notify_waiters();
    }

    /// Whether it is time.
    pub(crate) fn is_set(&self) -> bool {
        *self.0.0.lock()
    }

    /// Waits for at most `time`; whether it is time.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let mut set = self.0.0.lock();
        if !*set {
            self.0.1.wait_for(&mut set, time);
        }
        *set
    }

    async fn heard(&self) {
        let notified = self.0.2.notified();
        if !self.is_set() {
            notified.await;
        }
    }
}

/// Serves `data` until told to stop; `ready` gets the address.
pub(crate) fn run(
    config: &Config,
    data: &Path,
    ready: impl FnOnce(SocketAddr),
) -> Result<ExitCode> {
    run_with(config, data, ready, |_, stop| {
        while !stop.wait(Duration::from_secs(3600)) {}
        Ok(())
    })
}

/// As [`run`], with something that goes on beside; the server stops when told to, `beside` with it.
pub(crate) fn run_with(
    config: &Config,
    data: &Path,
    ready: impl FnOnce(SocketAddr),
    beside: impl FnOnce(Arc<Store>, Stop) -> Result<()> + Send,
) -> Result<ExitCode> {
    let address = loopback(&config.server.http)?;
    descriptors::raise_limit();
    let places = Places::within(config.server.connections_max, descriptors::limit());
    if places.connections < config.server.connections_max {
        tracing::warn!(
            "{} connections at once instead of server.connections_max = {}: they take at most half of the file descriptors that `ulimit -n` gives",
            places.connections,
            config.server.connections_max
        );
    }
    let store = Arc::new(wiring::open_served(data, config)?);
    let stop = Stop::default();
    listen_for_signals(&stop)?;
    let app = Arc::new(App {
        store: Arc::clone(&store),
        engine: wiring::engine(config)?,
        config: config.clone(),
        started: Instant::now(),
        started_at: SystemTime::now(),
        stop: stop.clone(),
        mismatches: AtomicU64::new(0),
        scrubbed: AtomicU64::new(0),
        scrub_failures: AtomicU64::new(0),
        scrub_error: Mutex::new(None),
        requests: Requests::default(),
        bodies: Bodies::new(Limits::of(&config.server)),
        connections: Arc::default(),
        // Half of the places are for those who do not stay.
        tails: Arc::new(Tails::new(
            config.server.tails_max.min(places.connections / 2),
        )),
        bulk: bulk::Bulk::start()?,
        unacknowledged: ingest::Unacknowledged::default(),
        parsing: Arc::new(tokio::sync::Semaphore::new(ingest::PARSING_MAX)),
    });
    let runtime = wiring::runtime()?;
    let listener = runtime.block_on(TcpListener::bind(address)).map_err(|e| {
        Failure::new(
            crate::failure::FAILED,
            format!("cannot listen at {address}: {e}"),
        )
    })?;
    let address = listener.local_addr()?;
    store.announce(&address.to_string())?;
    ready(address);
    let outcome = std::thread::scope(|scope| {
        let beside_store = Arc::clone(&store);
        let beside_stop = stop.clone();
        let side = scope.spawn(move || {
            let outcome = beside(beside_store, beside_stop.clone());
            if outcome.is_err() {
                beside_stop.set();
            }
            outcome
        });
        let scrubbed = Arc::clone(&app);
        let scrub = std::thread::Builder::new().name("logmill-scrub".into());
        let handle = runtime.handle().clone();
        let scrub = scrub.spawn_scoped(scope, move || scrub::run(&scrubbed, &handle));
        if let Err(error) = scrub {
            tracing::error!(%error, "there will be no scrub");
        }
        let connections = Connections::new(
            Arc::new(Front::new(Arc::clone(&app), address)),
            stop.clone(),
            places,
            config.server.answer_time_max.0,
            Arc::clone(&app.connections),
        );
        drop(app);
        runtime.block_on(connections.accept(&listener));
        stop.set();
        side.join()
            .unwrap_or_else(|_| Err(Failure::new(crate::failure::FAILED, "a thread panicked")))
    });
    runtime.shutdown_timeout(FINISH_WITHIN);
    match Arc::into_inner(store) {
        Some(store) => store.close()?,
        // A query that ignores its end still holds the store: what is acknowledged is in the journal.
        None => tracing::warn!(
            "a request did not end in time; the store is left to recover at its next start"
        ),
    }
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Without authentication only this machine may ask.
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

fn listen_for_signals(stop: &Stop) -> Result<()> {
    let stop = stop.clone();
    let heard = AtomicUsize::new(0);
    ctrlc::set_handler(move || {
        if heard.fetch_add(1, Ordering::SeqCst) > 0 {
            std::process::exit(130);
        }
        stop.set();
    })
    .map_err(|e| {
        Failure::new(
            crate::failure::FAILED,
            format!("cannot listen for signals: {e}"),
        )
    })
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
        // Bodies are limited where they are read, after decompression too.
        .layer(DefaultBodyLimit::disable())
        .with_state(app)
}

/// The page and its assets; anything else is not here.
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
