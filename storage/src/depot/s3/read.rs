//! Reads ranges of an object by requests of bounded length.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::{GetOptions, GetRange};

use super::{RemoteObject, io_error, limited};

/// Bytes that one request asks for at most. An attempt has 30 seconds, so that four of them need
/// about ten megabits per second.
pub(super) const PIECE_BYTES: u64 = 8 << 20;
/// Bytes between two ranges that are read along rather than with a second request.
pub(super) const GAP_BYTES: u64 = 256 << 10;
/// Requests of one read at a time.
const PARALLEL: usize = 4;

/// Bytes of an object from an offset on.
#[derive(Debug)]
pub(super) struct RemoteRun {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

impl RemoteRun {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Returns the pieces that cover all ranges: sorted, apart, and of [`PIECE_BYTES`] at most. Ranges
/// with up to `gap` bytes between them share pieces.
pub(super) fn pieces(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|r| !r.is_empty()).cloned().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    let split = |range: Range<u64>| {
        let starts = range.clone().step_by(PIECE_BYTES as usize);
        starts.map(move |start| start..range.end.min(start + PIECE_BYTES))
    };
    merged.into_iter().flat_map(split).collect()
}

/// Reads pieces. The last one is shorter where the object ends.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if there is no such object, [`io::ErrorKind::UnexpectedEof`] if
/// a piece begins behind its end.
pub(super) async fn fetch(
    object: &RemoteObject,
    pieces: Vec<Range<u64>>,
) -> io::Result<Vec<RemoteRun>> {
    let requests = pieces
        .into_iter()
        .map(|piece| fetch_one(object.clone(), piece));
    stream::iter(requests)
        .buffered(PARALLEL)
        .try_collect()
        .await
}

async fn fetch_one(object: RemoteObject, piece: Range<u64>) -> io::Result<RemoteRun> {
    let answer = limited(async {
        let options = GetOptions {
            range: Some(GetRange::Bounded(piece.clone())),
            ..GetOptions::default()
        };
        let got = object.store.get_opts(&object.path, options).await?;
        Ok((got.range.clone(), got.bytes().await?))
    });
    let (range, bytes) = answer.await.map_err(|e| io_error(&object.address, &e))?;
    if range.start != piece.start || range.end - range.start != bytes.len() as u64 {
        let text = format!("{}: the answer broke off", object.address);
        return Err(io::Error::other(text));
    }
    Ok(RemoteRun {
        start: range.start,
        bytes,
    })
}

/// Returns the bytes of each range. `runs` are sorted and apart.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] if they do not cover a range.
pub(super) fn cut_all(
    object: &RemoteObject,
    runs: &[RemoteRun],
    ranges: &[Range<u64>],
) -> io::Result<Vec<Bytes>> {
    let cut = |range| cut(runs, range).ok_or_else(|| ends_early(object, range));
    ranges.iter().map(cut).collect()
}

fn cut(runs: &[RemoteRun], range: &Range<u64>) -> Option<Bytes> {
    let mut parts = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let run = &runs[runs.partition_point(|run| run.end() <= at)..].first()?;
        if run.start > at {
            return None;
        }
        let end = run.end().min(range.end);
        let within = |offset: u64| usize::try_from(offset - run.start).ok();
        parts.push(run.bytes.slice(within(at)?..within(end)?));
        at = end;
    }
    match parts.len() {
        0 => Some(Bytes::new()),
        1 => parts.pop(),
        _ => Some(parts.concat().into()),
    }
}

fn ends_early(object: &RemoteObject, range: &Range<u64>) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("{}: it ends within bytes {range:?}", object.address),
    )
}
