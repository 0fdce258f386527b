//! The object store in which a store keeps its sealed files, where it has one.
//!
//! The data directory stays: it holds the journal, the indexes, and copies of sealed files. What
//! counts is in the object store, under one prefix:
//!
//! ```text
//! streams/…  rollups/…  identities/…        sealed files, by the names that they have in the directory
//! manifest/VERSION-NONCE.manifest           bodies of manifests
//! CURRENT                                   the pointer to the newest body: writing it is the commit
//! ```
//!
//! # Invariants
//! 1. `CURRENT` changes by compare-and-swap alone, and each content of it has a nonce of its own.
//!    So one of several writers commits, and a writer recognises its own commit when the answer
//!    was lost or says that it lost (`depot/commit.rs`).
//! 2. A file is in the object store before a manifest names it, and its name never stands for
//!    other bytes (`file_id.rs`). Putting it twice, or late, changes nothing.
//! 3. A writer takes its epoch by a commit (`store/open.rs`). After that no writer of a lower
//!    epoch commits, so files of lower epochs that the manifest does not know belong to nobody.
//! 4. A file that a commit dropped is deleted once that commit is certain and
//!    [`crate::store::Config::grace_us`] have passed by the writer's own clock, which counts from
//!    its start. A reader that is slower gets an error, never other bytes.
//! 5. The manifest in the data directory is that of `CURRENT`, or the one before it: the commit
//!    comes first, and the next start writes what is missing (`depot/adopt.rs`).

mod adopt;
mod commit;
mod current;
mod fetched;
mod garbage;
mod mark;
mod s3;

pub(crate) use adopt::{Tenure, settle};
pub(crate) use commit::{DepotOwner, Published, failed, newest, pointer};
pub(crate) use fetched::FetchedRuns;
pub(crate) use garbage::{Dropped, delete_orphans};
#[cfg(test)]
pub(crate) use mark::owner_id;
pub(crate) use mark::{refuse_marked, refuse_without_depot};
pub use s3::{CacheSettings, S3Depot, S3Settings};

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use crate::env::FsFile;

/// The version of `CURRENT` that the object store has given: its `ETag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(pub String);

/// The bytes of an object that is put.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Bytes in memory.
    Bytes(&'a Bytes),
    /// A file of the data directory.
    File(&'a dyn FsFile),
}

/// The answer to a compare-and-swap of `CURRENT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// It happened.
    Done(Tag),
    /// The object store says that `CURRENT` was not as expected. An attempt before, of the same
    /// request, may have changed it: only a look at `CURRENT` tells.
    Refused,
}

/// An object store, under one prefix.
///
/// Names are paths with `/`. Each call returns when it has an answer or after a bounded time; after
/// an error it may have happened, happen later, or not at all.
pub trait Depot: Send + Sync + Debug {
    /// Returns the address, without secrets: `s3://bucket/prefix`.
    fn url(&self) -> &str;

    /// Stores an object.
    fn put(&self, name: &str, content: Content<'_>) -> io::Result<()>;

    /// Stores several objects; one after the other, unless the implementation can do better.
    fn put_all(&self, objects: &[(&str, Content<'_>)]) -> io::Result<()> {
        let mut objects = objects.iter();
        objects.try_for_each(|(name, content)| self.put(name, *content))
    }

    /// Returns the bytes of each range of an object.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such object, [`io::ErrorKind::UnexpectedEof`] if
    /// it ends before a range does.
    fn get(&self, name: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>>;

    /// Deletes objects. One that is not there is no error.
    fn delete(&self, names: &[String]) -> io::Result<()>;

    /// Returns the names of all objects whose name begins with `prefix`, unsorted.
    fn list(&self, prefix: &str) -> io::Result<Vec<String>>;

    /// Returns the content of `CURRENT` with its tag; `None` if there is none.
    fn load_current(&self) -> io::Result<Option<(Bytes, Tag)>>;

    /// Replaces `CURRENT` if its tag is `expected`; creates it if that is `None` and there is
    /// none.
    fn swap_current(&self, expected: Option<&Tag>, content: &Bytes) -> io::Result<Swap>;

    /// Forgets what is cached of an object: its bytes were found to be wrong.
    fn forget(&self, name: &str) {
        let _ = name;
    }

    /// Makes sure that the object store refuses what [`Depot::swap_current`] needs refused, before
    /// the first commit there.
    ///
    /// # Errors
    /// An error with the reason when it does not, or cannot be reached.
    fn check_conditions(&self) -> io::Result<()> {
        Ok(())
    }

    /// Waits before a call is made again for the `attempt`-th time.
    fn pause(&self, attempt: u32) {
        std::thread::sleep(Duration::from_millis(50 << attempt.min(6)));
    }
}
