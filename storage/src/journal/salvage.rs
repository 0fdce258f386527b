//! Salvages a damaged journal: reads every group that validates by itself.

use std::path::Path;

use super::reader::{Group, group_at};
use super::{BadHeader, DIR, HEADER_LEN, SegmentHeader, segment_of, segment_path};
use crate::env::{Fs, IoContext};
use crate::error::Result;

/// A range of a segment that has bytes, but no valid group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) segment: u64,
    /// Bytes from the start of the segment, half-open.
    pub(crate) bytes: (u64, u64),
}

/// The valid rest of a damaged journal.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    /// Valid groups, in the order of their sequence numbers.
    pub(crate) groups: Vec<Group>,
    pub(crate) holes: Vec<Hole>,
    /// All segments that exist, from the floor on.
    pub(crate) segments: Vec<u64>,
    /// Exclusive end of the sequence numbers found.
    pub(crate) end_seq: u64,
}

/// Reads every segment from `floor` on and takes its valid groups, whatever is between them.
/// Groups below `sealed_seq` are left out: their events are in parts.
pub(crate) fn salvage(
    fs: &dyn Fs,
    data: &Path,
    store_id: &str,
    floor: u64,
    sealed_seq: u64,
) -> Result<Salvage> {
    let mut found = Salvage {
        segments: numbers(fs, data)?,
        end_seq: sealed_seq,
        ..Salvage::default()
    };
    found.segments.retain(|s| *s >= floor);
    for segment in found.segments.clone() {
        let path = segment_path(data, segment);
        // A segment with a sector that cannot be read is lost as a whole.
        let bytes = fs.read(&path).unwrap_or_default().into();
        found.take(segment, &bytes, store_id);
    }
    found
        .groups
        .retain(|g| g.end_seq() > Some(sealed_seq) || g.items == 0);
    Ok(found)
}

/// Returns the numbers of the existing segments, in order; none when there is no folder.
fn numbers(fs: &dyn Fs, data: &Path) -> Result<Vec<u64>> {
    let dir = data.join(DIR);
    if !fs.is_dir(&dir) {
        return Ok(Vec::new());
    }
    let names = fs.list(&dir).at("list", &dir)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_of(n)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the headers of the readable segments, in order.
pub(crate) fn headers(fs: &dyn Fs, data: &Path) -> Result<Vec<SegmentHeader>> {
    let mut found = Vec::new();
    for segment in numbers(fs, data)? {
        let bytes = fs.read(&segment_path(data, segment)).unwrap_or_default();
        match SegmentHeader::decode(&bytes) {
            Ok((header, _)) => found.push(header),
            Err(bad @ BadHeader::Format(_)) => return Err(bad.at(&segment_path(data, segment))),
            Err(BadHeader::Damaged(_)) => {}
        }
    }
    Ok(found)
}

impl Salvage {
    fn take(&mut self, segment: u64, bytes: &bytes::Bytes, store_id: &str) {
        let header = SegmentHeader::decode(bytes).ok().map(|h| h.0);
        let (mut at, mut end) = (HEADER_LEN as usize, HEADER_LEN as usize);
        match &header {
            // Groups of another store are ignored.
            Some(header) if header.store_id != store_id => at = bytes.len(),
            Some(_) => {}
            None => end = 0,
        }
        while at < bytes.len() {
            let group = group_at(bytes, at).filter(|g| g.first_seq >= self.end_seq);
            let Some((group, end_seq)) = group.and_then(|g| g.end_seq().map(|end| (g, end))) else {
                at += 8;
                continue;
            };
            self.hole(segment, bytes, (end, at));
            at = usize::try_from(group.end).unwrap_or(bytes.len());
            end = at;
            at = at.next_multiple_of(8);
            self.end_seq = end_seq;
            self.groups.push(group);
        }
        self.hole(segment, bytes, (end, bytes.len()));
    }

    /// Records a range as a hole, unless it is just the zeros between groups.
    fn hole(&mut self, segment: u64, bytes: &bytes::Bytes, (from, to): (usize, usize)) {
        let lost = bytes.get(from..to).unwrap_or_default();
        // A segment without a valid header may have held groups, even when its bytes are zeros
        // now.
        let headless = from == 0 && to > 0;
        if headless || bytes.is_empty() || lost.iter().any(|b| *b != 0) {
            self.holes.push(Hole {
                segment,
                bytes: (from as u64, to as u64),
            });
        }
    }

    /// Returns a number beyond all that the holes may have held: no item takes less than a byte.
    pub(crate) fn next_seq(&self) -> u64 {
        self.end_seq
            + self
                .holes
                .iter()
                .map(|h| h.bytes.1 - h.bytes.0)
                .sum::<u64>()
    }

    /// Returns the last segment that exists.
    pub(crate) fn last_segment(&self) -> Option<u64> {
        self.segments.last().copied()
    }
}
