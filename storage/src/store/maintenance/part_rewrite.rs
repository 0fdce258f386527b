//! Rewriting parts of one partition as new ones: to merge them, or to leave out rows.
//!
//! # Invariants
//! * The written files hold exactly the rows of the inputs that are not to be left out, each once:
//!   the files are read again, and their [`Census`] is compared.

use std::path::PathBuf;

use crate::env::IoContext;
use crate::error::{Error, Result};
use crate::manifest::{PartMeta, StreamMeta};
use crate::part::{self, Census, Stop};
use crate::snapshot::Snapshot;
use crate::store::Shared;
use crate::store::staged_files::StagedFiles;

/// A rewrite of parts that `sealed` has.
pub(super) struct PartRewrite<'a> {
    pub(super) shared: &'a Shared,
    pub(super) sealed: &'a Snapshot,
    /// Sequence numbers of rows to leave out, rising.
    pub(super) without: &'a [u64],
    /// Called every few thousand rows; an error that it returns ends the rewrite.
    pub(super) pause: &'a dyn Fn() -> Result<()>,
}

impl PartRewrite<'_> {
    /// Writes the rows of parts of one partition, some of which stay. Returns the parts that the
    /// written ones replace: all, the first that fit into memory, or one that was not sorted.
    pub(super) fn run<'p>(
        &self,
        parts: &[&'p PartMeta],
        written: &mut StagedFiles,
    ) -> Result<Vec<&'p PartMeta>, Stop> {
        let before = written.parts.len();
        let (replaced, read) = match self.write_merged(parts, written) {
            Err(Stop::Unsorted(id)) => {
                let mut unsorted = parts.iter().filter(|p| p.id == id);
                let part = *unsorted.next().expect("BUG: one of these");
                (vec![part], self.write_sorted(part, written)?)
            }
            merged => {
                let (inputs, read) = merged?;
                (parts[..inputs].to_vec(), read)
            }
        };
        compare(self.sealed, read, &written.parts[before..])?;
        Ok(replaced)
    }

    /// Merges parts, and returns how many, with their rows.
    fn write_merged(
        &self,
        parts: &[&PartMeta],
        written: &mut StagedFiles,
    ) -> Result<(usize, Census), Stop> {
        let (meta, folder) = stream_and_folder(self.sealed, parts[0]);
        let inputs = parts.iter().map(|p| (*p, self.sealed.open(&p.file)));
        let inputs = inputs.collect();
        let mut read = (0, Census::default());
        let place = (folder.as_str(), parts[0].partition_us);
        written.write_part(self.shared, &parts[0].stream, place, |file| {
            let merged = part::merge(meta, inputs, self.without, file, self.pause)?;
            read = (merged.inputs, merged.census);
            Ok::<_, Stop>(merged.bounds)
        })?;
        Ok(read)
    }

    fn write_sorted(&self, one: &PartMeta, written: &mut StagedFiles) -> Result<Census, Stop> {
        let (meta, folder) = stream_and_folder(self.sealed, one);
        let place = (folder.as_str(), one.partition_us);
        let file = self.sealed.open(&one.file);
        part::rewrite(meta, one, file, self.without, &mut |rows| {
            (self.pause)()?;
            written.write_part(self.shared, &one.stream, place, |file| {
                part::write_sorted(meta, &rows, file)
            })
        })
    }
}

/// Checks that the rewrite of some parts leaves half of the free disk space to ingest. They stay on
/// the disk until the new ones are committed, and longer while a snapshot refers to them.
pub(super) fn check_disk_space<'a>(
    shared: &Shared,
    parts: impl Iterator<Item = &'a PartMeta>,
) -> Result<()> {
    let data = &shared.data;
    let free = shared.fs().space(data).at("measure", data)?.free;
    let bytes: u64 = parts.map(|p| p.file.len).sum();
    if free / 2 >= bytes {
        return Ok(());
    }
    Err(Error::DiskFull { path: data.clone() })
}

/// Returns the stream of a part as its manifest has it, and the folder of its partition.
fn stream_and_folder<'a>(sealed: &'a Snapshot, of: &PartMeta) -> (&'a StreamMeta, String) {
    let meta = sealed.manifest.streams.get(&of.stream);
    let meta = meta.expect("BUG: a part's stream is in its manifest");
    (
        meta,
        part::partition_folder(meta.partition, of.partition_us),
    )
}

/// Checks that the written files hold exactly the rows that were read, each once.
fn compare(sealed: &Snapshot, read: Census, written: &[PartMeta]) -> Result<()> {
    let mut found = Census::default();
    for part in written {
        found.add(part::census(&part.file.path, sealed.open(&part.file))?);
    }
    if found == read {
        return Ok(());
    }
    Err(Error::Corrupt {
        path: written
            .first()
            .map_or_else(PathBuf::new, |p| (&p.file.path).into()),
        offset: 0,
        what: format!("the merged rows differ from the rows read: wrote {found:?}, read {read:?}"),
    })
}
