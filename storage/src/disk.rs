//! What the store takes of the disk, and when the disk will be full.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::detached;
use crate::env::Fs;
use crate::manifest::Manifest;
use crate::model::Name;
use crate::snapshot::Snapshot;
use crate::store::reserve;

const DAY_US: i64 = 86_400_000_000;
/// Growth is looked at over so many days.
const DAYS: i64 = 7;

/// Files of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUse {
    /// Their stream; none for what is the store's own.
    pub stream: Option<Name>,
    /// The start of their partition, microseconds since 1970, where they have one.
    pub partition_us: Option<i64>,
    /// `parts`, `tiles`, `detached`, `identities`, `pending`, or a folder of the store.
    pub kind: &'static str,
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Folders that hold what no manifest names.
const FOLDERS: [&str; 8] = [
    "damaged",
    "indexes",
    "journal",
    "maintenance",
    "manifest",
    "manifest-copy",
    "readers",
    "trash",
];

type Key = (Option<Name>, Option<i64>, &'static str);

/// What a store takes of the disk, by stream, partition and kind: what the manifest of a snapshot names
/// by its word, everything else as it lies there now. A file that is being written counts nowhere yet.
pub fn disk_use(snapshot: &Snapshot) -> Vec<DiskUse> {
    let (manifest, data) = (&*snapshot.manifest, &*snapshot.data);
    let mut uses = Uses {
        fs: &*snapshot.fs,
        sums: BTreeMap::new(),
    };
    for part in &manifest.parts {
        let place = Some(part.partition_us);
        uses.add((Some(part.stream.clone()), place, "parts"), part.file.len);
    }
    for tile in &manifest.tiles {
        let rollup = manifest.rollups.iter().find(|r| r.id == tile.rollup);
        let stream = rollup.map(|r| r.stream.clone());
        for file in &tile.files {
            uses.add((stream.clone(), None, "tiles"), file.file.len);
        }
    }
    for file in &manifest.identities {
        uses.add((None, None, "identities"), file.len);
    }
    uses.add_detached(data, manifest);
    // A detached file has a second name for as long as the first one waits to be removed.
    let twins: BTreeSet<String> = manifest.detached_files().map(|f| f.path.clone()).collect();
    for pending in &manifest.pending {
        if !twins.contains(&detached::place(&pending.path)) && !pending.path.starts_with("journal/")
        {
            uses.add_file((None, None, "pending"), &data.join(&pending.path));
        }
    }
    for folder in FOLDERS {
        uses.add_folder((None, None, folder), &data.join(folder));
    }
    // Kept back for a full disk, and the largest file of a small store.
    uses.add_file((None, None, "reserve"), &data.join(reserve::FILE));
    uses.sums
        .into_iter()
        .map(|((stream, partition_us, kind), (files, bytes))| DiskUse {
            stream,
            partition_us,
            kind,
            files,
            bytes,
        })
        .collect()
}

struct Uses<'a> {
    fs: &'a dyn Fs,
    sums: BTreeMap<Key, (u64, u64)>,
}

impl Uses<'_> {
    fn add(&mut self, key: Key, bytes: u64) {
        let sums = self.sums.entry(key).or_default();
        sums.0 += 1;
        sums.1 += bytes;
    }

    /// A file that has gone meanwhile counts nowhere.
    fn add_file(&mut self, key: Key, path: &Path) {
        if let Ok(bytes) = self.fs.open_read(path).and_then(|f| f.len()) {
            self.add(key, bytes);
        }
    }

    fn add_folder(&mut self, key: Key, path: &Path) {
        for name in self.fs.list(path).unwrap_or_default() {
            let path = path.join(name);
            if self.fs.is_dir(&path) {
                self.add_folder(key.clone(), &path);
            } else {
                self.add_file(key.clone(), &path);
            }
        }
    }

    /// What is left of them in their folders: an operator may have carried them away.
    fn add_detached(&mut self, data: &Path, manifest: &Manifest) {
        for partition in &manifest.detached {
            let place = Some(partition.partition_us);
            let key = (Some(partition.stream.clone()), place, "detached");
            self.add_folder(key, &data.join(&partition.folder));
        }
    }
}

/// Bytes that the manifest keeps: parts, tiles, identities, and what is detached. What comes and goes by
/// itself (journal, trash) is not among them.
pub(crate) fn kept_bytes(manifest: &Manifest) -> u64 {
    let files = manifest.files().chain(manifest.detached_files());
    files.map(|f| f.len).sum()
}

/// Bytes that were kept at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Microseconds since 1970.
    pub(crate) at_us: i64,
    pub(crate) bytes: u64,
}

/// The samples with one more, if a day has begun since the last. Those beyond what is looked at go.
/// (Those of a time to come were written under a clock that was wrong.)
pub(crate) fn sampled(samples: &[Sample], now: Sample) -> Option<Vec<Sample>> {
    let day = |s: &Sample| s.at_us.div_euclid(DAY_US);
    let known = samples.iter().filter(|s| day(s) <= day(&now));
    if known.clone().any(|s| day(s) == day(&now)) {
        return None;
    }
    let wanted = known.filter(|s| day(s) >= day(&now) - DAYS);
    Some(wanted.copied().chain([now]).collect())
}

/// In how many days the disk is full when the store goes on growing as it has since the oldest sample of
/// the last seven days: free bytes, divided by the bytes a day that came to stay. Not known before a
/// whole day lies between; never, when nothing came to stay.
pub(crate) fn full_in_days(samples: &[Sample], now: Sample, free: u64) -> Option<f64> {
    // Half a day more: samples are taken when a day has begun, at no certain hour.
    let window_us = DAYS * DAY_US + DAY_US / 2;
    let age_us = |s: &Sample| now.at_us.saturating_sub(s.at_us);
    let known = samples
        .iter()
        .filter(|s| (DAY_US..=window_us).contains(&age_us(s)));
    let first = known.max_by_key(|s| age_us(s))?;
    let grown = now.bytes.saturating_sub(first.bytes);
    if grown == 0 {
        return Some(f64::INFINITY);
    }
    let days = age_us(first) as f64 / DAY_US as f64;
    Some(free as f64 / (grown as f64 / days))
}

#[cfg(test)]
mod tests;
