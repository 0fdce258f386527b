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

pub(crate) use caller::{Caller, PART_WITHIN, SILENT_WITHIN};
pub(crate) use door::Door;
pub(crate) use gather::{GatherOptions, Gatherer, NotStored};
pub(crate) use seldom::Seldom;

/// Bytes of messages that a connection hands over at once, when it has so many.
pub(crate) const CHUNK_BYTES_MAX: usize = 128 << 10;
/// Maximum bytes of one message. What is longer is quarantined with its beginning.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;
