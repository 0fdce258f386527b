//! A covering index: a second copy of a part's rows, with all columns, sorted by the indexed
//! column. The rows of a value are side by side here, while in the part they may be in every
//! page.
//!
//! The index is two files. `PART-CHECKSUM.rows` is a Parquet file like a part.
//! `PART-CHECKSUM.covering` names it as the manifest names a part, with its length and the
//! checksums of its blocks, and its presence proves that the rows are complete. It is a line of
//! JSON and the crc32c of that line, eight hex digits.
//!
//! # Invariants
//! * The index has the rows of its part, no others and each once: their number and the sum of the
//!   hashes of their sequence numbers are compared before `.covering` is written.
//! * A build holds some ten thousand rows in memory, and one row group of its output. Sorted
//!   pieces are beside the indexes (`indexes/.making`) meanwhile.
//! * A reader holds the file open, since it may be removed meanwhile.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DIR, at};
use crate::blocks::CheckedFile;
use crate::env::{Fs, FsFile, IoContext};
use crate::error::{Error, Result};
use crate::file::{FileRef, FileWriter, create_dir_durably, write_durably};
use crate::manifest::{PartMeta, StreamMeta};
use crate::part::{self, Bounds, Census, Stop};
use crate::snapshot::Snapshot;

/// Folder of the pieces until they are merged.
const MAKING: &str = ".making";
const FORMAT: u32 = 1;

/// Content of the `.covering` file.
#[derive(Serialize, Deserialize)]
struct RowsPointer {
    format: u32,
    file: FileRef,
}

/// The rows of a part in the order of a column, in a file that is held open.
#[derive(Debug, Clone)]
pub struct CoveringIndex {
    file: FileRef,
    opened: Arc<dyn FsFile>,
}

impl CoveringIndex {
    /// Opens the covering index of a part; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when `.covering` or the length of the rows is damaged, or the error of
    /// the file system.
    pub fn open(snapshot: &Snapshot, part: &PartMeta, field: &str) -> Result<Option<Self>> {
        let path = snapshot.data.join(at(part, field, "covering"));
        let text = match snapshot.fs.read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.at("read", &path)?,
        };
        let corrupt = |what: &str| super::corrupt(&path, 0, what);
        let named = decode_pointer(&text).map_err(corrupt)?;
        if named.file.path != at(part, field, "rows") || !named.file.blocks_fit() {
            return Err(corrupt("it names another file"));
        }
        let rows = snapshot.data.join(&named.file.path);
        let opened = match snapshot.fs.open_read(&rows) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.at("open", &rows)?,
        };
        let len = opened.len().at("measure", &rows)?;
        named.file.compare_len(&rows, len)?;
        Ok(Some(Self {
            file: named.file,
            opened: opened.into(),
        }))
    }

    /// Returns the file of the rows as if the manifest named it.
    pub fn file(&self) -> &FileRef {
        &self.file
    }

    /// Returns a reader of the rows, which compares each block with its checksum.
    pub fn read(&self, snapshot: &Snapshot) -> CheckedFile {
        snapshot.open(&self.file).held(Arc::clone(&self.opened))
    }
}

fn decode_pointer(text: &[u8]) -> Result<RowsPointer, &'static str> {
    let line = text.iter().position(|byte| *byte == b'\n');
    let (line, crc) = text.split_at(line.ok_or("the file is truncated")?);
    if crc != checksum_line(line).as_bytes() {
        return Err("its checksum differs");
    }
    let named: RowsPointer =
        serde_json::from_slice(line).map_err(|_| "the file is not the expected JSON")?;
    match named.format {
        FORMAT => Ok(named),
        _ => Err("the file has an unknown format"),
    }
}

/// Returns the checksum that follows a line.
fn checksum_line(line: &[u8]) -> String {
    format!("\n{:08x}\n", crc32c::crc32c(line))
}

/// Removes the pieces of a build that was not finished.
pub(crate) fn clear(fs: &dyn Fs, data: &Path) -> Result<()> {
    let dir = data.join(DIR).join(MAKING);
    if !fs.is_dir(&dir) {
        return Ok(());
    }
    for name in fs.list(&dir).at("list", &dir)? {
        let path = dir.join(name);
        fs.remove(&path).at("remove", &path)?;
    }
    Ok(())
}

/// Builds the covering index of a part and returns its bytes. `pause` is called every few
/// thousand rows.
///
/// # Errors
/// [`Error::Corrupt`] or [`Error::Parquet`] when the part cannot be read, the error of `pause`,
/// or that of the file system.
pub(crate) fn build(
    fs: &dyn Fs,
    snapshot: &Snapshot,
    part: &PartMeta,
    field: &str,
    pause: &dyn Fn() -> Result<()>,
) -> Result<u64> {
    let data = &*snapshot.data;
    let meta = snapshot.streams().get(&part.stream);
    let meta = in_order_of(field, meta.expect("BUG: a part is of a stream"));
    let making = format!("{DIR}/{MAKING}");
    create_dir_durably(fs, data, &data.join(&making))?;
    let mut pieces: Vec<PartMeta> = Vec::new();
    let read = part::rewrite(&meta, part, snapshot.open(&part.file), &[], &mut |rows| {
        pause()?;
        let path = format!("{making}/{}", pieces.len());
        let (file, bounds) = write(fs, data, path, |to| {
            part::write_sorted(&meta, &rows, to).map_err(Stop::from)
        })?;
        pieces.push(bounds.part(part.id, &part.stream, part.partition_us, file));
        Ok(())
    });
    let read = read.map_err(error)?;
    let mut pass = 0;
    // Pieces with long rows do not fit into memory together.
    let (file, merged) = loop {
        let inputs = pieces.iter().map(|p| (p, snapshot.open(&p.file))).collect();
        let mut merged = (0, Census::default());
        let (file, bounds) = write(fs, data, format!("{making}/rows-{pass}"), |to| {
            let all = part::merge(&meta, inputs, &[], to, pause)?;
            merged = (all.inputs, all.census);
            Ok(all.bounds)
        })?;
        let (inputs, census) = merged;
        if inputs == pieces.len() {
            break (file, census);
        }
        pass += 1;
        pieces.drain(..inputs);
        pieces.push(bounds.part(part.id, &part.stream, part.partition_us, file));
    };
    let written = part::census(&file.path, snapshot.open(&file))?;
    if merged != read || written != read {
        return Err(Error::Corrupt {
            path: data.join(&part.file.path),
            offset: 0,
            what: format!("the rows written in the order of {field} differ from the part's rows"),
        });
    }
    let bytes = publish(fs, data, file, (part, field))?;
    clear(fs, data)?;
    Ok(bytes)
}

/// Returns the stream with parts sorted by `field` first.
fn in_order_of(field: &str, meta: &StreamMeta) -> StreamMeta {
    let rest = meta.order_by.iter().filter(|other| *other != field);
    StreamMeta {
        order_by: std::iter::once(field.to_owned())
            .chain(rest.cloned())
            .collect(),
        ..meta.clone()
    }
}

fn write(
    fs: &dyn Fs,
    data: &Path,
    path: String,
    rows: impl FnOnce(&mut FileWriter<'_>) -> Result<Bounds, Stop>,
) -> Result<(FileRef, Bounds)> {
    let mut file = FileWriter::create(fs, &data.join(&path))?;
    match rows(&mut file) {
        Ok(bounds) => Ok((file.finish_as(path)?, bounds)),
        Err(stop) => Err(file.failure().unwrap_or_else(|| error(stop))),
    }
}

fn error(stop: Stop) -> Error {
    match stop {
        Stop::Unread(_, error) | Stop::Failed(error) => error,
        Stop::Unsorted(_) => panic!("BUG: pieces were sorted"),
    }
}

/// Moves the rows to their final path, and then writes `.covering`.
#[expect(
    clippy::disallowed_methods,
    reason = "what is moved was written durably under the name of what is being made"
)]
fn publish(
    fs: &dyn Fs,
    data: &Path,
    file: FileRef,
    (part, field): (&PartMeta, &str),
) -> Result<u64> {
    let (from, path) = (data.join(&file.path), at(part, field, "rows"));
    let to = data.join(&path);
    let dir = to.parent().expect("BUG: an index lies in a folder");
    create_dir_durably(fs, data, dir)?;
    fs.rename(&from, &to).at("rename", &from)?;
    let file = FileRef { path, ..file };
    let bytes = file.len;
    let named = RowsPointer {
        format: FORMAT,
        file,
    };
    let line = serde_json::to_string(&named).map_err(|e| Error::invalid(e.to_string()))?;
    let text = format!("{line}{}", checksum_line(line.as_bytes()));
    write_durably(fs, &data.join(at(part, field, "covering")), text.as_bytes())?;
    fs.sync_dir(dir).at("sync", dir)?;
    Ok(bytes + text.len() as u64)
}
