//! Equality indexes: which rows of a part have a value in a column, beside the store.
//!
//! An inverted index is one file about one column of one part, `indexes/STREAM/FIELD/<part>-<checksum>.index` (its
//! bytes: the module `file`). A covering one has the rows themselves (the module `covering`). They are made in the background (`store/index.rs`), of the parts that are
//! large enough for a scan to be felt.
//!
//! # Invariants
//! * Nothing depends on them. No manifest names one; any may be lost or removed at any time, and is made
//!   again. One that is missing, damaged or of another file costs speed and changes no answer.
//! * A lookup leaves out no row that has a value that is asked for. It may name others, of values with the
//!   same hash: whoever asks holds each row against the value.
//! * What a value costs does not depend on how long it is: 32 bits of its hash stand for it. A part's
//!   index is made in eight bytes of memory a row, an inverted one.

mod build;
pub(crate) mod covering;
mod file;
mod wanted;

pub(crate) use build::build;
pub use covering::CoveringIndex;
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
use file::{Head, Of, PREFIX_BYTES, Prefix};

/// The folder below the data directory.
pub(crate) const DIR: &str = "indexes";
/// Parts of fewer rows have no index: they are read in a few milliseconds.
pub const INDEX_ROWS_MIN: u64 = 100_000;
/// Bytes of a folder's name.
const FOLDER_BYTES_MAX: usize = 200;

/// A value that an index may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexValue {
    /// Of a column of texts.
    Text(String),
    /// Of a column of integers of any width.
    Integer(i64),
}

impl IndexValue {
    fn key(&self) -> u32 {
        match self {
            Self::Text(text) => key_of_text(text),
            Self::Integer(number) => key_of_integer(*number),
        }
    }

    fn kind(&self) -> Values {
        match self {
            Self::Text(_) => Values::Texts,
            Self::Integer(_) => Values::Integers,
        }
    }
}

/// What kind of values an index knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    /// None: the part lacks the column.
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

/// Whether a column of a stream can have an index; else why not.
pub(crate) fn suits(meta: &StreamMeta, field: &str) -> Result<(), String> {
    let access = meta.kind == StreamKind::Access;
    if meta.order_by.first().is_some_and(|first| first == field) {
        return Err("parts are sorted by it already".into());
    }
    if [ID, REST, SEQ, TIME].contains(&field) || access && field == "request" {
        return Err("it is not stored as it is read".into());
    }
    match meta.column_type(field) {
        Some(ColumnType::Text | ColumnType::Int16 | ColumnType::Int64) => Ok(()),
        Some(_) => Err("only columns of texts and of integers can have one".into()),
        None => Err("there is no such column".into()),
    }
}

/// The folder of an index, relative to the data directory. Names of fields are anybody's.
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

/// Where the index of a part lies, relative to the data directory: what says that it is whole.
pub(crate) fn place(part: &PartMeta, name: &IndexName) -> String {
    match name.kind {
        IndexKind::Inverted => at(part, &name.field, "index"),
        IndexKind::Covering => at(part, &name.field, "covering"),
    }
}

/// All files of the index of a part.
pub(crate) fn places(part: &PartMeta, name: &IndexName) -> Vec<String> {
    let rows = match name.kind {
        IndexKind::Inverted => None,
        IndexKind::Covering => Some(at(part, &name.field, "rows")),
    };
    [place(part, name)].into_iter().chain(rows).collect()
}

/// Whether what lies there is the index of a part, as far as that can be seen without reading all of it.
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

/// The files of all indexes, relative to the data directory.
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

/// Whether some part of a stream may have an index of this column.
pub fn may_be_indexed(snapshot: &Snapshot, stream: &Name, field: &str) -> bool {
    let path = snapshot.data.join(folder(stream, field));
    snapshot.fs.is_dir(&path)
}

/// The head of a part's index, in memory: what finds the one block that knows a value.
#[derive(Debug)]
pub struct PartIndex {
    path: PathBuf,
    head: Head,
}

/// The rows that a part's index names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexedRows {
    /// Places in the part, ascending.
    These(Vec<u32>),
    /// So many that a scan is as quick; they are not listed.
    Many,
}

impl PartIndex {
    /// The index of a part, when there is one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when what lies there is not the index of this part, or what the file system
    /// says.
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
            return Err(corrupt("it is cut short"));
        }
        file.read_exact_at(&mut prefix, 0).at("read", &path)?;
        let prefix = Prefix::decode(&prefix).map_err(corrupt)?;
        if len < prefix.blocks_at() {
            return Err(corrupt("it is cut short"));
        }
        let mut head = vec![0; prefix.head_len()];
        file.read_exact_at(&mut head, PREFIX_BYTES as u64)
            .at("read", &path)?;
        let head = Head::decode(prefix, &head, &Of::new(part, field)).map_err(corrupt)?;
        if head.file_len() != len {
            return Err(corrupt("it is not as long as it says"));
        }
        Ok(Some(Self { path, head }))
    }

    /// The rows that may have one of these values, all that have one among them; `None` when the file is
    /// gone meanwhile or knows values of another kind.
    ///
    /// # Errors
    /// As [`PartIndex::open`].
    pub fn rows(&self, snapshot: &Snapshot, values: &[IndexValue]) -> Result<Option<IndexedRows>> {
        let kind = self.head.values;
        if kind != Values::None && values.iter().any(|v| v.kind() != kind) {
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

    /// Bytes that it takes in memory.
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

/// What there is of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexUse {
    /// Which.
    pub name: IndexName,
    /// The parts of its stream.
    pub parts: u64,
    /// Those that have it.
    pub parts_indexed: u64,
    /// Those that are to have it and do not yet.
    pub parts_waiting: u64,
    /// Rows of those that have it.
    pub rows: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
}

/// The indexes that are wanted of a store, and how far they are.
pub fn index_use(snapshot: &Snapshot) -> Vec<IndexUse> {
    let (fs, data) = (&*snapshot.fs, &*snapshot.data);
    let wanted = read_wanted(fs, data).into_iter();
    wanted.map(|name| look(fs, data, snapshot, name)).collect()
}

fn look(fs: &dyn Fs, data: &std::path::Path, snapshot: &Snapshot, name: IndexName) -> IndexUse {
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
