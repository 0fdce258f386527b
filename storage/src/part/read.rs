//! Reading parts back: whole ones from memory, or piece by piece from the disk.

use std::io::{self, BufReader, Read};
use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::blocks::CheckedFile;
use crate::error::{Error, Result};
use crate::manifest::PartMeta;
use crate::snapshot::Snapshot;

const READ_ROWS: usize = 64 * 1024;
/// A page's head is read with what follows it, as a rule.
const HEAD_BYTES: usize = 1024;

/// Reads rows of a part back, a batch at a time; `columns` that the part lacks are left out.
///
/// # Errors
/// When the bytes are not a part.
pub fn read_part(bytes: Bytes, columns: Option<&[&str]>) -> Result<Vec<RecordBatch>, ParquetError> {
    // The text types are asked for, since the file's own schema names them so.
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let reader = select(builder, columns)
        .with_batch_size(READ_ROWS)
        .build()?;
    reader
        .map(|batch| batch.map_err(ParquetError::from))
        .collect()
}

/// The columns of a part.
///
/// # Errors
/// When the bytes are not a part.
pub(crate) fn read_schema(bytes: Bytes) -> Result<SchemaRef, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    Ok(Arc::clone(builder.schema()))
}

/// Reads one column of a part, some thousand rows at a time, and nothing else of it. `take` gets how many
/// rows there are and their values, none where the part lacks the column.
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
    let builder = ParquetRecordBatchReaderBuilder::try_new(pieces.clone()).map_err(wrong)?;
    let reader = select(builder, Some(&[column])).build().map_err(wrong)?;
    for batch in reader {
        let batch = batch.map_err(|source| wrong(source.into()))?;
        take(batch.num_rows(), batch.columns().first())?;
    }
    Ok(())
}

/// Leaves out all but these columns.
pub(super) fn select<T: ChunkReader + 'static>(
    builder: ParquetRecordBatchReaderBuilder<T>,
    columns: Option<&[&str]>,
) -> ParquetRecordBatchReaderBuilder<T> {
    let mask = match columns {
        None => ProjectionMask::all(),
        // By position: a name with a dot in it is not a path here.
        Some(names) => {
            let roots = builder.parquet_schema().root_schema().get_fields();
            let wanted = |i: &usize| names.contains(&roots[*i].name());
            ProjectionMask::roots(builder.parquet_schema(), (0..roots.len()).filter(wanted))
        }
    };
    builder.with_projection(mask)
}

/// A part on the disk, whose pieces are compared with the manifest as they are read.
#[derive(Clone)]
pub(super) struct Pieces {
    file: Arc<Mutex<CheckedFile>>,
    /// Why a piece could not be read: the Parquet reader would put it into its own words.
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

    /// Why a piece could not be read, when that has happened.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failed.lock().take()
    }

    fn read(&self, from: u64, len: usize) -> io::Result<Bytes> {
        let range = from..from + len as u64;
        match self.file.lock().read_ranges(from_ref(&range)) {
            Ok(mut pieces) => Ok(pieces.pop().expect("BUG: one range, one piece")),
            Err(error) => {
                let told = io::Error::other(error.to_string());
                *self.failed.lock() = Some(error);
                Err(told)
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
    type T = BufReader<Rest>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let rest = Rest {
            pieces: self.clone(),
            at: start,
        };
        Ok(BufReader::with_capacity(HEAD_BYTES, rest))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        Ok(self.read(start, length)?)
    }
}

/// What follows some place of a part.
pub(super) struct Rest {
    pieces: Pieces,
    at: u64,
}

impl Read for Rest {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.pieces.len.saturating_sub(self.at);
        let len = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        let bytes = self.pieces.read(self.at, len)?;
        into[..len].copy_from_slice(&bytes);
        self.at += len as u64;
        Ok(len)
    }
}
