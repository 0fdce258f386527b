//! The folder of a detached partition, read by another store than the one it came from.
//!
//! Here the card decides: the whole folder is refused if a file is missing or differs from the
//! card. The card and its checksum come from the sender and are not trusted either. It may name
//! only files of its own folder, each once, and its statements about rows are compared with the
//! rows.
//! Events are returned part by part, each part in the order of its old sequence numbers. They
//! carry their `_id`s as values, so that an `_id` keeps naming the same event.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{SortOptions, concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::{Field, Schema};
use xxhash_rust::xxh3::xxh3_64;

use super::{Card, FILE};
use crate::check::check_part;
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::manifest::{PartMeta, id_prefix, object_id};
use crate::memtable::column;
use crate::model::{ColumnType, ID, Name, SEQ, StreamKind};
use crate::part::{partition_folder, read_part};

/// A folder with a detached partition, anywhere on the disk.
#[derive(Debug)]
pub struct DetachedFolder {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    card: Card,
    /// xxh3-64 of the card's bytes.
    hash: u64,
}

impl DetachedFolder {
    /// Reads the card of a folder and compares every file with it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the folder has no card, or a file is missing or was changed;
    /// [`Error::FormatTooNew`].
    pub fn open(fs: Arc<dyn Fs>, folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let bytes = fs.read(&path).at("read", &path).map_err(|e| {
            with_remedy(
                &path,
                e,
                "give the folder of a detached partition, such as detached/access/date=2000-10-10",
            )
        })?;
        let again = "copy the folder again from the store that detached it";
        let card = Card::decode(&path, &bytes).map_err(|e| with_remedy(&path, e, again))?;
        let mut parts = card.parts.clone();
        parts.sort_by_key(|p| (p.seq, p.id));
        check_names(&path, &parts)?;
        for part in &parts {
            let path = folder.join(&part.file.path);
            let whole = part.file.read(&*fs, folder).and_then(|bytes| {
                check_part(part, &bytes).map_err(|what| Error::Corrupt {
                    path: path.clone(),
                    offset: 0,
                    what,
                })
            });
            whole.map_err(|e| with_remedy(&path, e, again))?;
        }
        Ok(Self {
            fs,
            folder: folder.into(),
            card: Card { parts, ..card },
            hash: xxh3_64(&bytes),
        })
    }

    /// Returns the id of the store that the partition came from.
    pub fn store_id(&self) -> &str {
        &self.card.store_id
    }

    /// Returns the stream of the partition.
    pub fn stream(&self) -> &Name {
        &self.card.stream
    }

    /// Returns the kind of that stream.
    pub fn kind(&self) -> StreamKind {
        self.card.kind
    }

    /// Returns the name of the partition, as in `date=2000-10-10`.
    pub fn partition(&self) -> String {
        partition_folder(self.card.width, self.card.partition_us)
    }

    /// Returns a name that no other partition has, nor this one with other parts.
    pub fn identity(&self) -> String {
        let Card {
            store_id, stream, ..
        } = &self.card;
        format!(
            "{store_id}/{stream}/{}/{:016x}",
            self.partition(),
            self.hash
        )
    }

    /// Returns the number of events and of bytes of each part.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.card.parts.iter().map(|p| (p.rows, p.file.len))
    }

    /// Returns the events of a part in the order of their old sequence numbers, with their `_id`s
    /// and without those numbers.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file has changed since the folder was opened.
    pub fn events(&self, part: usize) -> Result<RecordBatch> {
        let part: &PartMeta = &self.card.parts[part];
        let bytes = part.file.read(&*self.fs, &self.folder)?;
        let parquet = |source| Error::Parquet {
            path: self.folder.join(&part.file.path),
            source,
        };
        let batches = read_part(bytes, None).map_err(parquet)?;
        let Some(first) = batches.first() else {
            return Err(Error::invalid(format!("{} is empty", part.file.path)));
        };
        let all = concat_batches(&first.schema(), &batches)?;
        let order = sort_to_indices(&all[SEQ], Some(SortOptions::default()), None)?;
        self.with_ids(&take_record_batch(&all, &order)?)
    }

    fn with_ids(&self, events: &RecordBatch) -> Result<RecordBatch> {
        let prefix = id_prefix(&self.card.store_id, self.card.created_s);
        let seqs: &UInt64Array = column(events, SEQ);
        let own = events
            .column_by_name(ID)
            .and_then(|ids| ids.as_string_opt::<i32>());
        let id = |(row, seq): (usize, &u64)| match own {
            Some(own) if own.is_valid(row) => own.value(row).to_owned(),
            _ => String::from_utf8_lossy(&object_id(prefix, *seq)).into_owned(),
        };
        let ids = seqs.values().iter().enumerate().map(id);
        let ids: ArrayRef = Arc::new(StringArray::from_iter_values(ids));
        let schema = events.schema();
        let fields = schema.fields().iter().zip(events.columns());
        let (mut fields, mut columns): (Vec<Arc<Field>>, Vec<ArrayRef>) = fields
            .filter(|(field, _)| ![SEQ, ID].contains(&field.name().as_str()))
            .map(|(field, array)| (Arc::clone(field), Arc::clone(array)))
            .unzip();
        fields.push(Arc::new(Field::new(ID, ColumnType::Text.arrow(), true)));
        columns.push(ids);
        Ok(RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            columns,
        )?)
    }
}

/// Refuses a card that names a file outside its folder, or one file twice.
fn check_names(card: &Path, parts: &[PartMeta]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for part in parts {
        let name = part.file.path.as_str();
        let is_own = !name.contains(['/', '\\']) && !["", ".", ".."].contains(&name);
        if !is_own || !seen.insert(name) {
            return Err(Error::invalid(format!(
                "{}: file {name:?} is listed twice or lies outside the folder; copy the folder again from the store that detached it",
                card.display()
            )));
        }
    }
    Ok(())
}

/// Turns the error of a missing or damaged file into one with the file's path and a remedy.
fn with_remedy(path: &Path, error: Error, remedy: &str) -> Error {
    let what = match error {
        Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            "the file is missing".into()
        }
        Error::Corrupt { what, .. } => what,
        other => return other,
    };
    Error::invalid(format!("{}: {what}; {remedy}", path.display()))
}

#[cfg(test)]
mod tests;
