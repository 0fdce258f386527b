//! Reading the journal back, the same way for a writer that recovers and for a reader beside one.

use std::path::Path;

use bytes::Bytes;

use super::{
    BLOCK, DIR, GROUP_HEAD, GROUP_MAGIC, HEADER_LEN, Previous, RECORD_BATCH, RECORD_HEAD, SegmentHeader,
    segment_of, segment_path, u32_at, u64_at,
};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};

/// One valid group.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) first_seq: u64,
    pub(crate) items: u32,
    pub(crate) durable_seq: u64,
    crc: u32,
    previous_crc: u32,
    end: u64,
    /// The payloads of its records.
    pub(crate) records: Vec<Bytes>,
}

/// What a journal's replay came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Where a writer goes on: the last segment and where its valid data ends.
    pub(crate) last: Previous,
    /// Exclusive end of the sequence numbers found, 0 when there were none.
    pub(crate) next_seq: u64,
    /// Bytes of a torn tail after `last.end`, never acknowledged as synced.
    pub(crate) torn_bytes: u64,
}

/// Hands every group from segment `floor` on to `take`, oldest first.
///
/// # Errors
/// [`Error::Corrupt`] when anything but the tail of the last segment is damaged, or when a group
/// after the damage says that what is missing had been synced.
pub(crate) fn replay(
    fs: &dyn Fs,
    data: &Path,
    store_id: &str,
    floor: u64,
    mut take: impl FnMut(Group) -> Result<()>,
) -> Result<Replay> {
    let mut found = Replay { last: Previous::default(), next_seq: 0, torn_bytes: 0 };
    let mut segment = first_segment(fs, data, floor)?;
    while let Some(number) = segment {
        let path = segment_path(data, number);
        let read_on = |from: u64| -> Result<Option<Bytes>> {
            match fs.read(&path) {
                Ok(bytes) if bytes.len() as u64 > from => Ok(Some(bytes.into())),
                Ok(_) => Ok(None),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(source) => Err(Error::Io { op: "read", path: path.clone(), source }),
            }
        };
        let Some(mut bytes) = read_on(0)? else {
            // Removed by a writer that has sealed past it.
            break;
        };
        let corrupt = |offset: u64, what: &str| Error::Corrupt { path: path.clone(), offset, what: what.into() };
        let (header, header_crc) = match SegmentHeader::decode(&bytes) {
            Ok(decoded) => decoded,
            Err(what) => return Err(corrupt(0, &what)),
        };
        check_header(&header, number, store_id, &found).map_err(|what| corrupt(0, &what))?;
        let mut at = HEADER_LEN;
        let mut crc = header_crc;
        found.next_seq = found.next_seq.max(header.first_seq);
        loop {
            match next_group(&bytes, at, crc) {
                Some(group) => {
                    if group.first_seq < found.next_seq {
                        return Err(corrupt(at, "sequence numbers are used twice"));
                    }
                    at = group.end;
                    crc = group.crc;
                    found.next_seq = group.first_seq + u64::from(group.items);
                    take(group)?;
                }
                None => {
                    let successor = fs.exists(&segment_path(data, number + 1));
                    if successor && sealed_end(fs, data, number + 1)? == Some((at, crc)) {
                        break;
                    }
                    // A writer may have gone on meanwhile: look again before judging.
                    match read_on(bytes.len() as u64)? {
                        Some(longer) => {
                            bytes = longer;
                            continue;
                        }
                        None if successor => return Err(corrupt(at, "a group is damaged and another segment follows")),
                        None => {}
                    }
                    found.torn_bytes = torn_tail(&bytes, at, found.next_seq).map_err(|what| corrupt(at, &what))?;
                    break;
                }
            }
        }
        found.last = Previous { segment: number, end: at, crc };
        segment = fs.exists(&segment_path(data, number + 1)).then_some(number + 1);
    }
    Ok(found)
}

fn first_segment(fs: &dyn Fs, data: &Path, floor: u64) -> Result<Option<u64>> {
    let dir = data.join(DIR);
    let names = fs.list(&dir).at("list", &dir)?;
    let first = names.iter().filter_map(|n| segment_of(n)).filter(|s| *s >= floor).min();
    match first {
        Some(first) if floor > 0 && first != floor => Err(Error::Corrupt {
            path: segment_path(data, floor),
            offset: 0,
            what: format!("the segment is missing, the next one there is {first:x}"),
        }),
        None if floor > 0 => {
            Err(Error::Corrupt { path: segment_path(data, floor), offset: 0, what: "the segment is missing".into() })
        }
        first => Ok(first),
    }
}

fn check_header(header: &SegmentHeader, number: u64, store_id: &str, found: &Replay) -> Result<(), String> {
    if header.store_id != store_id {
        return Err(format!("it belongs to store {}", header.store_id));
    }
    if header.segment != number {
        return Err(format!("it says that it is segment {:x}", header.segment));
    }
    if found.last.segment != 0 && header.previous != found.last {
        return Err(format!(
            "its predecessor ended at byte {}, it knows {}",
            found.last.end, header.previous.end
        ));
    }
    Ok(())
}

/// What segment `number` says of the end of the one before.
fn sealed_end(fs: &dyn Fs, data: &Path, number: u64) -> Result<Option<(u64, u32)>> {
    let path = segment_path(data, number);
    let file = fs.open_read(&path).at("open", &path)?;
    let mut bytes = vec![0; HEADER_LEN as usize];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Ok(None);
    }
    Ok(SegmentHeader::decode(&bytes).ok().map(|(h, _)| (h.previous.end, h.previous.crc)))
}

/// The group after `end`, at the next multiple of 8 or of 4096, when it continues the chain.
fn next_group(bytes: &Bytes, end: u64, crc: u32) -> Option<Group> {
    let near = end.next_multiple_of(8);
    let far = end.next_multiple_of(BLOCK);
    [near, far]
        .into_iter()
        .filter_map(|at| group_at(bytes, usize::try_from(at).ok()?))
        .find(|group| group.previous_crc == crc)
}

/// The group at `at`, when one with a right checksum is there.
fn group_at(bytes: &Bytes, at: usize) -> Option<Group> {
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
        durable_seq: u64_at(head, 32),
        crc,
        previous_crc: u32_at(head, 12),
        end: end as u64,
        records,
    })
}

/// How many bytes of the tail after `at` are torn.
///
/// # Errors
/// When a whole group further on says that something from `next_seq` on had been synced.
fn torn_tail(bytes: &Bytes, at: u64, next_seq: u64) -> Result<u64, String> {
    let start = usize::try_from(at).map_err(|e| e.to_string())?.min(bytes.len());
    let Some(last) = bytes[start..].iter().rposition(|b| *b != 0) else { return Ok(0) };
    let mut probe = start.next_multiple_of(8);
    while probe + GROUP_HEAD <= bytes.len() {
        if let Some(later) = group_at(bytes, probe)
            && later.durable_seq > next_seq
        {
            return Err(format!(
                "a group is damaged here, and the one at byte {probe} says that everything below sequence {} had been synced",
                later.durable_seq
            ));
        }
        probe += 8;
    }
    Ok(last as u64 + 1)
}
