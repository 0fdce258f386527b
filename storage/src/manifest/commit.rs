//! The commit of a version: first where the store has an object store, and in the directory.

use std::fmt::Debug;
use std::io::ErrorKind;
use std::path::Path;

use super::{Committed, DIR, Manifest, encoding, file_name, places, versions};
use crate::depot::Tag;
use crate::env::Fs;
use crate::error::{Error, Result};
use crate::file::{FileWriter, create_dir_durably, name_new, prepare_new};
use crate::seeded::{self, Bug};

/// A place in which versions are committed before they are written to the directory.
pub(crate) trait CommitPlace: Send + Sync + Debug {
    /// Commits a version after `current`, or the first one. `bytes` is its encoding.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the outcome is not known, or another writer has committed: this
    /// writer must stop. After any other error nothing was committed.
    fn commit(
        &self,
        directory: (&dyn Fs, &Path),
        current: Option<&Committed>,
        next: &Manifest,
        bytes: Vec<u8>,
    ) -> Result<Tag>;
}

/// Compares the newest version on the disk with the one that this writer holds. A version that is
/// missing or damaged does not mean another writer: the next edit repairs it.
fn compare(fs: &dyn Fs, dir: &Path, current: &Committed) -> Result<()> {
    let held = current.manifest.version;
    let known = if fs.exists(dir) {
        versions(fs, dir)?
    } else {
        Vec::new()
    };
    let newest = known.last().copied().unwrap_or(0);
    if newest > held {
        return Err(superseded(dir, held, newest));
    }
    if newest < held {
        return Ok(());
    }
    let path = dir.join(file_name(held));
    let mut head = [0; encoding::HEAD_BYTES_MAX];
    let read = || -> std::io::Result<usize> {
        let file = fs.open_read(&path)?;
        let len = usize::try_from(file.len()?).map_or(head.len(), |len| len.min(head.len()));
        file.read_exact_at(&mut head[..len], 0)?;
        Ok(len)
    };
    let crc = { read }()
        .ok()
        .and_then(|len| encoding::crc_of(&head[..len]));
    match crc {
        Some(crc) if crc != current.crc => Err(superseded(dir, held, newest)),
        _ => Ok(()),
    }
}

fn superseded(dir: &Path, held: u64, newest: u64) -> Error {
    Error::Unknown {
        what: format!(
            "{}: another process has written version {newest}, this one holds {held}; run only \
             one server for a store",
            dir.display()
        ),
    }
}

/// Commits `next` as the successor of `current` and removes older versions.
///
/// # Errors
/// [`Error::Unknown`] when the commit may or may not have happened, or when another writer was
/// detected: this writer must stop. After any other error `current` stands.
pub(crate) fn commit(
    fs: &dyn Fs,
    data: &Path,
    current: Option<&Committed>,
    next: Manifest,
) -> Result<Committed> {
    commit_for(None, fs, data, current, next)
}

/// Commits as [`commit`] does, and in `place` first.
pub(crate) fn commit_for(
    place: Option<&dyn CommitPlace>,
    fs: &dyn Fs,
    data: &Path,
    current: Option<&Committed>,
    mut next: Manifest,
) -> Result<Committed> {
    let dir = data.join(DIR);
    if let Some(current) = current {
        if !seeded::is(Bug::LockUnchecked) {
            compare(fs, &dir, current)?;
        }
        next.version = current.manifest.version + 1;
        next.previous_crc = current.crc;
        if let Err(what) = current.manifest.check_edit(&next)
            && !seeded::is(Bug::TilesApart)
        {
            return Err(refused(&dir, &what));
        }
    }
    // A nonce names one version; a rename that replaces nothing needs none.
    next.commit = place.map(|_| format!("{:032x}", rand::random::<u128>()));
    let (bytes, crc) = encoding::encode(&next).map_err(|what| refused(&dir, &what))?;
    let file = prepare_version(fs, data, &next, &bytes)?;
    let first = place.map(|place| place.commit((fs, data), current, &next, bytes.clone()));
    let tag = first.transpose()?;
    let named = name_version(fs, data, file, (&next, &bytes));
    match (&tag, named) {
        (_, Ok(())) => {}
        (None, Err(error)) | (Some(_), Err(error @ Error::Unknown { .. })) => return Err(error),
        // The next start finds the version in the object store.
        (Some(_), Err(error)) => {
            return Err(Error::Unknown {
                what: format!(
                    "version {} is committed, and not on the disk: {error}",
                    next.version
                ),
            });
        }
    }
    Ok(Committed {
        manifest: next.into(),
        crc,
        tag,
    })
}

/// Writes a version that follows the one on the disk, and its copy, and removes older ones.
///
/// # Errors
/// The errors of [`commit`].
pub(crate) fn write_version(fs: &dyn Fs, data: &Path, next: &Manifest, bytes: &[u8]) -> Result<()> {
    let file = prepare_version(fs, data, next, bytes)?;
    name_version(fs, data, file, (next, bytes))
}

/// Writes a version durably, and does not name it yet: a full disk shows before anything counts.
fn prepare_version<'a>(
    fs: &'a dyn Fs,
    data: &Path,
    next: &Manifest,
    bytes: &[u8],
) -> Result<FileWriter<'a>> {
    let dir = data.join(DIR);
    if !fs.exists(&dir) {
        create_dir_durably(fs, data, &dir)?;
    }
    let path = dir.join(file_name(next.version));
    prepare_new(fs, &path, bytes, next.writer_epoch.into())
}

/// Names a version, which counts from then on; writes its copy, and removes older ones.
fn name_version(
    fs: &dyn Fs,
    data: &Path,
    file: FileWriter<'_>,
    (next, bytes): (&Manifest, &[u8]),
) -> Result<()> {
    let dir = data.join(DIR);
    match name_new(file) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
            return Err(superseded(&dir, next.version - 1, next.version));
        }
        other => other?,
    }
    if let Err(e) = fs.sync_dir(&dir) {
        // The new version exists and counts, or a power cut may remove it. The two cases cannot
        // be distinguished any more, so nothing may be built on either.
        return Err(Error::Unknown {
            what: format!("sync {}: {e}", dir.display()),
        });
    }
    let known = versions(fs, &dir).unwrap_or_default();
    if let Some(newest) = known.last().filter(|v| **v > next.version)
        && !seeded::is(Bug::LockUnchecked)
    {
        return Err(superseded(&dir, next.version, *newest));
    }
    match places::write_copy(fs, data, (next.version, next.writer_epoch.into()), bytes) {
        Ok(()) => places::remove_older(fs, data, next.version),
        // The edit is committed all the same. The previous version stays until there is a copy.
        Err(error) => {
            tracing::warn!(%error, "could not write the copy of the manifest; the next edit tries again");
            places::remove_older(fs, data, next.version.saturating_sub(1));
        }
    }
    Ok(())
}

/// Returns the error for a rejected edit; the store continues with the manifest that it has.
fn refused(dir: &Path, what: &str) -> Error {
    Error::Corrupt {
        path: dir.into(),
        offset: 0,
        what: format!("edit refused: {what}"),
    }
}
