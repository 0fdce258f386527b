//! The manifest: a file of any bytes, and any JSON in a sound file.

use std::path::Path;

use super::{Manifest, encoding};
use crate::fuzzing::choice;

/// Reads a manifest: `!` and a file, or else JSON. One that is accepted passes its own check, is
/// written as bytes that are read as the same manifest, and answers what a snapshot asks of it.
pub fn manifest(bytes: &[u8]) {
    let path = Path::new("manifest");
    let (how, rest) = choice(bytes);
    let read = match how {
        b'!' => encoding::decode(path, rest),
        _ => encoding::decode(path, &file_of(bytes)),
    };
    let Ok((read, _)) = read else {
        return;
    };
    read.check().expect("a manifest that was read is sound");
    let (encoded, _) = encoding::encode(&read).expect("it is no longer than before");
    let (again, _) = encoding::decode(path, &encoded).expect("it is read again");
    assert_eq!(again, read);
    ask(&read);
}

/// Asks what queries, the status and maintenance ask of a manifest.
fn ask(manifest: &Manifest) {
    for (name, stream) in &manifest.streams {
        let live: u64 = manifest.parts_of(name).map(|part| part.rows).sum();
        let detached: u64 = manifest.detached_of(name).map(|d| d.rows()).sum();
        let all = live + stream.dropped_events() + detached;
        assert_eq!(all, stream.sealed_events);
        for partition_us in manifest.incomplete(name) {
            assert!(manifest.complete_from(name, partition_us).is_some());
        }
    }
    for rollup in &manifest.rollups {
        let events: u64 = manifest.tiles_of(rollup.id).map(|tile| tile.events).sum();
        let sealed = manifest.streams.get(&rollup.stream);
        let sealed = sealed.map_or(0, |stream| stream.sealed_events);
        assert_eq!(events + rollup.missing(), sealed);
        for level in &rollup.levels {
            assert!(manifest.given_up(rollup.id, level) <= events);
        }
    }
    let mut next = manifest.clone();
    next.version += 1;
    let _either = manifest.check_edit(&next);
}

/// Returns a manifest's file with this JSON.
pub(crate) fn file_of(json: &[u8]) -> Vec<u8> {
    let body = zstd::bulk::compress(json, 1).expect("compressed in memory");
    let head = encoding::head_line(&body);
    [head.as_bytes(), b"\n", &body].concat()
}

/// Returns the manifest of a sound file.
pub(crate) fn manifest_of(file: &[u8]) -> Manifest {
    let read = encoding::decode(Path::new("manifest"), file);
    read.expect("a sound manifest").0
}
