//! An object store under one prefix: its few calls, and the one that S3's protocol reaches.

mod fetched;
mod s3;

pub(crate) use fetched::FetchedRuns;
pub use s3::{CacheSettings, S3Depot, S3Settings};

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use crate::env::FsFile;
use crate::error::Error;

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

/// Adds the call and the object to an error.
pub(crate) fn failed(depot: &dyn Depot, op: &'static str, name: &str, source: io::Error) -> Error {
    let path = object_path(depot, name);
    // Its text may begin with the address.
    let text = source.to_string();
    let bare = text.strip_prefix(&format!("{}: ", path.display()));
    let source = match bare {
        Some(reason) => io::Error::new(source.kind(), reason.to_owned()),
        None => source,
    };
    Error::Io { op, path, source }
}

/// Returns the address of an object.
pub(crate) fn object_path(depot: &dyn Depot, name: &str) -> PathBuf {
    PathBuf::from(format!("{}/{name}", depot.url()))
}
