//! The entries of a message as records, and the identity of its chunk.

use ingest::{Encoding, Records};
use storage::{Identity, Name};
use xxhash_rust::xxh3::xxh3_64;

use super::ENTRY_BYTES_MAX;
use super::message::{Entries, Message, push_packed, push_single};

/// Maximum bytes of messages, when they are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLimits {
    /// Maximum bytes of a chunk, decompressed.
    pub(super) decompressed: usize,
    /// Maximum bytes of its records: small entries under a long tag take a multiple of theirs.
    pub(super) records: usize,
}

/// Reads the entries of a message; `None` if they take more than the limit. A compressed chunk that
/// is damaged, or too long when it is decompressed, is one record of its own bytes.
pub(super) fn records(message: &Message<'_>, limits: RecordLimits) -> Option<Records> {
    let mut records = Records::default();
    let mut is_over = false;
    let mut push = |record: &[u8]| {
        // One byte more of a long record shows that it is too long.
        let kept = record.get(..=ENTRY_BYTES_MAX).unwrap_or(record);
        is_over |= records.bytes() + kept.len() > limits.records;
        if !is_over {
            records.push(kept);
        }
        !is_over
    };
    match message.entries {
        Entries::Packed(packed) => push_packed(message.tag, packed, &mut push),
        Entries::Single(pair) => push_single(message.tag, pair, &mut push),
        Entries::Compressed(compressed) => {
            let gzip = Encoding::of_name("gzip").expect("BUG: gzip is an encoding");
            match gzip.decompress(compressed, limits.decompressed) {
                Ok(packed) => push_packed(message.tag, &packed, &mut push),
                Err(error) => {
                    tracing::warn!(tag = message.tag, %error, "a compressed chunk was quarantined");
                    push(compressed);
                }
            }
        }
    }
    (!is_over).then_some(records)
}

/// Returns the identity of a chunk, by which a stream has it once. Clients make its name of random
/// bytes; the same name with other entries is another chunk by mistake, and refused.
pub(super) fn identity(stream: &Name, chunk: &str, records: &Records) -> Identity {
    let mut hashes = Vec::with_capacity(8 * records.len());
    for item in records.items(0) {
        hashes.extend(xxh3_64(item.bytes).to_le_bytes());
    }
    Identity::Key {
        key: format!("{stream}\0fluent:{chunk}"),
        body_hash: xxh3_64(&hashes),
    }
}
