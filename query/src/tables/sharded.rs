//! Tables of several stores: this one and its peers.
//!
//! A plan over streams of several stores is divided (`plan/divide.rs`): each store gets a
//! [`Fragment`] and answers it with its own engine, from its own parts, indexes and rollups
//! (`peer_answers.rs`). Levels and documents are made of the cells of all stores, merged here
//! ([`PeerCells`]). System tables have the rows of each store beside those of the others.
//!
//! # Invariants
//! * Each store takes part in one state, which all parts of a question read.
//! * An answer has the part of every store, or it is an error that names the store; only a question
//!   that is partial does without the peers that are gone. A peer whose part the question's own
//!   conditions show to be empty is not asked for it (`pruning.rs`).
//! * A level has the cells of all stores with the stream. All of them have the rollup, under the
//!   same definition; otherwise the level is an error.

mod agreed;
mod cells;
pub(crate) mod fragment;
pub(crate) mod frame;
mod peer;
pub(crate) mod pruning;
mod remote;
pub(crate) mod request;
mod streams;
mod system;

pub(crate) use agreed::LastAgreed;
pub use agreed::agreed_stream;
pub(crate) use cells::PeerCells;
#[cfg(doc)]
use fragment::Fragment;
pub use peer::{GonePeer, Peer, PeerBytes, PeerTables, StreamColumns};
pub(crate) use remote::{RemoteTable, peers_of};
pub(crate) use streams::{ShardedTable, Shards};
