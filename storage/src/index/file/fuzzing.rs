//! Files of inverted indexes, whose head and blocks get the right checksums.

use super::{ABOUT_BYTES, BLOCK_HEAD_BYTES, Head, IndexTarget, PREFIX_BYTES, Prefix, u32_at};
use crate::index::{IndexedRows, ValueKind};

/// Rows of the part to which the index belongs.
const ROWS: u64 = 1_000;

/// Reads an index, and looks up the first key of each block and its neighbours. The rows that it
/// finds are rows of the part, in order.
pub fn index_file(bytes: &[u8]) {
    let target = IndexTarget {
        part: 1,
        len: 2,
        crc: 3,
        rows: ROWS,
        field: 4,
    };
    let bytes = mended(&target, bytes);
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return;
    };
    let Ok(prefix) = Prefix::decode(prefix) else {
        return;
    };
    let Some(head) = rest.get(..prefix.head_len()) else {
        return;
    };
    let Ok(head) = Head::decode(prefix, head, &target) else {
        return;
    };
    assert!(head.file_len() >= prefix.blocks_at());
    for first in head.blocks.iter().map(|block| block.first) {
        for key in [first.saturating_sub(1), first, first.saturating_add(1)] {
            look_up(&head, &bytes, key);
        }
    }
}

fn look_up(head: &Head, bytes: &[u8], key: u32) {
    let Some(block) = head.block_of(key) else {
        return;
    };
    assert!(block.first <= key);
    let from = usize::try_from(block.at).expect("an offset in memory");
    let Some(block_bytes) = bytes.get(from..from + block.len as usize) else {
        return;
    };
    if let Ok(Some(IndexedRows::These(rows))) = head.find(block, block_bytes, key) {
        assert!(rows.is_sorted());
        assert!(rows.iter().all(|row| u64::from(*row) < ROWS));
    }
}

/// Returns the bytes as an index of `target`, under the right checksums.
fn mended(target: &IndexTarget, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < PREFIX_BYTES + ABOUT_BYTES {
        return bytes;
    }
    let len = (u32_at(&bytes, 8) as usize).clamp(ABOUT_BYTES, bytes.len() - PREFIX_BYTES);
    let about = PREFIX_BYTES..PREFIX_BYTES + ABOUT_BYTES;
    let kinds = [ValueKind::None, ValueKind::Texts, ValueKind::Integers];
    let kind = usize::from(bytes[about.end - 1]) % kinds.len();
    bytes[about.clone()].copy_from_slice(&target.encode(kinds[kind]));
    let end = PREFIX_BYTES + len;
    let (mut at, mut block) = (end, about.end);
    while block + BLOCK_HEAD_BYTES <= end {
        let block_len = (u32_at(&bytes, block + 4) as usize).min(bytes.len() - at);
        let crc = crc32c::crc32c(&bytes[at..at + block_len]);
        bytes[block + 4..block + 8].copy_from_slice(&(block_len as u32).to_le_bytes());
        bytes[block + 8..block + 12].copy_from_slice(&crc.to_le_bytes());
        at += block_len;
        block += BLOCK_HEAD_BYTES;
    }
    let crc = crc32c::crc32c(&bytes[PREFIX_BYTES..end]);
    bytes[8..12].copy_from_slice(&(len as u32).to_le_bytes());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}
