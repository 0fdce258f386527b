//! The Arrow Flight SQL listener: answers as Arrow batches over gRPC
//! (Arrow's documentation, "Arrow Flight RPC" and "Arrow Flight SQL").
//!
//! # Invariants
//! * Every call is admitted like a request over HTTP, and asks within the share and the rights of
//!   its client ([`front`]). A ticket or a statement gives no rights: it is the text of a question,
//!   which is asked anew under the rights of the client that fetches its answer.
//! * Answers stream: the memory of a call does not grow with its answer. A client that takes
//!   nothing of an answer for `server.answer_time_max` loses it, and its query ends ([`answers`]).
//! * The messages of clients, the statements that the server keeps for them, and the time of a
//!   connection without calls have bounds.

mod answers;
mod body;
mod catalog;
mod dialect;
mod front;
mod protobuf;
mod service;
mod sql;
mod sql_info;
mod statements;
mod status;
mod values;

use std::net::SocketAddr;
use std::sync::Arc;

use self::front::Front;
use crate::config::Config;
use crate::failure::Result;
use crate::grpc::Grpc;
use crate::listen::{Address, Listener, local_address};
use crate::serve::OpenService;

/// The port of an address without one: the one of Arrow's examples.
const PORT: u16 = 8815;
/// The catalog and database, as clients name it.
const DATABASE: &str = "logmill";
/// The header by which InfluxDB's clients, Grafana among them, name the database.
const DATABASE_HEADER: &str = "database";

/// Returns the Flight SQL listener of the configuration; `ready` is called with the URI by which
/// clients on this machine reach it. Returns `None` if it is off.
///
/// # Errors
/// If the address cannot be parsed.
pub(crate) fn flight(
    config: &Config,
    ready: impl FnOnce(&str) + 'static,
) -> Result<Option<OpenService>> {
    let Some(address) = Address::parse("--flight", &config.server.flight, PORT)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(move |serving| {
        let listener = address.bind(serving)?;
        let local = local_address(listener.local_addr()?);
        let calls = Arc::new(Front::new(serving));
        ready(&uri_of(local, serving.tls.is_some()));
        let service = Listener::new("flight", serving, listener, Grpc { calls });
        Ok(Some(Box::new(service)))
    })))
}

/// Returns the URI of an address, as ADBC takes it.
fn uri_of(address: SocketAddr, has_tls: bool) -> String {
    let scheme = if has_tls { "grpc+tls" } else { "grpc" };
    format!("{scheme}://{address}")
}
