//! Pieces of an object in memory, read as a file is.

use std::io;
use std::ops::Range;

use bytes::Bytes;

use super::Depot;
use crate::env::FsFile;

/// Runs of bytes of an object.
#[derive(Debug)]
pub(crate) struct FetchedRuns {
    runs: Vec<(Range<u64>, Bytes)>,
}

impl FetchedRuns {
    /// Fetches runs of bytes.
    pub(crate) fn fetch(depot: &dyn Depot, name: &str, runs: Vec<Range<u64>>) -> io::Result<Self> {
        let read = depot.get(name, &runs)?;
        let whole = |(run, bytes): &(Range<u64>, Bytes)| bytes.len() as u64 == run.end - run.start;
        let runs: Vec<_> = runs.into_iter().zip(read).collect();
        match runs.iter().all(whole) {
            true => Ok(Self { runs }),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl FsFile for FetchedRuns {
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + into.len() as u64;
        let holds = |(run, _): &&(Range<u64>, Bytes)| run.start <= offset && end <= run.end;
        let (run, bytes) = self.runs.iter().find(holds).ok_or_else(unsupported)?;
        let from = usize::try_from(offset - run.start).map_err(io::Error::other)?;
        into.copy_from_slice(&bytes[from..from + into.len()]);
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Err(unsupported())
    }
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(unsupported())
    }
    fn sync_data(&self) -> io::Result<()> {
        Err(unsupported())
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(unsupported())
    }
}

/// Returns the error of a call that no reader of pieces makes.
fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}
