//! Unknown files in the store's folders: a start moves them to the trash and does not delete them
//! there.
//!
//! A crash in the middle of a seal leaves files that no manifest lists. At the next start these,
//! and all other files that the manifest does not know, are moved to `trash/`, under a name of
//! the time and the original path. An operator finds there any file that a bug may have
//! misjudged.
//!
//! # Invariants
//! 1. Files that the manifest lists, files pending deletion (a reader may be reading them), and
//!    journal segments from the floor on stay where they are.
//! 2. The trash is bounded: a later start deletes files that have been there for a day, and the
//!    oldest files beyond [`BYTES_MAX`].

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::detached;
use crate::env::{Fs, IoContext};
use crate::error::Result;
use crate::journal;
use crate::manifest::{self, Manifest};

const DIR: &str = "trash";
/// Folders that hold nothing but files of the store.
const OURS: [&str; 6] = [
    "streams",
    "rollups",
    "identities",
    journal::DIR,
    manifest::DIR,
    manifest::COPY_DIR,
];
const BYTES_MAX: u64 = 1 << 30;
const AGE_MAX_S: i64 = 24 * 3600;

/// Moves away the files that `manifest`, the newest one, does not account for. `now_us` is the
/// time, microseconds since 1970. A file that cannot be moved stays and does no harm: no later
/// file gets its name (`file_id.rs`).
pub(crate) fn collect(fs: &dyn Fs, data: &Path, manifest: &Manifest, now_us: i64) -> Result<()> {
    let mut known: HashSet<PathBuf> = manifest
        .files()
        .chain(manifest.detached_files())
        .map(|f| f.path.as_str())
        .chain(manifest.pending.iter().map(|p| p.path.as_str()))
        .map(|path| data.join(path))
        .collect();
    known.insert(manifest::path(data, manifest.version));
    known.insert(manifest::copy_path(data, manifest.version));
    let mut unknown = Vec::new();
    for folder in OURS {
        walk(fs, &data.join(folder), &mut unknown)?;
    }
    unknown.extend(half_detached(fs, data, manifest)?);
    unknown.retain(|path| !known.contains(path) && !journal::is_live(path, manifest.journal_floor));
    let now_s = now_us.div_euclid(1_000_000);
    for path in unknown {
        move_away(fs, data, &path, now_s);
    }
    empty(fs, &data.join(DIR), now_s)
}

/// Moves one file to the trash and returns true when that succeeded.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing that is moved there is a file of the store any more"
)]
pub(crate) fn move_away(fs: &dyn Fs, data: &Path, path: &Path, now_s: i64) -> bool {
    let trash = data.join(DIR);
    let place = path.strip_prefix(data).unwrap_or(path);
    let place = place.to_string_lossy().replace('/', "+");
    let to = trash.join(format!("{now_s:012}-{place}"));
    let moved = match fs.exists(&trash) {
        true => Ok(()),
        false => fs.create_dir_all(&trash),
    };
    match moved.and_then(|()| fs.rename(path, &to)) {
        Ok(()) => {
            tracing::warn!(from = %path.display(), to = %to.display(), "moved a file that the manifest does not name to the trash");
            true
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "could not move a file that the manifest does not name to the trash");
            false
        }
    }
}

/// Returns the files of detachments that were not committed: folders that hold second names of
/// live parts. All other files there are the operator's.
fn half_detached(fs: &dyn Fs, data: &Path, manifest: &Manifest) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    walk(fs, &data.join(detached::DIR), &mut files)?;
    let live = manifest.parts.iter();
    let twins: HashSet<PathBuf> = live
        .map(|p| data.join(detached::place(&p.file.path)))
        .collect();
    let twins = files.iter().filter(|f| twins.contains(*f));
    let folders: HashSet<PathBuf> = twins
        .filter_map(|f| Some(f.parent()?.to_path_buf()))
        .collect();
    files.retain(|f| f.parent().is_some_and(|parent| folders.contains(parent)));
    Ok(files)
}

fn walk(fs: &dyn Fs, dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !fs.exists(dir) {
        return Ok(());
    }
    for name in fs.list(dir).at("list", dir)? {
        let path = dir.join(name);
        if fs.is_dir(&path) {
            walk(fs, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Deletes files that are too old, and the oldest files beyond the limit of bytes.
fn empty(fs: &dyn Fs, trash: &Path, now_s: i64) -> Result<()> {
    if !fs.exists(trash) {
        return Ok(());
    }
    let mut names = fs.list(trash).at("list", trash)?;
    // Sort the newest first: the names begin with the time.
    names.sort_unstable_by(|a, b| b.cmp(a));
    let mut bytes = 0;
    for name in names {
        let path = trash.join(&name);
        bytes += fs.open_read(&path).and_then(|f| f.len()).unwrap_or(0);
        let moved_s = name.split('-').next().and_then(|s| s.parse::<i64>().ok());
        let old = moved_s.is_some_and(|at| now_s - at > AGE_MAX_S);
        if (old || bytes > BYTES_MAX)
            && let Err(error) = fs.remove(&path)
        {
            tracing::warn!(path = %path.display(), %error, "could not empty the trash");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concern::WriteConcern;
    use crate::env::{ManualClock, RealFs};
    use crate::store::{Options, Store};
    use crate::testing::batch;
    use std::sync::Arc;

    const DAY_US: i64 = 86_400_000_000;

    fn names(dir: &Path) -> Vec<String> {
        let mut names = RealFs.list(dir).unwrap_or_default();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_belongs_to_nobody_is_moved_away_and_what_belongs_to_somebody_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path();
        let open = |now_us| {
            let options = Options {
                clock: Arc::new(ManualClock::at(now_us)),
                ..Options::default()
            };
            Store::open(data, options).expect("opens")
        };
        let store = open(0);
        let write = |times: &[i64]| {
            let ack = store.write(batch(times, &[], None), WriteConcern::ACKNOWLEDGED);
            ack.expect("taken")
        };
        write(&[1, DAY_US]);
        store.seal().expect("seals");
        write(&[2]);
        drop(store);
        let part = data.join(store_part(data));
        let foreign = [
            part.with_extension("parquet.tmp"),
            part.with_file_name("00000000000000ff.parquet"),
            data.join("journal/0000000000000000.log"),
            data.join("journal/notes"),
        ];
        for path in &foreign {
            std::fs::write(path, b"whose?").expect("written");
        }
        std::fs::write(data.join("README"), b"the operator's").expect("written");
        let store = open(1_000_000);
        assert_eq!(store.snapshot().chunks("events").len(), 1);
        store.close().expect("closes");
        for path in &foreign {
            assert!(!path.exists(), "{path:?}");
        }
        assert!(part.exists() && data.join("README").exists());
        let trash = names(&data.join(DIR));
        assert_eq!(trash.len(), 4, "{trash:?}");
        assert_eq!(trash[1], "000000000001-journal+notes");
        drop(open(DAY_US + 1_000_000));
        assert_eq!(names(&data.join(DIR)).len(), 4, "a day is not over");
        drop(open(DAY_US + 2_000_000));
        assert_eq!(names(&data.join(DIR)).len(), 0);
    }

    fn store_part(data: &Path) -> String {
        let reader = crate::ReadOnlyStore::open(Arc::new(RealFs), data).expect("opens");
        reader.snapshot().manifest().parts[0].file.path.clone()
    }
}
