//! An object store in memory that counts the requests that S3 would get.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Range, Sub};

use bytes::Bytes;
use parking_lot::Mutex;
use storage::{Content, Depot, Swap, Tag};

/// Bytes of the largest file that is put in one request: `PART_BYTES` of
/// `storage/src/depot/s3/upload.rs`.
const ONE_REQUEST_BYTES: u64 = 8 << 20;

/// Counts of requests. Deletions name many objects in one request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Requests {
    pub(crate) puts: u64,
    pub(crate) gets: u64,
    pub(crate) lists: u64,
    pub(crate) deletes: u64,
    /// Writes of `CURRENT` among the puts: the commits.
    pub(crate) commits: u64,
}

impl Sub for Requests {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            puts: self.puts - earlier.puts,
            gets: self.gets - earlier.gets,
            lists: self.lists - earlier.lists,
            deletes: self.deletes - earlier.deletes,
            commits: self.commits - earlier.commits,
        }
    }
}

/// Returns the requests that put an object of so many bytes: a large one is begun, sent in parts
/// and finished.
pub(crate) fn puts_of(bytes: u64) -> u64 {
    match bytes {
        0..=ONE_REQUEST_BYTES => 1,
        _ => bytes.div_ceil(ONE_REQUEST_BYTES) + 2,
    }
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Bytes>,
    current: Option<Bytes>,
    /// Number of the writes of `CURRENT`, which is its tag.
    swaps: u64,
    counted: Requests,
}

/// The object store.
#[derive(Debug, Default)]
pub(crate) struct MemoryDepot(Mutex<State>);

impl MemoryDepot {
    pub(crate) fn counted(&self) -> Requests {
        self.0.lock().counted
    }
}

fn tag(swaps: u64) -> Tag {
    Tag(swaps.to_string())
}

/// Returns a range of an object.
fn cut(object: &Bytes, range: &Range<u64>) -> io::Result<Bytes> {
    if range.end > object.len() as u64 || range.start > range.end {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let at = |at: u64| usize::try_from(at).map_err(io::Error::other);
    Ok(object.slice(at(range.start)?..at(range.end)?))
}

impl Depot for MemoryDepot {
    fn url(&self) -> &str {
        "s3://memory/bench"
    }

    fn put(&self, name: &str, content: Content<'_>) -> io::Result<()> {
        let bytes = match content {
            Content::Bytes(bytes) => bytes.clone(),
            Content::File(file) => {
                let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, 0)?;
                bytes.into()
            }
        };
        let mut state = self.0.lock();
        state.counted.puts += puts_of(bytes.len() as u64);
        state.objects.insert(name.to_owned(), bytes);
        Ok(())
    }

    fn get(&self, name: &str, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        let mut state = self.0.lock();
        state.counted.gets += ranges.len() as u64;
        let object = state.objects.get(name);
        let object = object.ok_or(io::ErrorKind::NotFound)?;
        ranges.iter().map(|range| cut(object, range)).collect()
    }

    fn delete(&self, names: &[String]) -> io::Result<()> {
        let mut state = self.0.lock();
        state.counted.deletes += 1;
        for name in names {
            state.objects.remove(name);
        }
        Ok(())
    }

    fn list(&self, prefix: &str) -> io::Result<Vec<String>> {
        let mut state = self.0.lock();
        state.counted.lists += 1;
        let names = state.objects.keys();
        Ok(names.filter(|n| n.starts_with(prefix)).cloned().collect())
    }

    fn load_current(&self) -> io::Result<Option<(Bytes, Tag)>> {
        let mut state = self.0.lock();
        state.counted.gets += 1;
        let tag = tag(state.swaps);
        Ok(state.current.clone().map(|current| (current, tag)))
    }

    fn swap_current(&self, expected: Option<&Tag>, content: &Bytes) -> io::Result<Swap> {
        let mut state = self.0.lock();
        state.counted.puts += 1;
        let there = state.current.is_some().then(|| tag(state.swaps));
        if there.as_ref() != expected {
            return Ok(Swap::Refused);
        }
        state.counted.commits += 1;
        state.swaps += 1;
        state.current = Some(content.clone());
        Ok(Swap::Done(tag(state.swaps)))
    }
}
