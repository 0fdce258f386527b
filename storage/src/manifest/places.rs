//! The two folders of the newest version: `manifest/`, where it is committed, and
//! `manifest-copy/`.
//!
//! # Invariants
//! 1. A version counts once it has its name in `manifest/`. The same bytes are written to
//!    `manifest-copy/` before the previous version is removed, so at no moment does the manifest
//!    exist only once. The newest version is the one with the highest number in either folder.
//! 2. The newest version is read from the folder in which its checksum is right. There is no
//!    fallback to an older version: the journal below its floor has been removed.
//! 3. A copy that is missing or of an older version is no damage. Programs that know only one
//!    folder leave it so, and so does a crash before the copy was made. The next edit writes it.

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

/// A file of the newest version that is damaged or missing while the other folder has it whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub(crate) path: PathBuf,
    pub(crate) what: String,
}

/// The newest version and its damaged file, if any.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) committed: Committed,
    pub(crate) damaged: Option<Damaged>,
}

/// Returns the path of the copy of a version.
pub(crate) fn copy_path(data: &Path, version: u64) -> PathBuf {
    data.join(COPY_DIR).join(file_name(version))
}

/// Returns the version numbers in a folder, none when the folder does not exist.
fn versions_in(fs: &dyn Fs, data: &Path, place: &str) -> Result<Vec<u64>> {
    let dir = data.join(place);
    match versions(fs, &dir) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// Returns the version number of the newest manifest.
pub(crate) fn newest_version(fs: &dyn Fs, data: &Path) -> Result<Option<u64>> {
    let mut newest = None;
    for place in PLACES {
        newest = newest.max(versions_in(fs, data, place)?.last().copied());
    }
    Ok(newest)
}

/// Refuses a store that another program wrote in a format of its own, before anything in it is
/// touched.
pub(crate) fn refuse_other_format(fs: &dyn Fs, data: &Path) -> Result<()> {
    let Some(version) = newest_version(fs, data)? else {
        return Ok(());
    };
    let path = super::path(data, version);
    let is_other = match fs.read(&path) {
        // Either a writer has committed the next version meanwhile, or the file was removed:
        // `find_newest` decides in both cases.
        Err(e) if e.kind() == ErrorKind::NotFound => true,
        bytes => encoding::refuse_other_format(&path, &bytes.at("read", &path)?).is_err(),
    };
    if !is_other {
        return Ok(());
    }
    // One damaged byte can turn a head line of this format into that of another one; the copy,
    // when it is whole, shows that.
    match find_newest(fs, data) {
        Err(error @ (Error::FormatTooNew { .. } | Error::FormatUnknown { .. })) => Err(error),
        _ => Ok(()),
    }
}

/// Reads the newest manifest, which must be whole in one of its two folders.
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
        // A writer may have committed the next version and removed this one meanwhile: then read
        // that one.
        tries += 1;
        if newest_version(fs, data)? == Some(version) || tries == TRIES {
            return found.map(Some);
        }
    }
}

/// Does the same as [`find_newest`] and logs a damaged file.
pub(crate) fn read_newest(fs: &dyn Fs, data: &Path) -> Result<Option<Committed>> {
    let found = find_newest(fs, data)?;
    Ok(found.map(|found| {
        if let Some(Damaged { path, what }) = &found.damaged {
            let copy = copy_path(data, found.committed.manifest.version);
            tracing::warn!(path = %path.display(), what, copy = %copy.display(), "the manifest is damaged, reading its copy; the next process that opens the store for writing repairs it");
        }
        found.committed
    }))
}

/// Reads the copy of a version that is not whole in `manifest/`.
fn read_copy(fs: &dyn Fs, data: &Path, version: u64, error: Error) -> Result<Found> {
    match read_place(fs, data, COPY_DIR, version) {
        Ok(committed) => Ok(Found {
            committed,
            damaged: Some(Damaged {
                path: super::path(data, version),
                what: fault_of(error),
            }),
        }),
        // When there is no copy, report the fault of the file itself, else that of the copy.
        Err(of_copy) if error.is_absent() && !of_copy.is_absent() => Err(of_copy),
        Err(of_copy) if of_copy.is_absent() => Err(error),
        Err(of_copy) => Err(match error {
            Error::Corrupt { path, offset, what } => Error::Corrupt {
                path,
                offset,
                what: format!("{what}; its copy is damaged too: {}", fault_of(of_copy)),
            },
            other => other,
        }),
    }
}

/// Describes the fault of a file, without its name and without advice.
fn fault_of(error: Error) -> String {
    match error {
        error if error.is_absent() => "the file is missing".into(),
        Error::Corrupt { offset, what, .. } => format!("at byte {offset}: {what}"),
        other => other.to_string(),
    }
}

/// Reads a version from one of the two folders.
fn read_place(fs: &dyn Fs, data: &Path, place: &str, version: u64) -> Result<Committed> {
    let path = data.join(place).join(file_name(version));
    let bytes = fs.read(&path).at("read", &path)?;
    let committed = Committed::decode(&path, &bytes)?;
    if committed.manifest.version != version {
        return Err(Error::Corrupt {
            path,
            offset: 0,
            what: format!("its content is of version {}", committed.manifest.version),
        });
    }
    Ok(committed)
}

/// Returns the damaged files of the newest version. It is for a check, so it reads both folders.
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
            (_, Err(error)) if !error.is_absent() => Some(fault_of(error)),
            _ => None,
        };
        let first = first.err().map(|error| Damaged {
            path: super::path(data, version),
            what: fault_of(error),
        });
        let copy = copy.map(|what| Damaged {
            path: copy_path(data, version),
            what,
        });
        return Ok(first.into_iter().chain(copy).collect());
    }
    // Only a writer at work replaces versions that fast, and its next edit repairs both folders.
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

/// Removes the versions before this one in both folders. A version that cannot be removed does no
/// harm, and the next commit tries again.
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
