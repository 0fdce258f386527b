//! The RELP listener: syslog messages that are acknowledged one by one
//! (librelp's `doc/relp.html`; version 0, which all clients speak).
//!
//! # Invariants
//! * A frame with a message is answered `200 OK` after the store has reached the write concern of
//!   its stream, and with nothing when it was not stored: the connection is closed, and its client
//!   sends the message again. librelp discards a message that is answered with anything else, so
//!   that `500` answers only what is no message.
//! * Messages that are not acknowledged have a bounded size and number; beyond it the connection
//!   is not read.
//! * A client that was not acknowledged sends again in a session of other numbers, and no frame
//!   says which message it holds: such a message may be stored twice, and only after its
//!   connection broke.

mod frame;
mod session;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ingest::Format;
use storage::Name;

use self::session::RelpSession;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::listen::{Accepted, Address, Beyond, Listener, Protocol, local_address};
use crate::serve::{OpenService, Serving};
use crate::shippers::{
    Caller, Door, GatherOptions, Gatherer, MESSAGE_BYTES_MAX, Seldom, log_beyond,
};
use crate::tls::Alpn;

/// The port of an address without one: that of the examples of rsyslog.
const PORT: u16 = 2514;

/// RELP as a protocol of a listener.
#[derive(Debug)]
struct Relp {
    serving: Arc<Serving>,
    door: Door,
    gatherer: Arc<Gatherer>,
    stream: Name,
    malformed: Seldom,
}

/// Returns the RELP listener of the configuration; `None` if it is off.
///
/// # Errors
/// If the address cannot be parsed.
pub(crate) fn relp(config: &Config) -> Result<Option<OpenService>> {
    let section = config.relp.clone();
    let Some(address) = Address::parse("--relp", &section.listen, PORT)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |serving| {
        let listener = address.bind(serving)?;
        println!("RELP: {}", local_address(listener.local_addr()?));
        let stream = Name::new(&section.stream).map_err(|e| Failure::config(e.to_string()))?;
        let token_file = section.token_file.as_deref();
        let options = GatherOptions {
            source: "relp",
            format: Format::Syslog,
            tz: section.timezone.as_deref().and_then(ingest::zone),
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        let relp = Relp {
            serving: Arc::clone(serving),
            door: Door::open(serving, "[relp]", token_file, &[&stream])?,
            gatherer: Gatherer::new(serving, options),
            stream,
            malformed: Seldom::default(),
        };
        Ok(Some(Box::new(Listener::new(
            "relp", serving, listener, relp,
        ))))
    })))
}

impl Protocol for Relp {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        if let Some(caller) = Caller::of(accepted, &self.serving, Alpn::Relp).await {
            RelpSession::serve(&self, caller).await;
        }
    }

    /// Closes the connection: its client tries again later, and has lost nothing.
    async fn serve_beyond(
        self: Arc<Self>,
        accepted: Accepted,
        limit: Beyond,
        _has_request: Arc<AtomicBool>,
    ) {
        log_beyond("RELP", &accepted, limit);
    }
}
