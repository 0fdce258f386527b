//! Reads the journal back, for a writer in recovery and for a reader beside a writer alike.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::mark;
use super::{
    BLOCK, DIR, GROUP_HEAD, GROUP_MAGIC, HEADER_LEN, Previous, RECORD_BATCH, RECORD_HEAD,
    SegmentHeader, segment_of, segment_path, u32_at, u64_at,
};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::model::SEQ_END_MAX;

/// Attempts to read a segment that a writer truncates at the same time.
const READ_TRIES: usize = 100;

/// One valid group.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) first_seq: u64,
    pub(crate) items: u32,
    crc: u32,
    previous_crc: u32,
    pub(crate) end: u64,
    /// Payloads of the records.
    pub(crate) records: Vec<Bytes>,
}

impl Group {
    /// Returns the exclusive end of the sequence numbers; `None` if they exceed the last one that
    /// a store can have.
    pub(crate) fn end_seq(&self) -> Option<u64> {
        let end = self.first_seq.checked_add(u64::from(self.items));
        end.filter(|end| *end <= SEQ_END_MAX)
    }
}

/// Result of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    /// The last segment and the end of its valid data, where a writer continues.
    pub(crate) last: Previous,
    /// Exclusive end of the sequence numbers found, 0 when there were none.
    pub(crate) next_seq: u64,
    /// Bytes of a torn tail after `last.end`, never acknowledged as synced.
    pub(crate) torn_bytes: u64,
}

/// Passes every group from segment `floor` on to `take`, oldest first.
///
/// A reader beside a writer ends with the segment that was the last when it began. Every event
/// acknowledged before is in that segment or an earlier one, and a reader might never catch up
/// with a fast writer.
///
/// # Errors
/// [`Error::Corrupt`] when anything but the tail of the last segment is damaged or missing, or
/// when a group after the damage records that the missing data had been synced.
pub(crate) fn replay(
    fs: &dyn Fs,
    data: &Path,
    store_id: &str,
    floor: u64,
    mut take: impl FnMut(Group) -> Result<()>,
) -> Result<Replay> {
    let mut found = Replay {
        last: Previous::default(),
        next_seq: 0,
        torn_bytes: 0,
    };
    // The mark is read before the segments are listed: a writer may begin another one meanwhile.
    let marked = mark::read(fs, data, store_id);
    let listed = segments(fs, data, floor)?;
    if marked >= floor && marked > listed.map_or(0, |(_, last)| last) {
        return Err(missing(segment_path(data, marked)));
    }
    let Some((first, last)) = listed else {
        return Ok(found);
    };
    for number in first..=last {
        let path = segment_path(data, number);
        let corrupt = |offset: u64, what: String| Error::Corrupt {
            path: path.clone(),
            offset,
            what,
        };
        let bytes = read_segment(fs, &path)?;
        let (header, header_crc) = SegmentHeader::decode(&bytes).map_err(|bad| bad.at(&path))?;
        check_header(&header, number, store_id, &found).map_err(|what| corrupt(0, what))?;
        let (mut at, mut crc) = (HEADER_LEN, header_crc);
        found.next_seq = found.next_seq.max(header.first_seq);
        while let Some(group) = next_group(&bytes, at, crc) {
            if group.first_seq < found.next_seq {
                return Err(corrupt(at, "sequence numbers are used twice".into()));
            }
            let end_seq = group.end_seq();
            found.next_seq =
                end_seq.ok_or_else(|| corrupt(at, "sequence numbers overflow".into()))?;
            at = group.end;
            crc = group.crc;
            take(group)?;
        }
        if number == last {
            let torn = torn_tail(&bytes, at, found.next_seq, header.writer_epoch);
            found.torn_bytes = torn.map_err(|what| corrupt(at, what))?;
        } else if sealed_end(fs, data, number + 1)? != (at, crc) {
            let what = "a group is damaged and another segment follows";
            return Err(corrupt(at, what.into()));
        }
        found.last = Previous {
            segment: number,
            end: at,
            crc,
        };
    }
    Ok(found)
}

/// Returns the first and the last segment from `floor` on. A store that has never sealed has
/// floor 0, and its first segment is 1.
fn segments(fs: &dyn Fs, data: &Path, floor: u64) -> Result<Option<(u64, u64)>> {
    let dir = data.join(DIR);
    let names = match fs.list(&dir) {
        // The folder is made before the first manifest: it was removed with all that was in it.
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        names => names.at("list", &dir)?,
    };
    let numbers = names.iter().filter_map(|n| segment_of(n));
    let numbers: Vec<u64> = numbers.filter(|s| *s >= floor).collect();
    let wanted = floor.max(1);
    match (numbers.iter().min(), numbers.iter().max()) {
        (Some(first), Some(last)) if *first == wanted => Ok(Some((*first, *last))),
        (None, _) if floor == 0 => Ok(None),
        _ => Err(missing(segment_path(data, wanted))),
    }
}

fn missing(path: PathBuf) -> Error {
    Error::Corrupt {
        path,
        offset: 0,
        what: "the segment is missing".into(),
    }
}

pub(super) fn read_segment(fs: &dyn Fs, path: &Path) -> Result<Bytes> {
    let mut tries = 0;
    loop {
        match fs.read(path) {
            Ok(bytes) => return Ok(bytes.into()),
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(missing(path.into())),
            // Between the call for the length and the read, the writer has cut off a group that
            // it could not write whole.
            Err(e) if e.kind() == ErrorKind::UnexpectedEof && tries < READ_TRIES => tries += 1,
            other => return other.map(Bytes::from).at("read", path),
        }
    }
}

fn check_header(
    header: &SegmentHeader,
    number: u64,
    store_id: &str,
    found: &Replay,
) -> Result<(), String> {
    if header.store_id != store_id {
        return Err(format!("it belongs to store {}", header.store_id));
    }
    if header.segment != number {
        return Err(format!("its header names segment {:x}", header.segment));
    }
    if found.last.segment != 0 && header.previous != found.last {
        return Err(format!(
            "the previous segment ends at byte {}, but its header says {}",
            found.last.end, header.previous.end
        ));
    }
    Ok(())
}

/// Returns the end of the previous segment and the checksum there, from the header of `number`.
pub(super) fn sealed_end(fs: &dyn Fs, data: &Path, number: u64) -> Result<(u64, u32)> {
    let path = segment_path(data, number);
    let file = match fs.open_read(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(missing(path)),
        other => other.at("open", &path)?,
    };
    let mut bytes = vec![0; HEADER_LEN as usize];
    let decoded = match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => SegmentHeader::decode(&bytes),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
            Err(format!("its header cannot be read: {e}").into())
        }
        // A failed call proves nothing about the data on the disk.
        Err(e) => return Err(e).at("read", &path),
    };
    let (header, _) = decoded.map_err(|bad| bad.at(&path))?;
    Ok((header.previous.end, header.previous.crc))
}

/// Returns the group after `end`, at the next multiple of 8 or of 4096, if it continues the
/// chain.
fn next_group(bytes: &Bytes, end: u64, crc: u32) -> Option<Group> {
    let near = end.next_multiple_of(8);
    let far = end.next_multiple_of(BLOCK);
    [near, far]
        .into_iter()
        .filter_map(|at| group_at(bytes, usize::try_from(at).ok()?))
        .find(|group| group.previous_crc == crc)
}

/// Returns the group at `at`, if there is one with a valid checksum.
pub(super) fn group_at(bytes: &Bytes, at: usize) -> Option<Group> {
    let head = bytes.get(at..at + GROUP_HEAD)?;
    if u32_at(head, 0) != GROUP_MAGIC {
        return None;
    }
    let len = u32_at(head, 8) as usize;
    let end = at.checked_add(GROUP_HEAD)?.checked_add(len)?;
    let body = bytes.get(at + 8..end)?;
    let crc = u32_at(head, 4);
    if crc32c::crc32c(body) != crc {
        return None;
    }
    let mut records = Vec::new();
    let mut record = at + GROUP_HEAD;
    for _ in 0..u32_at(head, 28) {
        let record_head = bytes.get(record..record + RECORD_HEAD)?;
        let payload = record + RECORD_HEAD;
        let payload_end = payload + u32_at(record_head, 0) as usize;
        if record_head[4] != RECORD_BATCH || payload_end > end {
            return None;
        }
        records.push(bytes.slice(payload..payload_end));
        record = payload_end.next_multiple_of(RECORD_HEAD);
    }
    Some(Group {
        first_seq: u64_at(head, 16),
        items: u32_at(head, 24),
        crc,
        previous_crc: u32_at(head, 12),
        end: end as u64,
        records,
    })
}

/// Returns the number of torn bytes after `at`.
///
/// # Errors
/// When a whole group further on records that data from `next_seq` on had been synced.
fn torn_tail(bytes: &Bytes, at: u64, next_seq: u64, writer_epoch: u64) -> Result<u64, String> {
    let start = usize::try_from(at)
        .map_err(|e| e.to_string())?
        .min(bytes.len());
    let Some(last) = bytes[start..].iter().rposition(|b| *b != 0) else {
        return Ok(0);
    };
    let mut probe = start.next_multiple_of(8);
    while let Some(head) = bytes.get(probe..probe + GROUP_HEAD) {
        // The fields are compared before the checksum is computed, which is expensive: the tail
        // may hold any bytes that a client chose.
        let (first_seq, durable_seq) = (u64_at(head, 16), u64_at(head, 32));
        let is_proof = u32_at(head, 0) == GROUP_MAGIC
            && u64_at(head, 40) == writer_epoch
            && durable_seq > next_seq
            && durable_seq <= first_seq;
        if is_proof && group_at(bytes, probe).is_some() {
            return Err(format!(
                "a group is damaged here, and the one at byte {probe} says that everything below sequence {durable_seq} had been synced"
            ));
        }
        probe += 8;
    }
    Ok(last as u64 + 1)
}
