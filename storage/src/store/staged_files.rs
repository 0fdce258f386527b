//! Files that a seal or a job of maintenance has written, before the edit that names them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::Shared;
use crate::env::IoContext;
use crate::error::{Error, Result};
use crate::file::{FileRef, FileWriter};
use crate::manifest::{PartMeta, TileFile};
use crate::model::Name;
use crate::part::Bounds;
use crate::rollup_hook::{RollupMeta, TileImage};

/// Files written and not yet committed.
#[derive(Default)]
pub(super) struct StagedFiles {
    pub(super) parts: Vec<PartMeta>,
    pub(super) tiles: BTreeMap<u32, (u64, Vec<TileFile>)>,
    directories: BTreeSet<PathBuf>,
    pub(super) paths: Vec<PathBuf>,
}

impl StagedFiles {
    /// Removes all files after a failure: a retry uses other names, and must not fill up a full
    /// disk. An edit with an unknown outcome may have been committed; its files are not touched.
    pub(super) fn discard(&self, shared: &Shared, error: &Error) {
        if matches!(error, Error::Unknown { .. }) || shared.syncer.poisoned().is_some() {
            return;
        }
        self.remove(shared);
    }

    /// Writes a part of a partition; `rows` writes it into the file and returns its bounds.
    pub(super) fn write_part<E: From<Error>>(
        &mut self,
        shared: &Shared,
        stream: &Name,
        (folder, partition_us): (&str, i64),
        rows: impl FnOnce(&mut FileWriter<'_>) -> Result<Bounds, E>,
    ) -> Result<(), E> {
        let id = shared.new_file();
        let path = format!("streams/{stream}/{folder}/{id}.parquet");
        let full = self.prepare(shared, &path)?;
        let mut file = FileWriter::create(shared.fs(), &full)?;
        let rows = rows(&mut file);
        let bounds = match file.failure() {
            Some(error) => return Err(error.into()),
            None => rows?,
        };
        let file = file.finish_new(path)?;
        self.paths.push(full);
        self.parts
            .push(bounds.part(id.number, stream, partition_us, file));
        Ok(())
    }

    /// Writes a rollup's tile.
    pub(super) fn write_tile(
        &mut self,
        shared: &Shared,
        rollup: &RollupMeta,
        image: TileImage,
    ) -> Result<TileFile> {
        let path = format!("rollups/{}/{}.tile", rollup.name, shared.new_file());
        let file = self.write(shared, path, &image.bytes)?;
        Ok(TileFile {
            file,
            sections: image.sections,
        })
    }

    /// Writes a file.
    pub(super) fn write(&mut self, shared: &Shared, path: String, bytes: &[u8]) -> Result<FileRef> {
        let full = self.prepare(shared, &path)?;
        let file = FileRef::write_new(shared.fs(), &shared.data, path, bytes)?;
        self.paths.push(full);
        Ok(file)
    }

    /// Returns the full path of a file and creates its directory.
    fn prepare(&mut self, shared: &Shared, path: &str) -> Result<PathBuf> {
        let full = shared.data.join(path);
        let directory = full.parent().expect("BUG: a file lies in a directory");
        shared.create_dir(directory)?;
        self.directories.insert(directory.to_path_buf());
        Ok(full)
    }

    /// Makes the names of the files durable: from now on a manifest may name them. Where there is
    /// an object store the files are put there, so that the edit need not wait for that.
    pub(super) fn publish(&self, shared: &Shared) -> Result<()> {
        for directory in &self.directories {
            shared.fs().sync_dir(directory).at("sync", directory)?;
        }
        let Some(owner) = &shared.depot else {
            return Ok(());
        };
        let names = self.names(shared);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        owner.put_early(shared.fs(), &shared.data, &names)
    }

    /// Returns the names of the files, relative to the data directory.
    fn names(&self, shared: &Shared) -> Vec<String> {
        let name = |path: &PathBuf| {
            let name = path.strip_prefix(&shared.data);
            let name = name.expect("BUG: a staged file").to_str();
            name.expect("BUG: names are ASCII").to_owned()
        };
        self.paths.iter().map(name).collect()
    }

    /// Removes the parts from index `from` on.
    pub(super) fn undo(&mut self, shared: &Shared, from: usize) {
        let kept = self.paths.len() - (self.parts.len() - from);
        let undone = Self {
            paths: self.paths.split_off(kept),
            ..Self::default()
        };
        self.parts.truncate(from);
        undone.remove(shared);
    }

    /// Removes all files, as [`StagedFiles::discard`] does, when the edit was given up without an
    /// error.
    pub(super) fn remove(&self, shared: &Shared) {
        if shared.check_lock().is_err() {
            // Another writer may have detached the same partition: its files have these names.
            return;
        }
        if let Some(owner) = &shared.depot {
            let names = self.names(shared);
            owner.forget_put(&names);
            shared.dropped.lock().stray(names);
        }
        for path in &self.paths {
            if let Err(error) = shared.fs().remove(path) {
                tracing::warn!(path = %path.display(), %error, "could not remove an unreferenced file");
            }
        }
    }
}

/// Writes tile images that do not come from a seal and syncs their directory; `commit` makes the
/// edit.
pub(super) fn write_images(
    shared: &Shared,
    rollup: &RollupMeta,
    images: Vec<TileImage>,
    commit: impl FnOnce(Vec<TileFile>) -> Result<()>,
) -> Result<()> {
    let mut written = StagedFiles::default();
    let write = || {
        let mut files = Vec::new();
        for image in images.into_iter().filter(|i| i.events > 0) {
            files.push(written.write_tile(shared, rollup, image)?);
        }
        written.publish(shared)?;
        Ok(files)
    };
    let outcome = write().and_then(commit);
    if let Err(error) = &outcome {
        written.discard(shared, error);
    }
    outcome
}
