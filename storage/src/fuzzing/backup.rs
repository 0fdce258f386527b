//! A store of which one file is replaced, and its backup.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use super::{DATA, allow_caught_panics, choice, put};
use crate::access_file;
use crate::backup::backup as back_up;
use crate::check::check;
use crate::env::{Fs, ManualClock, RealFs};
use crate::file::FileRef;
use crate::journal::fuzzing::segment_of;
use crate::manifest::Manifest;
use crate::manifest::fuzzing::{file_of, manifest_of};
use crate::read_only_store::ReadOnlyStore;
use crate::sim::SimFs;

const TO: &str = "/backup";

/// The files of a store with everything that a store may have, by their paths.
static LIVED: LazyLock<BTreeMap<String, Vec<u8>>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/1/lived");
    let (mut files, mut open) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(folder) = open.pop() {
        for name in RealFs.list(&root.join(&folder)).expect("a folder") {
            let path = folder.join(name);
            match RealFs.is_dir(&root.join(&path)) {
                true => open.push(path),
                false => {
                    let bytes = RealFs.read(&root.join(&path)).expect("a file");
                    files.insert(path.to_str().expect("ASCII").to_owned(), bytes);
                }
            }
        }
    }
    files.remove("EXPECT");
    files.insert(access_file::FILE.to_owned(), Vec::new());
    files
});

/// Replaces one file of a store by the bytes behind the first, which chooses it, and backs the
/// store up. The file gets the checksums that its readers compare. If there is a backup, it opens
/// if the store does, with the same damage and the same next sequence number.
pub fn backup(bytes: &[u8]) {
    allow_caught_panics();
    let (which, rest) = choice(bytes);
    let (path, _) = LIVED
        .iter()
        .nth(usize::from(which) % LIVED.len())
        .expect("a file");
    let fs = SimFs::new();
    for (path, bytes) in LIVED.iter().filter(|(path, _)| *path != access_file::FILE) {
        put(&fs, path, bytes);
    }
    replace(&fs, path, rest);
    let shared: Arc<dyn Fs> = Arc::new(fs);
    let clock = ManualClock::at(0);
    if back_up(&shared, &clock, Path::new(DATA), Path::new(TO)).is_err() {
        return;
    }
    let (store, copy) = (found(&shared, DATA), found(&shared, TO));
    assert_eq!(store, copy);
}

/// Returns the next sequence number of a store, and its damaged files; `None` if it does not open.
fn found(fs: &Arc<dyn Fs>, data: &str) -> Option<(u64, BTreeSet<PathBuf>)> {
    let store = ReadOnlyStore::open(Arc::clone(fs), Path::new(data)).ok()?;
    let report = check(&store.snapshot());
    let below = |path: PathBuf| {
        path.strip_prefix(data)
            .map_or(path.clone(), Path::to_path_buf)
    };
    // The card of a detached partition is written anew, and so are both places of the manifest.
    let is_kept = |path: &PathBuf| {
        let path = path.to_string_lossy();
        !path.ends_with("partition.json") && !path.starts_with("manifest")
    };
    let damage = report.damage.into_iter().map(|(path, _)| below(path));
    Some((
        store.snapshot().next_seq(),
        damage.filter(is_kept).collect(),
    ))
}

fn replace(fs: &SimFs, path: &str, bytes: &[u8]) {
    let folder = path.split('/').next().unwrap_or_default();
    match folder {
        "manifest" | "manifest-copy" => put(fs, path, &file_of(bytes)),
        "journal" => put(fs, path, &segment_of(&LIVED[path], bytes)),
        access_file::FILE => {
            let crc = crc32c::crc32c(bytes);
            let head = format!("logmill access 1 {crc:08x}\n");
            put(fs, path, &[head.as_bytes(), bytes].concat());
        }
        _ => {
            put(fs, path, bytes);
            declare(fs, path, bytes);
        }
    }
}

/// Writes a manifest that has the checksum of these bytes.
fn declare(fs: &SimFs, path: &str, bytes: &[u8]) {
    let (at, old) = LIVED
        .iter()
        .find(|(path, _)| path.starts_with("manifest/"))
        .expect("a manifest");
    let mut manifest: Manifest = manifest_of(old);
    let tiles = manifest.tiles.iter_mut();
    let tiles = tiles.flat_map(|t| &mut t.files).map(|f| &mut f.file);
    let detached = manifest.detached.iter_mut().flat_map(|d| &mut d.parts);
    let parts = manifest
        .parts
        .iter_mut()
        .chain(detached)
        .map(|p| &mut p.file);
    for file in parts.chain(tiles).chain(&mut manifest.identities) {
        if file.path == path {
            *file = FileRef::of(path.to_owned(), bytes);
        }
    }
    let json = serde_json::to_vec(&manifest).expect("plain data");
    put(fs, at, &file_of(&json));
    put(
        fs,
        &at.replace("manifest/", "manifest-copy/"),
        &file_of(&json),
    );
}
