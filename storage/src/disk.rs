//! Disk space that the store uses, and the forecast of a full disk.

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
/// Number of days over which growth is measured.
const DAYS: i64 = 7;

/// Disk space of the files of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUse {
    /// Stream of the files; `None` for files of the whole store.
    pub stream: Option<Name>,
    /// Start of their partition, microseconds since 1970; `None` for files of no partition.
    pub partition_us: Option<i64>,
    /// Kind of the files: `parts`, `tiles`, `detached`, `identities`, `pending`, `reserve`, or
    /// the name of a folder of the store.
    pub kind: &'static str,
    /// Number of files.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Folders whose files no manifest names.
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

type UsageKey = (Option<Name>, Option<i64>, &'static str);

/// Returns the disk space of a store by stream, partition and kind. A file that the snapshot's
/// manifest names counts with the length in the manifest, any other with its length now. A file
/// that is being written is not counted yet.
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
    // A detached file has a second name while its first is pending: it is counted once.
    let detached_paths: BTreeSet<String> =
        manifest.detached_files().map(|f| f.path.clone()).collect();
    for pending in &manifest.pending {
        if !detached_paths.contains(&detached::place(&pending.path))
            && !pending.path.starts_with("journal/")
        {
            uses.add_file((None, None, "pending"), &data.join(&pending.path));
        }
    }
    for folder in FOLDERS {
        uses.add_folder((None, None, folder), &data.join(folder));
    }
    // The reserve is kept for a full disk. In a small store it is the largest file.
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
    sums: BTreeMap<UsageKey, (u64, u64)>,
}

impl Uses<'_> {
    fn add(&mut self, key: UsageKey, bytes: u64) {
        let sums = self.sums.entry(key).or_default();
        sums.0 += 1;
        sums.1 += bytes;
    }

    /// Adds a file, unless it was removed meanwhile.
    fn add_file(&mut self, key: UsageKey, path: &Path) {
        if let Ok(bytes) = self.fs.open_read(path).and_then(|f| f.len()) {
            self.add(key, bytes);
        }
    }

    fn add_folder(&mut self, key: UsageKey, path: &Path) {
        for name in self.fs.list(path).unwrap_or_default() {
            let path = path.join(name);
            if self.fs.is_dir(&path) {
                self.add_folder(key.clone(), &path);
            } else {
                self.add_file(key.clone(), &path);
            }
        }
    }

    /// Adds detached files as far as they are in their folders: an operator may have moved them
    /// away.
    fn add_detached(&mut self, data: &Path, manifest: &Manifest) {
        for partition in &manifest.detached {
            let place = Some(partition.partition_us);
            let key = (Some(partition.stream.clone()), place, "detached");
            self.add_folder(key, &data.join(&partition.folder));
        }
    }
}

/// Returns the bytes of the files that the manifest keeps: parts, tiles, identities and detached
/// files. Journal and trash are left out, since they come and go by themselves.
pub(crate) fn kept_bytes(manifest: &Manifest) -> u64 {
    let files = manifest.files().chain(manifest.detached_files());
    files.map(|f| f.len).sum()
}

/// Bytes that the manifest kept at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Microseconds since 1970.
    pub(crate) at_us: i64,
    pub(crate) bytes: u64,
}

/// Returns the samples with `now` added, or `None` when today has one. Samples of more than
/// [`DAYS`] days ago are removed, and so are samples of the future: the clock was wrong when they
/// were taken.
pub(crate) fn sampled(samples: &[Sample], now: Sample) -> Option<Vec<Sample>> {
    let day = |s: &Sample| s.at_us.div_euclid(DAY_US);
    let past = samples.iter().filter(|s| day(s) <= day(&now));
    if past.clone().any(|s| day(s) == day(&now)) {
        return None;
    }
    let recent = past.filter(|s| day(s) >= day(&now) - DAYS);
    Some(recent.copied().chain([now]).collect())
}

/// Returns the number of days until the disk is full if the store keeps growing as it has since
/// the oldest sample of the last seven days: free bytes divided by growth per day. `None` while
/// the samples span less than a day; infinity when the store has not grown.
pub(crate) fn full_in_days(samples: &[Sample], now: Sample, free: u64) -> Option<f64> {
    // A sample is taken once a day, at no fixed hour: half a day more includes that of a week
    // ago.
    let window_us = DAYS * DAY_US + DAY_US / 2;
    let age_us = |s: &Sample| now.at_us.saturating_sub(s.at_us);
    let in_window = samples
        .iter()
        .filter(|s| (DAY_US..=window_us).contains(&age_us(s)));
    let first = in_window.max_by_key(|s| age_us(s))?;
    let grown = now.bytes.saturating_sub(first.bytes);
    if grown == 0 {
        return Some(f64::INFINITY);
    }
    let days = age_us(first) as f64 / DAY_US as f64;
    Some(free as f64 / (grown as f64 / days))
}

#[cfg(test)]
mod tests;
