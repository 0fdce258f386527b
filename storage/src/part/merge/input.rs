//! One input of a merge: a part that is read a batch at a time and compared with the manifest.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::row::{OwnedRow, Row, Rows};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use xxhash_rust::xxh3::xxh3_64;

use super::Stop;
use crate::blocks::CheckedFile;
use crate::error::{Error, Result};
use crate::manifest::PartMeta;
use crate::memtable::column;
use crate::model::SEQ;
use crate::part::bounds::Bounds;
use crate::part::order::RowOrder;
use crate::part::read::{Pieces, check_texts, reader_of, select};

/// A fingerprint of a set of rows, whatever their order: their number, and the sum of the hashes
/// of their sequence numbers. A lost row and a repeated one leave the number unchanged, but not
/// the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Census {
    rows: u64,
    seqs: u64,
}

impl Census {
    pub(crate) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.seqs = self.seqs.wrapping_add(other.seqs);
    }

    fn of(batch: &RecordBatch) -> Self {
        let seqs: &UInt64Array = column(batch, SEQ);
        let hashes = seqs.values().iter().map(|seq| xxh3_64(&seq.to_le_bytes()));
        Self {
            rows: batch.num_rows() as u64,
            seqs: hashes.fold(0, u64::wrapping_add),
        }
    }
}

/// Returns the census of a file.
pub(crate) fn census(path: &str, file: CheckedFile) -> Result<Census> {
    let pieces = Pieces::of(file);
    let read = || {
        let builder = reader_of(pieces.clone())?;
        let mut all = Census::default();
        for batch in select(builder, Some(&[SEQ])).build()? {
            all.add(Census::of(&batch?));
        }
        Ok(all)
    };
    read().map_err(|source| pieces.failure().unwrap_or_else(|| parquet(path, source)))
}

fn parquet(path: &str, source: parquet::errors::ParquetError) -> Error {
    Error::Parquet {
        path: path.into(),
        source,
    }
}

/// A part to be merged, with its footer.
pub(super) struct Input<'a> {
    part: &'a PartMeta,
    pieces: Pieces,
    footer: ArrowReaderMetadata,
}

impl<'a> Input<'a> {
    pub(super) fn open(part: &'a PartMeta, file: CheckedFile) -> Result<Self, Stop> {
        let pieces = Pieces::of(file);
        let footer = ArrowReaderMetadata::load(&pieces, ArrowReaderOptions::new());
        let footer = footer.and_then(|footer| {
            check_texts(footer.metadata().file_metadata())?;
            Ok(footer)
        });
        match footer {
            Ok(footer) => Ok(Self {
                part,
                pieces,
                footer,
            }),
            Err(source) => {
                let error = pieces.failure();
                let error = error.unwrap_or_else(|| parquet(&part.file.path, source));
                Err(Stop::Unread(part.id, error))
            }
        }
    }

    /// Checks whether some row has a value in this column, as far as the footer shows.
    pub(super) fn has(&self, name: &str) -> bool {
        let Ok(nth) = self.footer.schema().index_of(name) else {
            return false;
        };
        self.footer.metadata().row_groups().iter().any(|group| {
            let nulls = group
                .column(nth)
                .statistics()
                .and_then(|s| s.null_count_opt());
            nulls.map(i128::from) != Some(group.num_rows().into())
        })
    }

    /// Checks that every column is one of the stream's, so that none is lost.
    pub(super) fn knows_only(&self, stored: &Schema) -> Result<(), Stop> {
        let fields = self.footer.schema().fields();
        let known = |name: &str| stored.index_of(name).is_ok();
        match fields
            .iter()
            .find(|f| !known(f.name()) && self.has(f.name()))
        {
            None => Ok(()),
            Some(field) => Err(self.wrong(format!(
                "the part has a column that its stream does not have: {}",
                field.name()
            ))),
        }
    }

    fn wrong(&self, what: String) -> Stop {
        let what = format!("{}: {what}", self.part.file.path);
        Stop::Unread(self.part.id, Error::invalid(what))
    }

    pub(super) fn rows(&self) -> u64 {
        self.part.rows
    }

    pub(super) fn columns(&self) -> u64 {
        self.footer.schema().fields().len() as u64
    }

    /// Returns the decoded bytes of a row, the mean of the row group with the longest rows. A
    /// dictionary holds a long value once, and the rows that repeat it have a copy each.
    fn row_bytes(&self) -> u64 {
        let decoded = |column: &ColumnChunkMetaData| {
            let texts = column.unencoded_byte_array_data_bytes().unwrap_or(0);
            texts.max(column.uncompressed_size()).unsigned_abs()
        };
        let groups = self.footer.metadata().row_groups().iter();
        let of_group = |group: &RowGroupMetaData| {
            let bytes: u64 = group.columns().iter().map(decoded).sum();
            bytes.div_ceil(group.num_rows().unsigned_abs().max(1))
        };
        groups.map(of_group).max().unwrap_or(0).max(1)
    }

    /// Returns the number of rows of a batch with at most so many rows and bytes, one at least.
    fn batch_rows(&self, (rows, bytes): (usize, u64)) -> usize {
        usize::try_from(bytes / self.row_bytes()).map_or(rows, |fit| fit.clamp(1, rows))
    }

    /// Returns the decoded bytes of such a batch.
    pub(super) fn batch_bytes(&self, most: (usize, u64)) -> u64 {
        let rows = (self.batch_rows(most) as u64).min(self.part.rows);
        rows.saturating_mul(self.row_bytes())
    }
}

/// The position of a merge in one of its inputs.
pub(super) struct InputCursor<'a> {
    input: Input<'a>,
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    /// Sequence numbers of rows to leave out, rising.
    without: &'a [u64],
    seen: Bounds,
    /// The rows that are not left out.
    pub(super) census: Census,
    pub(super) batch: RecordBatch,
    pub(super) row: usize,
    keys: Option<Rows>,
    last: Option<OwnedRow>,
}

impl<'a> InputCursor<'a> {
    /// Returns a cursor before the first row that is not among `without`. Batches have at most this
    /// many rows and bytes.
    pub(super) fn begin(
        input: Input<'a>,
        schema: &SchemaRef,
        without: &'a [u64],
        most: (usize, u64),
    ) -> Result<Self, Stop> {
        let (pieces, footer) = (input.pieces.clone(), input.footer.clone());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pieces, footer);
        let reader = builder.with_batch_size(input.batch_rows(most)).build();
        let reader = reader.map_err(|source| {
            Stop::Unread(input.part.id, parquet(&input.part.file.path, source))
        })?;
        Ok(Self {
            input,
            reader,
            schema: Arc::clone(schema),
            without,
            seen: Bounds::new(),
            census: Census::default(),
            batch: RecordBatch::new_empty(Arc::clone(schema)),
            row: 0,
            keys: None,
            last: None,
        })
    }

    /// Returns the key of the current row.
    pub(super) fn head(&self) -> Row<'_> {
        self.keys
            .as_ref()
            .expect("BUG: a batch was loaded")
            .row(self.row)
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.row == self.batch.num_rows()
    }

    /// Loads the next batch, if there is one.
    pub(super) fn load(&mut self, order: &RowOrder) -> Result<bool, Stop> {
        let Some(batch) = self.next_batch()? else {
            return Ok(false);
        };
        let keys = order.keys(&batch)?;
        let rows = keys.num_rows();
        let rises = (1..rows).all(|row| keys.row(row - 1) <= keys.row(row));
        let follows = self
            .last
            .as_ref()
            .is_none_or(|last| last.row() <= keys.row(0));
        if !rises || !follows {
            return Err(Stop::Unsorted(self.input.part.id));
        }
        self.last = Some(keys.row(rows - 1).owned());
        (self.batch, self.keys, self.row) = (batch, Some(keys), 0);
        Ok(true)
    }

    /// Returns the next rows, in the columns of the merge. After the last ones it compares all
    /// rows read with the manifest.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, Stop> {
        let part = self.input.part;
        for batch in self.reader.by_ref() {
            let batch = batch.map_err(|source| {
                let error = self.input.pieces.failure();
                Stop::Unread(part.id, error.unwrap_or(source.into()))
            })?;
            if batch.num_rows() == 0 {
                continue;
            }
            let batch = fit(&batch, &self.schema).map_err(|e| Stop::Unread(part.id, e))?;
            self.seen.widen(&batch, &[]);
            let batch = leave_out(batch, self.without)?;
            if batch.num_rows() == 0 {
                continue;
            }
            self.census.add(Census::of(&batch));
            return Ok(Some(batch));
        }
        let seen = (self.seen.rows, self.seen.seq, self.seen.time);
        if seen != (part.rows, part.seq, part.time) {
            return Err(self
                .input
                .wrong("its rows, sequence numbers or times differ from the manifest".into()));
        }
        Ok(None)
    }
}

/// Returns the rows whose sequence numbers are not among `without`, which rise.
fn leave_out(batch: RecordBatch, without: &[u64]) -> Result<RecordBatch> {
    if without.is_empty() {
        return Ok(batch);
    }
    let seqs: &UInt64Array = column(&batch, SEQ);
    let stays = |seq: &u64| without.binary_search(seq).is_err();
    let stays: BooleanArray = seqs.values().iter().map(|seq| Some(stays(seq))).collect();
    Ok(filter_record_batch(&batch, &stays)?)
}

/// Fits rows to these columns: missing columns are null, and values of another type are cast.
pub(super) fn fit(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |field: &arrow::datatypes::FieldRef| -> Result<ArrayRef> {
        let Some(array) = batch.column_by_name(field.name()) else {
            return Ok(new_null_array(field.data_type(), batch.num_rows()));
        };
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        let fits = cast(array, field.data_type())?;
        if fits.null_count() == array.null_count() {
            return Ok(fits);
        }
        let (name, wanted) = (field.name(), field.data_type());
        Err(Error::invalid(format!(
            "column {name} has values that do not fit {wanted}"
        )))
    };
    let columns = schema
        .fields()
        .iter()
        .map(column)
        .collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
