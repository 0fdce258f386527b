//! The journal: the write-ahead log, in segments.
//!
//! # Invariants
//! 1. Segments are numbered without gaps. Each names its predecessor, the end of its valid data
//!    and the checksum there, so that a missing or cut segment is detected.
//! 2. A group is one write. Its checksum covers all of it, including its length and the checksum
//!    of the group before, so that neither a stale nor a transplanted group validates.
//! 3. A group never shares a 4 KiB block with data for which a sync has begun, so that a torn
//!    write cannot damage data that was acknowledged as synced.
//! 4. Each group carries `durable_seq`, the end of the data known to be synced when it was
//!    written. It distinguishes a torn tail, beyond which nothing is synced, from damage to
//!    synced data. A mark beside the journal shows when the last segment was removed (`mark`).
//! 5. Sequence numbers rise from group to group; holes are legal, re-use is not.
//!
//! # Byte layout (little-endian)
//! ```text
//! segment  = header (4096 bytes), then groups
//! header   = 0 magic "LMJRNL\0\1"   8 u32 crc32c of bytes 12..4096
//!           12 u32 format          16 u64 segment      24 u64 first_seq
//!           32 u64 writer_epoch    40 u64 previous segment
//!           48 u64 end of its valid data                56 u32 checksum there
//!           60 store id, 32 hex digits                  92 zeros
//! group    = 0 u32 magic            4 u32 crc32c of bytes 8..48+len
//!            8 u32 len             12 u32 checksum of the group before (the first: of the header)
//!           16 u64 first_seq       24 u32 items        28 u32 records
//!           32 u64 durable_seq     40 u64 writer_epoch 48 records, len bytes
//! record   = u32 len, u8 type (1: batch), 3 zero bytes, payload, zeros up to a multiple of 8
//! ```
//! A group begins at a multiple of 8, or of 4096 where invariant 3 requires it. The bytes between
//! groups are zeros.

mod copy;
mod mark;
mod reader;
mod salvage;
mod writer;

pub(crate) use copy::copy;
pub(crate) use reader::{Group, Replay, replay};
pub(crate) use salvage::{Salvage, headers, salvage};
pub(crate) use writer::{Journal, Syncer, settle_tail};

use std::path::{Path, PathBuf};

use crate::error::Error;

pub(crate) const DIR: &str = "journal";
const FORMAT: u32 = 1;
const HEADER_LEN: u64 = 4096;
const BLOCK: u64 = 4096;
const HEADER_MAGIC: [u8; 8] = *b"LMJRNL\0\x01";
const GROUP_MAGIC: u32 = 0x4752_4D4C;
const GROUP_HEAD: usize = 48;
const RECORD_HEAD: usize = 8;
const RECORD_BATCH: u8 = 1;

/// Size past which a new segment is begun; 64 MiB are replayed in well under a second.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn segment_path(data: &Path, segment: u64) -> PathBuf {
    data.join(relative_path(segment))
}

pub(crate) fn relative_path(segment: u64) -> String {
    format!("{DIR}/{segment:016x}.log")
}

/// Checks whether this is the path of a segment from `floor` on.
pub(crate) fn is_live(path: &Path, floor: u64) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let here = path.parent().is_some_and(|p| p.ends_with(DIR));
    here && segment_of(name).is_some_and(|segment| segment >= floor)
}

fn segment_of(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_suffix(".log")?, 16).ok()?;
    // The name must be spelled as above: a segment has one name.
    (name == format!("{number:016x}.log")).then_some(number)
}

/// Header of a segment: its numbers, and the end of its predecessor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) segment: u64,
    pub(crate) first_seq: u64,
    pub(crate) writer_epoch: u64,
    pub(crate) previous: Previous,
    pub(crate) store_id: String,
}

/// End of the previous segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Previous {
    pub(crate) segment: u64,
    pub(crate) end: u64,
    pub(crate) crc: u32,
}

impl SegmentHeader {
    fn encode(&self) -> (Vec<u8>, u32) {
        let mut bytes = vec![0; HEADER_LEN as usize];
        bytes[..8].copy_from_slice(&HEADER_MAGIC);
        bytes[12..16].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_seq.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.writer_epoch.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.previous.segment.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.previous.end.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.previous.crc.to_le_bytes());
        bytes[60..92].copy_from_slice(self.store_id.as_bytes());
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }

    fn decode(bytes: &[u8]) -> Result<(Self, u32), BadHeader> {
        if bytes.len() < HEADER_LEN as usize {
            let short = format!("{} bytes, shorter than a segment's header", bytes.len());
            return Err(short.into());
        }
        if bytes[..8] != HEADER_MAGIC {
            return Err("not a journal segment".into());
        }
        let crc = u32_at(bytes, 8);
        if crc32c::crc32c(&bytes[12..HEADER_LEN as usize]) != crc {
            return Err("the header's checksum does not match".into());
        }
        let format = u32_at(bytes, 12);
        if format != FORMAT {
            return Err(BadHeader::Format(format));
        }
        let header = Self {
            segment: u64_at(bytes, 16),
            first_seq: u64_at(bytes, 24),
            writer_epoch: u64_at(bytes, 32),
            previous: Previous {
                segment: u64_at(bytes, 40),
                end: u64_at(bytes, 48),
                crc: u32_at(bytes, 56),
            },
            store_id: String::from_utf8_lossy(&bytes[60..92]).into_owned(),
        };
        Ok((header, crc))
    }
}

/// Reason for which a header is refused.
#[derive(Debug, PartialEq, Eq)]
enum BadHeader {
    Damaged(String),
    /// The header is valid and of this other format.
    Format(u32),
}

impl From<String> for BadHeader {
    fn from(what: String) -> Self {
        Self::Damaged(what)
    }
}

impl From<&str> for BadHeader {
    fn from(what: &str) -> Self {
        Self::Damaged(what.into())
    }
}

impl BadHeader {
    fn at(self, path: &Path) -> Error {
        match self {
            Self::Damaged(what) => Error::Corrupt {
                path: path.into(),
                offset: 0,
                what,
            },
            Self::Format(found) => Error::FormatTooNew {
                path: path.into(),
                found,
                known: FORMAT,
            },
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("BUG: four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("BUG: eight bytes"))
}

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
