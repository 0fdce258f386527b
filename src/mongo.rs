//! The MongoDB listener: OP_MSG over the store, for programs that use a driver of MongoDB.
//!
//! It answers as a `mongos`, so that drivers attach `(lsid, txnNumber)` to their inserts and repeat
//! one whose answer was lost. Databases are ignored but for `admin`, `local` and `config`: a
//! collection is a stream of the store ([`namespace`]).
//!
//! # Invariants
//! * Every command runs within the share and the rights of its client; a revoked account is refused
//!   at its next command.
//! * An insert is one batch. Under `(lsid, txnNumber)` it is stored once, however often it comes.
//! * An insert is acknowledged after its write concern is reached; a concern that the store does
//!   not give is refused before anything is stored.
//! * No bytes of a client make the memory of a connection grow beyond a bound.

mod command;
mod commands;
mod concern;
mod counted;
mod counters;
mod cursor;
mod document;
mod error;
mod hello;
mod login;
mod message;
mod namespace;
mod reading;
mod session;
mod source;
mod tail;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::counters::KnownCounters;
use self::cursor::Cursors;
use self::session::MongoConnection;
use crate::config::Config;
use crate::failure::Result;
use crate::listen::{Accepted, Address, Beyond, Listener, Protocol, local_address};
use crate::serve::{ClientPlace, DECODED_KIB_MAX, Length, OpenService, Serving, Share};
use crate::shippers::log_beyond;

/// The port of an address without one.
const PORT: u16 = 27017;
/// Maximum KiB of large messages that are read at once, of all connections.
const LARGE_KIB_MAX: usize = 128 << 10;

/// Bytes of memory for each byte of a command that reads: an item of an array has 11 bytes there
/// and 112 here, the filter has a copy, and the query another one.
const DECODED_GROWTH: usize = 32;

/// Memory for a decoded command, given back when it is dropped.
struct DecodingPlace {
    _of_client: Option<ClientPlace>,
    _of_all: OwnedSemaphorePermit,
}

/// The MongoDB protocol of a listener.
#[derive(Debug)]
struct Mongo {
    serving: Arc<Serving>,
    /// The memory for large messages of all connections, KiB.
    large: Arc<Semaphore>,
    /// The memory for decoded commands that read, KiB.
    decoded: Arc<Semaphore>,
    cursors: Cursors,
    counters: KnownCounters,
    /// The number of the next connection.
    next: AtomicI32,
}

impl Mongo {
    fn next_number(&self) -> i32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for memory to decode a command that reads, first in the share of its client: one that
    /// waits for others of its client keeps none from other clients. A short one needs not wait.
    async fn decoding(&self, share: &Share, length: usize) -> Option<DecodingPlace> {
        if Length::of(length) == Length::Short {
            return None;
        }
        let kib = (length >> 10).saturating_mul(DECODED_GROWTH);
        let of_client = share.decode(kib).await;
        let kib = u32::try_from(kib.min(DECODED_KIB_MAX)).unwrap_or(u32::MAX);
        let of_all = Arc::clone(&self.decoded).acquire_many_owned(kib).await;
        Some(DecodingPlace {
            _of_client: of_client,
            _of_all: of_all.expect("BUG: the semaphore is never closed"),
        })
    }

    /// Returns the maximum bytes of a message: a batch that the store takes, and a command around
    /// it.
    fn message_bytes_max(&self) -> usize {
        let batch = self.serving.config.server.batch_bytes_max.0;
        let batch = usize::try_from(batch).unwrap_or(usize::MAX);
        batch
            .saturating_add(message::COMMAND_BYTES_MAX)
            .min(message::BYTES_MAX)
    }
}

/// Returns the MongoDB listener of the configuration; `None` if it is off.
///
/// # Errors
/// If the address cannot be parsed.
pub(crate) fn mongo(config: &Config) -> Result<Option<OpenService>> {
    let Some(address) = Address::parse("--mongo", &config.server.mongo, PORT)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |serving| {
        let listener = address.bind(serving)?;
        let local = local_address(listener.local_addr()?);
        println!("MongoDB clients: mongodb://{local}/logmill");
        let mongo = Mongo {
            serving: Arc::clone(serving),
            large: Arc::new(Semaphore::new(LARGE_KIB_MAX)),
            decoded: Arc::new(Semaphore::new(DECODED_KIB_MAX)),
            cursors: Cursors::default(),
            counters: KnownCounters::default(),
            next: AtomicI32::new(1),
        };
        Ok(Some(Box::new(Listener::new(
            "mongo", serving, listener, mongo,
        ))))
    })))
}

impl Protocol for Mongo {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        if let Some(connection) = MongoConnection::of(&self, accepted).await {
            Box::pin(connection.run()).await;
        }
    }

    /// Closes the connection: drivers try again.
    async fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        _has_request: Arc<AtomicBool>,
    ) {
        log_beyond("MongoDB", &accepted, limit);
    }
}
