//! The PostgreSQL listener: protocol version 3 over the engine.
//!
//! # Invariants
//! * Every statement is asked within the share and the rights of its client ([`Serving::ask`]); a
//!   revoked account is refused at its next statement.
//! * Answers stream: the memory of a connection does not grow with its answer, and stays below a
//!   bound for what a client sends.
//! * A statement ends when its client cancels it, has gone, or its time is over.

mod cancel;
mod cells;
mod command;
mod copy;
mod error;
mod message;
mod parameters;
mod rows;
mod session;
mod settings;
mod startup;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use self::cancel::Sessions;
use self::error::{SqlError, state};
use self::session::Connection;
use crate::config::Config;
use crate::failure::Result;
use crate::listen::within_handshake;
use crate::listen::{Accepted, Address, Beyond, Listener, Protocol, local_address};
use crate::serve::{OpenService, Serving};

/// The port of an address without one.
const PORT: u16 = 5433;
/// Maximum KiB of large messages that are read or answered at once.
const LARGE_KIB_MAX: usize = 64 << 10;
/// The database, as clients name it.
const DATABASE: &str = "logmill";

/// The PostgreSQL protocol of a listener.
#[derive(Debug)]
struct Postgres {
    serving: Arc<Serving>,
    sessions: Arc<Sessions>,
    /// The memory for large messages of all connections, KiB.
    large: Arc<Semaphore>,
}

/// Returns the PostgreSQL listener of the configuration; `ready` is called with the address at
/// which clients on this machine reach it. Returns `None` if it is off. The server does without
/// it if nobody asked for its address, and that cannot be bound.
///
/// # Errors
/// If the address cannot be parsed.
pub(crate) fn postgres(
    config: &Config,
    ready: impl FnOnce(SocketAddr) + 'static,
) -> Result<Option<OpenService>> {
    let server = &config.server;
    let Some(address) = Address::parse("--postgres", &server.postgres, PORT)? else {
        return Ok(None);
    };
    let is_asked_for = server.has_postgres;
    Ok(Some(Box::new(move |serving| {
        let listener = match address.bind(serving) {
            Ok(listener) => listener,
            Err(error) if is_asked_for => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "PostgreSQL clients cannot connect; another address is set by --postgres");
                return Ok(None);
            }
        };
        let local = local_address(listener.local_addr()?);
        let postgres = Postgres {
            serving: Arc::clone(serving),
            sessions: Arc::default(),
            large: Arc::new(Semaphore::new(LARGE_KIB_MAX)),
        };
        ready(local);
        let service = Listener::new("postgres", serving, listener, postgres);
        Ok(Some(Box::new(service)))
    })))
}

impl Protocol for Postgres {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let stop = accepted.stop.clone();
        let started = within_handshake(&stop, startup::start(&self, accepted)).await;
        if let Some(started) = started.flatten() {
            Box::pin(Connection::new(&self, started).run()).await;
        }
    }

    async fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        has_request: Arc<AtomicBool>,
    ) {
        let stop = accepted.stop.clone();
        let (_, message, hint) = limit.explained();
        let error = SqlError::fatal(state::TOO_MANY_CONNECTIONS, message).hint(hint);
        has_request.store(true, Ordering::Relaxed);
        within_handshake(&stop, startup::refuse(&self, accepted, &error)).await;
    }
}
