//! Reads the wanted rows of a row group. It reads the pages that may hold them, decodes the
//! columns of the condition first, and then decodes the wanted rows of the other columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::kernels::cmp::{eq, gt_eq, lt_eq};
use arrow::compute::{and, concat, concat_batches, filter_record_batch, or, prep_null_mask_filter};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use object_store::ObjectMeta;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use storage::{IndexValue, TIME};

use super::dictionaries::{Dictionaries, Dictionary};
use super::fetched::{Fetched, FetchedChunk, FilePieces};
use super::places::{GroupRows, SliceCondition, has_long_runs, position};
use crate::tables::stream::chunks::conform;
use crate::tables::stream::prune::TimeRange;

/// A row group, and the rows that are wanted of it.
pub(super) struct Slice<'a> {
    pub(super) file: &'a ObjectMeta,
    pub(super) footer: &'a Arc<ParquetMetaData>,
    pub(super) wanted: &'a SliceCondition,
    pub(super) place: &'a GroupRows,
    pub(super) dictionaries: &'a Arc<Dictionaries>,
}

impl Slice<'_> {
    /// Returns the wanted rows as `schema`, whose types are those of `stored`, in batches of
    /// `batch_rows`.
    pub(super) async fn read(
        self,
        reader: &mut impl AsyncFileReader,
        (stored, schema): (&SchemaRef, &SchemaRef),
        batch_rows: usize,
    ) -> Result<Batches> {
        let mut first = vec![self.wanted.column.as_str()];
        if self.wanted.range != TimeRange::ALL && !first.contains(&TIME) {
            first.push(TIME);
        }
        let others = schema.fields().iter().map(|field| field.name().as_str());
        let others: Vec<&str> = others.filter(|name| !first.contains(name)).collect();
        let columns = first.iter().chain(&others);
        let columns: Vec<usize> = columns
            .filter_map(|name| position(self.footer, name))
            .collect();
        let fetched = self.fetch(reader, &columns).await?;

        let mut told = Vec::new();
        let mut passed = Vec::new();
        for batch in fetched.reader(&first, stored, &self.place.rows, batch_rows)? {
            let batch = batch?;
            let passes = self.passes(&batch)?;
            told.push(filter_record_batch(&batch, &passes)?);
            passed.push(passes);
        }
        let told = match told.first() {
            Some(first) => concat_batches(&first.schema(), &told)?,
            None => RecordBatch::new_empty(Arc::clone(schema)),
        };
        let mut rest = None;
        if !others.is_empty() && told.num_rows() > 0 {
            let wanted = self
                .place
                .rows
                .and_then(&RowSelection::from_filters(&passed));
            let is_passed_over = has_long_runs(&wanted);
            let rows = if is_passed_over {
                &wanted
            } else {
                &self.place.rows
            };
            let passed: Vec<&dyn Array> = passed.iter().map(|p| p as _).collect();
            rest = Some(Rest {
                reader: fetched.reader(&others, stored, rows, batch_rows)?,
                passed: if is_passed_over {
                    None
                } else {
                    Some(concat(&passed)?)
                },
            });
        }
        Ok(Batches {
            told,
            rest,
            batch_rows,
            schema: Arc::clone(schema),
        })
    }

    /// Returns a mask of the wanted rows of a batch.
    fn passes(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let column = |name| batch.column_by_name(name).expect("BUG: it was read");
        let values = column(&self.wanted.column);
        let mut passes = BooleanArray::from(vec![false; batch.num_rows()]);
        for value in &self.wanted.values {
            let value = match value {
                IndexValue::Text(text) => ScalarValue::Utf8View(Some(text.clone())),
                IndexValue::Integer(n) => ScalarValue::Int64(Some(*n)),
            };
            let value = value.cast_to(values.data_type())?.to_scalar()?;
            passes = or(&passes, &known_true(&eq(values, &value)?))?;
        }
        if self.wanted.range != TimeRange::ALL {
            let TimeRange { first, last } = self.wanted.range;
            let times = column(TIME);
            let stamp = |t| {
                let stamp = ScalarValue::TimestampMicrosecond(Some(t), Some("UTC".into()));
                stamp.cast_to(times.data_type())?.to_scalar()
            };
            passes = and(&passes, &gt_eq(times, &stamp(first)?)?)?;
            passes = and(&passes, &lt_eq(times, &stamp(last)?)?)?;
        }
        Ok(known_true(&passes))
    }

    /// Reads the pages of these columns in which wanted rows may lie, and the dictionaries that
    /// are not cached.
    async fn fetch(&self, reader: &mut impl AsyncFileReader, columns: &[usize]) -> Result<Fetched> {
        let group = self.footer.row_group(self.place.group);
        let mut ranges = Vec::new();
        let mut chunks: Vec<Option<FetchedChunk>> = vec![None; group.num_columns()];
        for column in columns.iter().copied() {
            let pages = self.pages(column)?;
            let (start, _) = group.column(column).byte_range();
            let first = pages
                .first()
                .map_or(start, |page| page.offset.cast_unsigned());
            let key = (self.place.group, column);
            let dictionary = Dictionary::of(self.dictionaries, self.file, key);
            let mut known = None;
            if start < first {
                known = dictionary.page();
                if known.is_none() {
                    ranges.push(start..first);
                }
            }
            ranges.extend(self.place.rows.scan_ranges(pages));
            chunks[column] = Some(FetchedChunk {
                pages: pages.to_vec(),
                dictionary,
                known,
            });
        }
        let pieces = reader.get_byte_ranges(ranges.clone()).await?;
        let mut pieces: Vec<(u64, Bytes)> = ranges
            .into_iter()
            .map(|range| range.start)
            .zip(pieces)
            .collect();
        pieces.sort_unstable_by_key(|piece| piece.0);
        Ok(Fetched {
            footer: Arc::clone(self.footer),
            group: self.place.group,
            pieces: Arc::new(FilePieces(pieces)),
            chunks,
        })
    }

    fn pages(&self, column: usize) -> Result<&[PageLocation]> {
        let index = self.footer.offset_index();
        let pages = index.and_then(|groups| groups.get(self.place.group)?.get(column));
        pages
            .map(|pages| pages.page_locations().as_slice())
            .ok_or_else(|| {
                let place = format!("row group {}, column {column}", self.place.group);
                DataFusionError::External(format!("{place}: the page offsets are missing").into())
            })
    }
}

/// Iterator over the wanted rows of a row group, which decodes them on demand.
pub(super) struct Batches {
    /// Rows that were not returned yet, in the columns of the condition.
    told: RecordBatch,
    rest: Option<Rest>,
    batch_rows: usize,
    schema: SchemaRef,
}

/// Reader of the other columns.
struct Rest {
    reader: ParquetRecordBatchReader,
    /// Mask of the wanted rows, from the reader's next row on; `None` if the reader returns only
    /// wanted rows.
    passed: Option<ArrayRef>,
}

impl Batches {
    fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        let left = self.told.num_rows();
        if left == 0 {
            return Ok(None);
        }
        let rest = match &mut self.rest {
            Some(rest) => rest.next_rows()?,
            None => None,
        };
        let rows = match &rest {
            Some(rest) => rest.num_rows(),
            None => left.min(self.batch_rows),
        };
        if rows > left {
            return internal_err!("BUG: {rows} rows where {left} are wanted");
        }
        let told = self.told.slice(0, rows);
        self.told = self.told.slice(rows, left - rows);
        conform(&side_by_side(told, rest)?, &self.schema).map(Some)
    }
}

fn side_by_side(left: RecordBatch, right: Option<RecordBatch>) -> Result<RecordBatch> {
    let Some(right) = right else {
        return Ok(left);
    };
    let fields = [left.schema(), right.schema()];
    let fields: Vec<FieldRef> = fields.iter().flat_map(|s| s.fields()).cloned().collect();
    let columns = left
        .columns()
        .iter()
        .chain(right.columns())
        .cloned()
        .collect();
    Ok(RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns,
    )?)
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_rows().transpose()
    }
}

impl Rest {
    /// Returns the next wanted rows.
    fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(batch) = self.reader.next().transpose()? else {
                return internal_err!("BUG: fewer rows than are wanted");
            };
            let Some(passed) = &mut self.passed else {
                return Ok(Some(batch));
            };
            let rows = batch.num_rows();
            let passes = passed.slice(0, rows);
            *passed = passed.slice(rows, passed.len() - rows);
            let batch = filter_record_batch(&batch, passes.as_boolean())?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }
}

/// Replaces null by false: a comparison with null is not true.
fn known_true(passes: &BooleanArray) -> BooleanArray {
    match passes.null_count() {
        0 => BooleanArray::new(passes.values().clone(), None),
        _ => prep_null_mask_filter(passes),
    }
}
