//! Reading of parts: in full from memory, or in pieces from the disk.

use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use bytes::Bytes;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ProjectionMask, parquet_to_arrow_schema};
use parquet::basic::{ConvertedType, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::blocks::CheckedFile;
use crate::error::{Error, Result};
use crate::manifest::PartMeta;
use crate::snapshot::Snapshot;

const READ_ROWS: usize = 64 * 1024;
/// Buffer size for the header of a page and, as a rule, the data after it.
const HEAD_BYTES: usize = 1024;

/// Reads rows of a part in batches; `columns` that the part lacks are left out.
///
/// # Errors
/// When the bytes are not a part.
pub fn read_part(bytes: Bytes, columns: Option<&[&str]>) -> Result<Vec<RecordBatch>, ParquetError> {
    guarded(|| {
        let reader = select(reader_of(bytes)?, columns)
            .with_batch_size(READ_ROWS)
            .build()?;
        reader
            .map(|batch| batch.map_err(ParquetError::from))
            .collect()
    })
}

/// Returns the columns of a part.
///
/// # Errors
/// When the bytes are not a part.
pub(crate) fn read_schema(bytes: Bytes) -> Result<SchemaRef, ParquetError> {
    guarded(|| Ok(Arc::clone(reader_of(bytes)?.schema())))
}

/// Opens a reader that returns the text types that the file's own schema names.
pub(super) fn reader_of<T: ChunkReader + 'static>(
    file: T,
) -> Result<ParquetRecordBatchReaderBuilder<T>, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    check_texts(builder.metadata().file_metadata())?;
    Ok(builder)
}

/// Checks that the Parquet reader verifies the UTF-8 of every text. It makes texts of a column
/// that the file's Arrow schema or the newer of Parquet's two annotations calls so, and verifies
/// those that the older one does (`ConvertedType`). Each writer of texts writes both.
///
/// # Errors
/// When a column is read as text without being verified.
pub(super) fn check_texts(file: &FileMetaData) -> Result<(), ParquetError> {
    let columns = file.schema_descr();
    let unverified = |leaf: &usize| {
        let column = columns.column(*leaf);
        column.physical_type() == Type::BYTE_ARRAY && column.converted_type() != ConvertedType::UTF8
    };
    let unverified: Vec<usize> = (0..columns.num_columns()).filter(unverified).collect();
    if unverified.is_empty() {
        return Ok(());
    }
    let schema = parquet_to_arrow_schema(columns, file.key_value_metadata())?;
    // Fields keep their order; one that was left out would shift those behind it.
    if schema.fields().len() != columns.root_schema().get_fields().len() {
        let message = "a column of the file has no type in Arrow".to_owned();
        return Err(ParquetError::General(message));
    }
    for leaf in unverified {
        let field = schema.field(columns.get_column_root_idx(leaf));
        if may_be_text(field.data_type()) {
            let name = field.name();
            let message = format!("the texts of the column {name:?} are not marked as UTF-8");
            return Err(ParquetError::General(message));
        }
    }
    Ok(())
}

fn may_be_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => may_be_text(values),
        other => other.is_string() || other.is_nested(),
    }
}

/// Runs a reader of a whole file. A detached folder comes from elsewhere with its checksums, and a
/// repair has none, so the Parquet reader may get anything; it panics at some of it.
fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        let what = "its footer contradicts the file".to_owned();
        Err(ParquetError::General(what))
    })
}

/// Reads one column of a part, some thousand rows at a time, and no other data. `take` gets the
/// number of rows and their values, `None` when the part lacks the column.
pub(crate) fn read_column(
    snapshot: &Snapshot,
    part: &PartMeta,
    column: &str,
    take: &mut dyn FnMut(usize, Option<&ArrayRef>) -> Result<()>,
) -> Result<()> {
    let pieces = Pieces::of(snapshot.open(&part.file));
    let wrong = |source| {
        pieces.failure().unwrap_or_else(|| Error::Parquet {
            path: (&part.file.path).into(),
            source,
        })
    };
    let builder = reader_of(pieces.clone()).map_err(wrong)?;
    let reader = select(builder, Some(&[column])).build().map_err(wrong)?;
    for batch in reader {
        let batch = batch.map_err(|source| wrong(source.into()))?;
        take(batch.num_rows(), batch.columns().first())?;
    }
    Ok(())
}

/// Restricts the reader to these columns.
pub(super) fn select<T: ChunkReader + 'static>(
    builder: ParquetRecordBatchReaderBuilder<T>,
    columns: Option<&[&str]>,
) -> ParquetRecordBatchReaderBuilder<T> {
    let mask = match columns {
        None => ProjectionMask::all(),
        // Select by position: a name with a dot in it is not a path here.
        Some(names) => {
            let roots = builder.parquet_schema().root_schema().get_fields();
            let wanted = |i: &usize| names.contains(&roots[*i].name());
            ProjectionMask::roots(builder.parquet_schema(), (0..roots.len()).filter(wanted))
        }
    };
    builder.with_projection(mask)
}

/// A part on the disk whose pieces are verified against the manifest as they are read.
#[derive(Clone)]
pub(super) struct Pieces {
    file: Arc<Mutex<CheckedFile>>,
    /// Error of the last failed read; the Parquet reader would replace it by one of its own.
    failed: Arc<Mutex<Option<Error>>>,
    len: u64,
}

impl Pieces {
    pub(super) fn of(file: CheckedFile) -> Self {
        Self {
            len: file.len(),
            file: Arc::new(Mutex::new(file)),
            failed: Arc::default(),
        }
    }

    /// Returns the error of a failed read, if there was one.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failed.lock().take()
    }

    fn read(&self, from: u64, len: usize) -> io::Result<Bytes> {
        let range = from..from + len as u64;
        match self.file.lock().read_ranges(from_ref(&range)) {
            Ok(mut pieces) => Ok(pieces.pop().expect("BUG: one range, one piece")),
            Err(error) => {
                let reported = io::Error::other(error.to_string());
                *self.failed.lock() = Some(error);
                Err(reported)
            }
        }
    }
}

impl Length for Pieces {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Pieces {
    type T = BufReader<PieceReader>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let reader = PieceReader {
            pieces: self.clone(),
            at: start,
        };
        Ok(BufReader::with_capacity(HEAD_BYTES, reader))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        Ok(self.read(start, length)?)
    }
}

/// Reader of a part from some offset to its end.
pub(super) struct PieceReader {
    pieces: Pieces,
    at: u64,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.pieces.len.saturating_sub(self.at);
        let len = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        let bytes = self.pieces.read(self.at, len)?;
        into[..len].copy_from_slice(&bytes);
        self.at += len as u64;
        Ok(len)
    }
}

#[cfg(test)]
mod tests;
