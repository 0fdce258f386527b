//! The common part of the listeners for log shippers: who a sender is, and its way into the store.
//!
//! # Invariants
//! * These protocols have no login. A sender has the rights and the share of the user that its
//!   certificate names, or else of the token that the configuration names. Nothing of another
//!   sender is stored once the store has users or tokens ([`door`]).
//! * The rights of a sender are looked up again for each of its batches.
//! * A message is acknowledged, where its protocol has a word for it, after the store has reached
//!   the write concern of its stream. A sender that is not acknowledged is not read from beyond a
//!   bound ([`gather`]).

mod caller;
mod door;
mod gather;
mod seldom;

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use ingest::Records;

use crate::listen::{Accepted, Beyond};
use crate::serve::Serving;
pub(crate) use caller::Caller;
pub(crate) use door::Door;
pub(crate) use gather::{GatherOptions, Gatherer, NotStored};
pub(crate) use seldom::Seldom;

/// Bytes of messages that a connection hands over at once, when it has so many.
pub(crate) const CHUNK_BYTES_MAX: usize = 128 << 10;
/// Bytes that a message counts for beside its own, where many wait: its place in a list.
const MESSAGE_BYTES: usize = 32;
/// Maximum bytes of one message. What is longer is quarantined with its beginning.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Returns the bytes that messages count for while they wait.
pub(crate) fn held_bytes(messages: &Records) -> usize {
    messages.bytes() + MESSAGE_BYTES * messages.len()
}

/// Notes that a connection beyond a limit is closed: these protocols have no word for it, and
/// clients try again later.
pub(crate) fn log_beyond(protocol: &str, accepted: &Accepted, limit: Beyond) {
    let (_, why, hint) = limit.explained();
    tracing::debug!(ends = ?accepted.ends(), "a {protocol} connection was closed: {why}; {hint}");
}

/// Counts a connection that is closed because its bytes are none of its protocol, and logs it.
pub(crate) fn log_malformed(
    (serving, seldom): (&Serving, &Seldom),
    protocol: &str,
    from: IpAddr,
    why: impl Display,
) {
    serving.shippers.malformed.fetch_add(1, Ordering::Relaxed);
    if seldom.is_due() {
        tracing::warn!(%from, "a {protocol} connection was closed: {why}");
    }
}
