//! Equality indexes: find the rows of a part that have a value in a column.
//!
//! An inverted index is one file for one column of one part,
//! `indexes/STREAM/FIELD/<part>-<checksum>.index` (its layout: module `file`). A covering index
//! holds the rows themselves (module `covering`). Background work builds them
//! (`store/maintenance/index.rs`) for parts so large that a scan takes noticeable time.
//!
//! # Invariants
//! * Nothing depends on an index. No manifest names one. Any may be lost or removed at any time
//!   and is built again. An index that is missing, damaged or of another file costs speed and
//!   changes no result.
//! * A lookup returns every row that has a requested value. It may return rows of other values
//!   with the same hash: the caller compares each row with the value.
//! * The cost of a value does not depend on its length, since 32 bits of its hash stand for it.
//!   An inverted index is built in eight bytes of memory per row.

mod build;
pub(crate) mod covering;
mod file;
mod wanted;

pub(crate) use build::build;
pub use covering::CoveringIndex;
#[cfg(any(test, fuzzing))]
pub use file::fuzzing::index_file;
pub use wanted::{IndexKind, IndexName};
pub(crate) use wanted::{read as read_wanted, write as write_wanted};

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_64;

use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::manifest::{PartMeta, StreamMeta};
use crate::model::{ColumnType, ID, Name, REST, SEQ, StreamKind, TIME};
use crate::snapshot::Snapshot;
use file::{Head, IndexTarget, PREFIX_BYTES, Prefix};

/// Folder of the indexes, below the data directory.
pub(crate) const DIR: &str = "indexes";
/// Number of rows below which a part has no index: such parts are read in a few milliseconds.
pub const INDEX_ROWS_MIN: u64 = 100_000;
/// Maximum bytes of a folder's name.
const FOLDER_BYTES_MAX: usize = 200;

/// A value that can be looked up in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexValue {
    /// A value of a text column.
    Text(String),
    /// A value of an integer column of any width.
    Integer(i64),
}

impl IndexValue {
    fn key(&self) -> u32 {
        match self {
            Self::Text(text) => key_of_text(text),
            Self::Integer(number) => key_of_integer(*number),
        }
    }

    fn kind(&self) -> ValueKind {
        match self {
            Self::Text(_) => ValueKind::Texts,
            Self::Integer(_) => ValueKind::Integers,
        }
    }
}

/// The kind of values in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// The part lacks the column.
    None,
    Texts,
    Integers,
}

fn key_of_text(text: &str) -> u32 {
    (xxh3_64(text.as_bytes()) >> 32) as u32
}

fn key_of_integer(number: i64) -> u32 {
    (xxh3_64(&number.to_le_bytes()) >> 32) as u32
}

/// The reason why a column has no index that is not there.
pub(crate) const NO_COLUMN: &str = "the stream has no such column";

/// Checks whether a column of a stream can have an index. The error is the reason why not.
pub(crate) fn suits(meta: &StreamMeta, field: &str) -> Result<(), String> {
    let access = meta.kind == StreamKind::Access;
    if meta.order_by.first().is_some_and(|first| first == field) {
        return Err("parts are already sorted by this column".into());
    }
    if [ID, REST, SEQ, TIME].contains(&field) || access && field == "request" {
        return Err("its stored form differs from the values that queries read".into());
    }
    match meta.column_type(field) {
        Some(ColumnType::Text | ColumnType::Int16 | ColumnType::Int64) => Ok(()),
        Some(_) => Err("only text and integer columns can have an index".into()),
        None => Err(NO_COLUMN.into()),
    }
}

/// Returns the folder of an index, relative to the data directory. Field names come from clients,
/// so every byte that may be unsafe in a path is escaped.
fn folder(stream: &Name, field: &str) -> String {
    let mut name = String::new();
    for byte in field.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(byte.into()),
            other => write!(name, "%{other:02x}").expect("BUG: a text takes everything"),
        }
    }
    if name.len() > FOLDER_BYTES_MAX {
        name.truncate(FOLDER_BYTES_MAX);
        write!(name, "%{:016x}", xxh3_64(field.as_bytes())).expect("BUG: as above");
    }
    format!("{DIR}/{stream}/{name}")
}

/// Returns the path of the file of a part's index that proves it complete, relative to the data
/// directory.
pub(crate) fn place(part: &PartMeta, name: &IndexName) -> String {
    match name.kind {
        IndexKind::Inverted => at(part, &name.field, "index"),
        IndexKind::Covering => at(part, &name.field, "covering"),
    }
}

/// Returns the paths of all files of a part's index.
pub(crate) fn places(part: &PartMeta, name: &IndexName) -> Vec<String> {
    let rows = match name.kind {
        IndexKind::Inverted => None,
        IndexKind::Covering => Some(at(part, &name.field, "rows")),
    };
    [place(part, name)].into_iter().chain(rows).collect()
}

/// Checks that the files are the index of this part, as far as that shows without reading all of
/// them.
pub(crate) fn is_sound(sealed: &Snapshot, part: &PartMeta, name: &IndexName) -> bool {
    match name.kind {
        IndexKind::Inverted => PartIndex::open(sealed, part, &name.field).is_ok(),
        IndexKind::Covering => {
            CoveringIndex::open(sealed, part, &name.field).is_ok_and(|index| index.is_some())
        }
    }
}

pub(crate) fn at(part: &PartMeta, field: &str, ending: &str) -> String {
    let folder = folder(&part.stream, field);
    format!("{folder}/{:016x}-{:08x}.{ending}", part.id, part.file.crc)
}

/// Returns the paths of all index files, relative to the data directory.
pub(crate) fn files(fs: &dyn Fs, data: &std::path::Path) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    let names = |dir: &str| -> Result<Vec<String>> {
        let path = data.join(dir);
        match fs.is_dir(&path) {
            true => fs.list(&path).at("list", &path),
            false => Ok(Vec::new()),
        }
    };
    for stream in names(DIR)? {
        for field in names(&format!("{DIR}/{stream}"))? {
            let folder = format!("{DIR}/{stream}/{field}");
            files.extend(
                names(&folder)?
                    .iter()
                    .map(|name| format!("{folder}/{name}")),
            );
        }
    }
    Ok(files)
}

/// Checks whether some part of a stream may have an index on this column.
pub fn may_be_indexed(snapshot: &Snapshot, stream: &Name, field: &str) -> bool {
    let path = snapshot.data.join(folder(stream, field));
    snapshot.fs.is_dir(&path)
}

/// The head of a part's index, in memory. It locates the one block that may hold a value.
#[derive(Debug)]
pub struct PartIndex {
    path: PathBuf,
    head: Head,
}

/// The rows that an index returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexedRows {
    /// Positions in the part, ascending.
    These(Vec<u32>),
    /// So many rows that a scan is as fast; they are not listed.
    Many,
}

impl PartIndex {
    /// Opens the index of a part; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file is not the index of this part, or the error of the file
    /// system.
    pub fn open(snapshot: &Snapshot, part: &PartMeta, field: &str) -> Result<Option<Self>> {
        let path = snapshot.data.join(at(part, field, "index"));
        let file = match snapshot.fs.open_read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.at("open", &path)?,
        };
        let len = file.len().at("measure", &path)?;
        let corrupt = |what: &str| corrupt(&path, 0, what);
        let mut prefix = [0; PREFIX_BYTES];
        if len < PREFIX_BYTES as u64 {
            return Err(corrupt("the file is truncated"));
        }
        file.read_exact_at(&mut prefix, 0).at("read", &path)?;
        let prefix = Prefix::decode(&prefix).map_err(corrupt)?;
        if len < prefix.blocks_at() {
            return Err(corrupt("the file is truncated"));
        }
        let mut head = vec![0; prefix.head_len()];
        file.read_exact_at(&mut head, PREFIX_BYTES as u64)
            .at("read", &path)?;
        let head = Head::decode(prefix, &head, &IndexTarget::new(part, field)).map_err(corrupt)?;
        if head.file_len() != len {
            return Err(corrupt(
                "the file's length differs from the length in its head",
            ));
        }
        Ok(Some(Self { path, head }))
    }

    /// Returns the rows that may have one of these values, among them all that have one; `None`
    /// when the file was removed meanwhile or holds values of another kind.
    ///
    /// # Errors
    /// As [`PartIndex::open`].
    pub fn rows(&self, snapshot: &Snapshot, values: &[IndexValue]) -> Result<Option<IndexedRows>> {
        let kind = self.head.values;
        if kind != ValueKind::None && values.iter().any(|v| v.kind() != kind) {
            return Ok(None);
        }
        let mut keys: Vec<u32> = values.iter().map(IndexValue::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut file, mut rows) = (None, Vec::new());
        for key in keys {
            let Some(block) = self.head.block_of(key) else {
                continue;
            };
            let file = match &file {
                Some(file) => file,
                None => match snapshot.fs.open_read(&self.path) {
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    other => file.insert(other.at("open", &self.path)?),
                },
            };
            let mut bytes = vec![0; block.len as usize];
            file.read_exact_at(&mut bytes, block.at)
                .at("read", &self.path)?;
            let found = self.head.find(block, &bytes, key);
            match found.map_err(|what| corrupt(&self.path, block.at, what))? {
                None => {}
                Some(IndexedRows::These(some)) => rows.extend(some),
                Some(IndexedRows::Many) => return Ok(Some(IndexedRows::Many)),
            }
        }
        rows.sort_unstable();
        Ok(Some(IndexedRows::These(rows)))
    }

    /// Returns the bytes of memory that the open index takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.path.as_os_str().len() + self.head.memory_bytes()
    }
}

fn corrupt(path: &std::path::Path, offset: u64, what: &str) -> Error {
    Error::Corrupt {
        path: path.into(),
        offset,
        what: what.into(),
    }
}

/// State and size of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexUse {
    /// Stream, column and kind of the index.
    pub name: IndexName,
    /// Number of parts of the stream.
    pub parts: u64,
    /// Number of parts that have the index.
    pub parts_indexed: u64,
    /// Number of parts that are to get the index.
    pub parts_waiting: u64,
    /// Number of rows in the indexed parts.
    pub rows: u64,
    /// Bytes of the index files.
    pub disk_bytes: u64,
}

/// Returns the indexes that a store is configured to have, with their state and size.
pub fn index_use(snapshot: &Snapshot) -> Vec<IndexUse> {
    let (fs, data) = (&*snapshot.fs, &*snapshot.data);
    let wanted = read_wanted(fs, data).into_iter();
    wanted
        .map(|name| index_use_of(fs, data, snapshot, name))
        .collect()
}

fn index_use_of(
    fs: &dyn Fs,
    data: &std::path::Path,
    snapshot: &Snapshot,
    name: IndexName,
) -> IndexUse {
    let mut found = IndexUse {
        parts: 0,
        parts_indexed: 0,
        parts_waiting: 0,
        rows: 0,
        disk_bytes: 0,
        name,
    };
    for part in snapshot.manifest.parts_of(&found.name.stream) {
        found.parts += 1;
        let len = |place: &String| fs.open_read(&data.join(place)).and_then(|file| file.len());
        let bytes = places(part, &found.name)
            .iter()
            .map(len)
            .sum::<Result<u64, _>>();
        match bytes {
            Ok(bytes) => {
                found.parts_indexed += 1;
                found.rows += part.rows;
                found.disk_bytes += bytes;
            }
            Err(_) if part.rows >= INDEX_ROWS_MIN => found.parts_waiting += 1,
            Err(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
