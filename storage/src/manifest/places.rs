//! The two places of the newest version: `manifest/`, where it is committed, and `manifest-copy/`.
//!
//! # Invariants
//! 1. A version counts once it has its name in `manifest/`. The same bytes follow in
//!    `manifest-copy/` before the version before is removed: no moment leaves the manifest in one
//!    place alone, and the newest version is the one of the highest number in either place.
//! 2. The newest version is read, from the place in which it is whole; each says by its checksum
//!    whether it is. An older version is never fallen back to: the journal below its floor is gone.
//! 3. A copy that is missing or of an older version is no damage. Programs that know of one place
//!    alone leave it so, and so does a crash before the copy was made. The next edit makes it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Committed, DIR, encoding, file_name, versions};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::{create_dir_durably, replace_durably};
use crate::seeded::{self, Bug};

pub(crate) const COPY_DIR: &str = "manifest-copy";
const PLACES: [&str; 2] = [DIR, COPY_DIR];
/// Number of attempts to read the newest version while a writer replaces it.
const TRIES: usize = 1000;

/// A file of the newest version that is not as it was written, while the other place has it whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub(crate) path: PathBuf,
    pub(crate) what: String,
}

/// The newest version and what is damaged of it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) committed: Committed,
    pub(crate) damaged: Option<Damaged>,
}

/// Where the copy of a version lies.
pub(crate) fn copy_path(data: &Path, version: u64) -> PathBuf {
    data.join(COPY_DIR).join(file_name(version))
}

/// The version numbers in a place, none where there is no such folder.
fn versions_in(fs: &dyn Fs, data: &Path, place: &str) -> Result<Vec<u64>> {
    let dir = data.join(place);
    match versions(fs, &dir) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// The version number of the newest manifest.
pub(crate) fn newest_version(fs: &dyn Fs, data: &Path) -> Result<Option<u64>> {
    let mut newest = None;
    for place in PLACES {
        newest = newest.max(versions_in(fs, data, place)?.last().copied());
    }
    Ok(newest)
}

/// Refuses a store that a newer program wrote, before anything in it is touched.
pub(crate) fn refuse_newer(fs: &dyn Fs, data: &Path) -> Result<()> {
    let Some(version) = newest_version(fs, data)? else {
        return Ok(());
    };
    let path = super::path(data, version);
    let is_newer = match fs.read(&path) {
        // A writer has committed the next version meanwhile: one of our time. Or it was removed,
        // and the copy tells.
        Err(e) if e.kind() == ErrorKind::NotFound => true,
        bytes => encoding::refuse_newer(&path, &bytes.at("read", &path)?).is_err(),
    };
    if !is_newer {
        return Ok(());
    }
    // One byte makes another format's head line of ours: the copy, where it is whole, says so.
    match find_newest(fs, data) {
        Err(error @ Error::FormatTooNew { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Reads the newest manifest, which must be whole in one of its places.
pub(crate) fn find_newest(fs: &dyn Fs, data: &Path) -> Result<Option<Found>> {
    let mut tries = 0;
    loop {
        let Some(version) = newest_version(fs, data)? else {
            return Ok(None);
        };
        let found = match read_place(fs, data, DIR, version) {
            Ok(committed) => {
                return Ok(Some(Found {
                    committed,
                    damaged: None,
                }));
            }
            Err(error) => read_copy(fs, data, version, error),
        };
        // A writer commits the next version and removes this one meanwhile: then that is the
        // newest.
        tries += 1;
        if newest_version(fs, data)? == Some(version) || tries == TRIES {
            return found.map(Some);
        }
    }
}

/// As [`find_newest`], and logs what is damaged.
pub(crate) fn read_newest(fs: &dyn Fs, data: &Path) -> Result<Option<Committed>> {
    let found = find_newest(fs, data)?;
    Ok(found.map(|found| {
        if let Some(Damaged { path, what }) = &found.damaged {
            let copy = copy_path(data, found.committed.manifest.version);
            tracing::warn!(path = %path.display(), what, copy = %copy.display(), "the manifest is damaged and its copy is read; the next writer mends it");
        }
        found.committed
    }))
}

/// Reads the copy of a version of which `manifest/` has none that is whole.
fn read_copy(fs: &dyn Fs, data: &Path, version: u64, error: Error) -> Result<Found> {
    match read_place(fs, data, COPY_DIR, version) {
        Ok(committed) => Ok(Found {
            committed,
            damaged: Some(Damaged {
                path: super::path(data, version),
                what: told(error),
            }),
        }),
        // Without a copy the file itself is to blame, and else the copy that is there.
        Err(of_copy) if is_absent(&error) && !is_absent(&of_copy) => Err(of_copy),
        Err(of_copy) if is_absent(&of_copy) => Err(error),
        Err(of_copy) => Err(match error {
            Error::Corrupt { path, offset, what } => Error::Corrupt {
                path,
                offset,
                what: format!("{what}; its copy is damaged too: {}", told(of_copy)),
            },
            other => other,
        }),
    }
}

fn is_absent(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// The fault of a file, without its name and without advice.
fn told(error: Error) -> String {
    match error {
        error if is_absent(&error) => "it is not there".into(),
        Error::Corrupt { offset, what, .. } => format!("at byte {offset}: {what}"),
        other => other.to_string(),
    }
}

/// Reads a version in one of its places.
fn read_place(fs: &dyn Fs, data: &Path, place: &str, version: u64) -> Result<Committed> {
    let path = data.join(place).join(file_name(version));
    let bytes = fs.read(&path).at("read", &path)?;
    let (manifest, crc) = encoding::decode(&path, &bytes)?;
    if manifest.version != version {
        return Err(Error::Corrupt {
            path,
            offset: 0,
            what: format!("it says version {}", manifest.version),
        });
    }
    Ok(Committed {
        manifest: manifest.into(),
        crc,
    })
}

/// The damaged places of the newest version: for a check, which reads both.
pub(crate) fn damaged(fs: &dyn Fs, data: &Path) -> Result<Vec<Damaged>> {
    for _ in 0..TRIES {
        let Some(version) = newest_version(fs, data)? else {
            return Ok(Vec::new());
        };
        let [first, copy] = PLACES.map(|place| read_place(fs, data, place, version));
        if newest_version(fs, data)? != Some(version) {
            continue;
        }
        let copy = match (&first, copy) {
            (Ok(first), Ok(copy)) if first.crc != copy.crc => {
                Some("it differs from the manifest of the same version".to_owned())
            }
            (_, Err(error)) if !is_absent(&error) => Some(told(error)),
            _ => None,
        };
        let first = first.err().map(|error| Damaged {
            path: super::path(data, version),
            what: told(error),
        });
        let copy = copy.map(|what| Damaged {
            path: copy_path(data, version),
            what,
        });
        return Ok(first.into_iter().chain(copy).collect());
    }
    // Nobody is that fast but a writer at work, whose next edit mends both.
    Ok(Vec::new())
}

/// Writes the copy of a version that has just been committed, durably.
pub(super) fn write_copy(
    fs: &dyn Fs,
    data: &Path,
    (version, writer): (u64, u64),
    bytes: &[u8],
) -> Result<()> {
    if seeded::is(Bug::ManifestCopySkipped) {
        return Ok(());
    }
    let dir = data.join(COPY_DIR);
    if !fs.exists(&dir) {
        create_dir_durably(fs, data, &dir)?;
    }
    replace_durably(fs, &copy_path(data, version), bytes, writer)?;
    fs.sync_dir(&dir).at("sync", &dir)
}

/// Removes the versions before this one in both places. One that stays is in nobody's way, and the
/// next commit tries again.
pub(super) fn remove_older(fs: &dyn Fs, data: &Path, version: u64) {
    for place in PLACES {
        let known = versions_in(fs, data, place).unwrap_or_default();
        for old in known.into_iter().filter(|v| *v < version) {
            let path = data.join(place).join(file_name(old));
            if let Err(error) = fs.remove(&path) {
                tracing::warn!(path = %path.display(), %error, "could not remove an old manifest");
            }
        }
    }
}
