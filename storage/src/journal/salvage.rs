//! What can be had of a damaged journal: every group that validates by itself.

use std::path::Path;

use super::reader::{Group, group_at};
use super::{BadHeader, DIR, HEADER_LEN, SegmentHeader, segment_of, segment_path};
use crate::env::{Fs, IoContext};
use crate::error::Result;

/// A stretch of a segment in which no group validates, though bytes are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) segment: u64,
    /// Bytes from the start of the segment, half-open.
    pub(crate) bytes: (u64, u64),
}

/// What a damaged journal still holds.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    /// In the order of their sequence numbers.
    pub(crate) groups: Vec<Group>,
    pub(crate) holes: Vec<Hole>,
    /// Every segment that is there.
    pub(crate) segments: Vec<u64>,
    /// Exclusive end of the sequence numbers found.
    pub(crate) end_seq: u64,
}

/// Reads every segment from `floor` on and takes what validates, whatever lies between. Groups below
/// `sealed_seq` are not needed any more.
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
        // A sector that cannot be read takes its segment with it.
        let bytes = fs.read(&path).unwrap_or_default().into();
        found.take(segment, &bytes, store_id);
    }
    found
        .groups
        .retain(|g| g.first_seq + u64::from(g.items) > sealed_seq || g.items == 0);
    Ok(found)
}

/// The segments that lie there, in their order; none where there is no folder for them.
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

/// The headers of the segments that can be read, in their order.
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
            // Another store's groups are none of ours.
            Some(header) if header.store_id != store_id => at = bytes.len(),
            Some(_) => {}
            None => end = 0,
        }
        while at < bytes.len() {
            let Some(group) = group_at(bytes, at).filter(|g| g.first_seq >= self.end_seq) else {
                at += 8;
                continue;
            };
            self.hole(segment, bytes, (end, at));
            at = usize::try_from(group.end).unwrap_or(bytes.len());
            end = at;
            at = at.next_multiple_of(8);
            self.end_seq = group.first_seq + u64::from(group.items);
            self.groups.push(group);
        }
        self.hole(segment, bytes, (end, bytes.len()));
    }

    /// Notes a stretch that is not just the zeros between groups.
    fn hole(&mut self, segment: u64, bytes: &bytes::Bytes, (from, to): (usize, usize)) {
        let lost = bytes.get(from..to).unwrap_or_default();
        // A segment without a header may have held anything, whatever its bytes are now.
        let headless = from == 0 && to > 0;
        if headless || bytes.is_empty() || lost.iter().any(|b| *b != 0) {
            self.holes.push(Hole {
                segment,
                bytes: (from as u64, to as u64),
            });
        }
    }

    /// A sequence number beyond any that the holes may have held: no item takes less than a byte.
    pub(crate) fn next_seq(&self) -> u64 {
        self.end_seq
            + self
                .holes
                .iter()
                .map(|h| h.bytes.1 - h.bytes.0)
                .sum::<u64>()
    }

    /// The last segment that is there.
    pub(crate) fn last_segment(&self) -> Option<u64> {
        self.segments.last().copied()
    }
}
