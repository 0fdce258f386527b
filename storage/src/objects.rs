//! The object store of a store: where its sealed files are, and where its manifest is committed.
//!
//! The data directory stays: it holds the journal, the indexes, and copies of sealed files. The
//! object store has, under one prefix:
//!
//! ```text
//! streams/…  rollups/…  identities/…     sealed files, named as in the directory
//! manifest/VERSION-NONCE.manifest        bodies of manifests
//! CURRENT                                the pointer to the newest body: writing it is the commit
//! ```
//!
//! # Invariants
//! 1. `CURRENT` changes by compare-and-swap alone, and each content of it has a nonce of its own.
//!    So one of several writers commits, and a writer recognises its own commit when the answer
//!    was lost or says that it lost (`objects/commit.rs`).
//! 2. A file is in the object store before a manifest names it: a commit puts those that are not.
//!    Its name never stands for other bytes (`file_id.rs`), so putting it twice, or late, changes
//!    nothing.
//! 3. A writer takes its epoch by a commit (`store/open.rs`). After that no writer of a lower
//!    epoch commits, so files of lower epochs that the manifest does not know belong to nobody.
//! 4. A file that a commit dropped is deleted once that commit is certain and
//!    [`crate::store::Config::grace_us`] have passed by the writer's own clock, which counts from
//!    its start. A reader that is slower gets an error, never other bytes.
//! 5. The manifest in the data directory is that of `CURRENT`, or the one before it: the commit
//!    comes first, and the next start writes the rest (`objects/adopt.rs`).

mod adopt;
mod commit;
mod current;
mod files;
mod garbage;
mod mark;
mod writer;

pub use adopt::Adoption;
pub(crate) use adopt::{Newcomer, Tenure, clear, settle};
pub(crate) use commit::{DepotOwner, Published, newest, pointer};
pub(crate) use garbage::{Dropped, delete_orphans, earlier_bodies};
#[cfg(test)]
pub(crate) use mark::owner_id;
pub(crate) use mark::{refuse_marked, refuse_without_depot};
pub use writer::writer_address;

#[cfg(test)]
mod tests;
