//! Segments of the journal, whose groups get the right checksums.

use std::path::Path;

pub(crate) use super::mark::{FILE as MARK, read as marked};
use super::reader::group_at;
use super::{
    GROUP_HEAD, GROUP_MAGIC, HEADER_LEN, Previous, SegmentHeader, relative_path, replay, salvage,
    u32_at,
};
use crate::fuzzing::{DATA, STORE, choice, disk};
use crate::manifest::Manifest;
use crate::recover::recover;

/// Recovers a store from a journal of one segment: a sound header, and behind it `bytes` without
/// the first. That one says what is mended, and the first sequence number.
pub fn journal_segment(bytes: &[u8]) {
    let (how, rest) = choice(bytes);
    let segment = segment(u64::from(how >> 4), rest, (how & 1 == 0, how & 2 == 0));
    let fs = disk(&[(&relative_path(1), &segment)]);
    let data = Path::new(DATA);
    let (mut groups, mut next_seq) = (Vec::new(), 0);
    let replayed = replay(&fs, data, STORE, 0, |group| {
        assert!(group.first_seq >= next_seq, "a number is used twice");
        next_seq = group.first_seq + u64::from(group.items);
        groups.push((group.first_seq, group.records));
        Ok(())
    });
    if let Ok(found) = &replayed {
        assert!(found.last.end + found.torn_bytes <= segment.len() as u64);
        assert!(found.next_seq >= next_seq);
    }
    // A repair takes what a start takes, and more: it looks beyond damage.
    let salvaged = salvage(&fs, data, STORE, 0, 0).expect("a disk without faults");
    let salvaged = salvaged
        .groups
        .into_iter()
        .map(|g| (g.first_seq, g.records));
    assert!(salvaged.collect::<Vec<_>>().starts_with(&groups));
    let manifest = Manifest::new(STORE.to_owned(), 1);
    if let Ok(recovered) = recover(&fs, data, &manifest) {
        let found = replayed.expect("a recovery replays the journal");
        assert_eq!(recovered.replay, found);
        assert!(recovered.items <= found.next_seq, "items share a number");
    }
}

/// Returns a segment of a sound header and `rest`. Groups are mended on request: each gets its
/// checksum, and is chained to the one before.
pub(super) fn segment(first_seq: u64, rest: &[u8], (sums, chain): (bool, bool)) -> Vec<u8> {
    let header = SegmentHeader {
        segment: 1,
        first_seq,
        writer_epoch: 1,
        previous: Previous::default(),
        store_id: STORE.to_owned(),
    };
    let (bytes, crc) = header.encode();
    mended([&bytes, rest].concat(), crc, (sums, chain))
}

/// Returns a segment with the header of `segment` and `rest`, of which all groups are mended.
pub(crate) fn segment_of(segment: &[u8], rest: &[u8]) -> Vec<u8> {
    let header = &segment[..HEADER_LEN as usize];
    mended([header, rest].concat(), u32_at(header, 8), (true, true))
}

fn mended(mut bytes: Vec<u8>, mut crc: u32, (sums, chain): (bool, bool)) -> Vec<u8> {
    let mut at = HEADER_LEN as usize;
    while sums && at + GROUP_HEAD <= bytes.len() {
        if u32_at(&bytes, at) != GROUP_MAGIC {
            at += 8;
            continue;
        }
        let len = (u32_at(&bytes, at + 8) as usize).min(bytes.len() - at - GROUP_HEAD);
        bytes[at + 8..at + 12].copy_from_slice(&(len as u32).to_le_bytes());
        if chain {
            bytes[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
        }
        let end = at + GROUP_HEAD + len;
        crc = crc32c::crc32c(&bytes[at + 8..end]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        // A group whose records do not fill it stays invalid, and the next one follows the last
        // that is valid.
        let whole = group_at(&bytes.clone().into(), at).is_some();
        at = if whole {
            end.next_multiple_of(8)
        } else {
            at + 8
        };
    }
    bytes
}
