//! Followed files: the paths that arguments stand for, the files at them, and their state.
//!
//! Files are looked at in turns; the kernel reports nothing. A look costs one system call for each
//! file, and works on every file system, on those of other machines too. Events of the kernel would
//! have to be checked by looks all the same: they are dropped under load, and no file system of the
//! network sends them.
//!
//! # Invariants
//! 1. A file is known by its open descriptor while the shipper runs: neither a new name nor a
//!    deletion ends it before it was read to its end. Another file under its name is another file.
//! 2. Bytes are read from a file only while it has the bytes that the guard of its position
//!    remembers (`follow/guard.rs`), checked before the read and after it.
//! 3. At most one thread reads a file, and sends what it read before it reads on.

mod compare;
mod guard;
mod table;
mod targets;
mod tracked;

pub(crate) use compare::{Relation, compare};
pub(crate) use guard::Guard;
pub(crate) use table::{FollowedFiles, FoundFile};
pub(crate) use targets::{ShipTarget, paths};
pub(crate) use tracked::{FileStamp, FileState, ShipPosition, Tracked};
