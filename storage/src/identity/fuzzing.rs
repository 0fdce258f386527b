//! Checkpoints of identities: a file of any bytes, and any JSON in a sound file.

use std::path::Path;

use super::{decode, encode, still_needed};
use crate::file::FileRef;
use crate::fuzzing::choice;
use crate::model::Identity;

/// Reads a checkpoint: `!` and a file, or else JSON. Entries that are accepted are written as bytes
/// that are read as the same entries, and the merge of the needed ones is its own merge.
pub fn identities(bytes: &[u8]) {
    let (how, rest) = choice(bytes);
    let file = match how {
        b'!' => rest.to_vec(),
        _ => {
            let body = zstd::bulk::compress(bytes, 1).expect("compressed in memory");
            [b"logmill identities 1\n", &body[..]].concat()
        }
    };
    let read = |bytes: &[u8]| {
        let file = FileRef::of("identities/1".to_owned(), bytes);
        decode(Path::new("data"), &file, bytes)
    };
    let Ok(entries) = read(&file) else {
        return;
    };
    let again = read(&encode(&entries)).expect("a written checkpoint is read");
    assert_eq!(again, entries);
    for entry in &entries {
        if let Identity::Settles { items, .. } = &entry.identity {
            let ends = items.iter().zip(items.iter().skip(1));
            assert!(ends.into_iter().all(|(a, b)| a.1 < b.0), "ranges touch");
        }
    }
    let needed = still_needed(entries);
    let merged = read(&encode(&needed)).expect("a merged checkpoint is read");
    assert_eq!(still_needed(merged), needed);
}
