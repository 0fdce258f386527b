//! Documents of one day or month, in the order of their keys, returned in batches.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use aggregator::{Bucket, Calendar, Level, WeekStart};
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    StructArray, TimestampMicrosecondArray, UInt32Array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{Row, Rows};
use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, Timelike};
use chrono_tz::Tz;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use storage::ID;

use super::METADATA;
use super::form::{Form, MINUTES, Shape, column_of, members};
use super::rows::{KeyRows, LevelRows};
use crate::error::Error;

/// Documents in one batch. A document with minutes takes 12 KiB.
const BATCH_DOCUMENTS: usize = 256;

/// The documents of one day or month.
pub(super) struct Sheet {
    start_us: i64,
    /// Local time of the start.
    start: NaiveDateTime,
    /// Key columns, with one row for each document.
    keys: Vec<ArrayRef>,
    documents: usize,
    written: usize,
    /// Hits of the levels, the coarsest first.
    levels: Vec<Hits>,
    _memory: MemoryReservation,
}

impl Sheet {
    pub(super) fn new(
        zone: Tz,
        interval: Bucket,
        converter: &KeyRows,
        coarse: &LevelRows,
        fine: Option<&LevelRows>,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let rows = converter.of(coarse)?;
        memory.try_grow(rows.size())?;
        let order = first_rows(&rows);
        let numbers: HashMap<Row<'_>, u32> = order
            .iter()
            .enumerate()
            .map(|(document, row)| (rows.row(*row as usize), document as u32))
            .collect();
        let first = UInt32Array::from(order);
        let keys = coarse.keys.iter().map(|key| take(key, &first, None));
        let mut levels = vec![Hits::of(zone, interval, coarse, &rows, &numbers, &memory)?];
        if let Some(fine) = fine {
            let rows = converter.of(fine)?;
            memory.try_grow(rows.size())?;
            levels.push(Hits::of(zone, interval, fine, &rows, &numbers, &memory)?);
        }
        Ok(Self {
            start_us: interval.start_us,
            start: local(zone, interval.start_us)?,
            keys: keys.collect::<Result<_, _>>()?,
            documents: first.len(),
            written: 0,
            levels,
            _memory: memory,
        })
    }

    /// Returns the next batch of documents; `None` after the last.
    pub(super) fn next_batch(
        &mut self,
        shape: &Shape,
        memory: &MemoryReservation,
    ) -> Result<Option<RecordBatch>> {
        let from = self.written;
        let to = self.documents.min(from + BATCH_DOCUMENTS);
        if from == to {
            return Ok(None);
        }
        self.written = to;
        let numbers: usize = self.levels.iter().map(|hits| members(hits.level)).sum();
        memory.try_resize((to - from) * numbers * size_of::<Option<i64>>())?;
        let columns = shape
            .schema
            .fields()
            .iter()
            .map(|field| self.column(shape.form, field, from..to))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(to - from));
        let schema = shape.schema.clone();
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        memory.try_resize(batch.get_array_memory_size())?;
        Ok(Some(batch))
    }

    fn column(&self, form: Form, field: &Field, of: Range<usize>) -> Result<ArrayRef> {
        let name = field.name();
        if name == ID {
            return self.ids(form, of);
        }
        if name == METADATA {
            let dates = TimestampMicrosecondArray::from_value(self.start_us, of.len());
            let mut columns: Vec<ArrayRef> = vec![Arc::new(dates.with_timezone("UTC"))];
            columns.extend(self.keys.iter().map(|key| key.slice(of.start, of.len())));
            return structure(field.data_type(), columns);
        }
        if name == form.total() {
            return Ok(Arc::new(Int64Array::from(self.levels[0].totals(of))));
        }
        let level = self
            .levels
            .iter()
            .find(|hits| column_of(hits.level) == name);
        let hits = level.expect("BUG: a column of documents is a level's");
        let numbers = hits.members(of);
        let numbers = numbers
            .into_iter()
            .map(|member| Arc::new(Int64Array::from(member)) as ArrayRef);
        if hits.level != Level::Minute {
            return structure(field.data_type(), numbers.collect());
        }
        let numbers: Vec<ArrayRef> = numbers.collect();
        let hours = fields(field.data_type())
            .iter()
            .zip(numbers.chunks(MINUTES))
            .map(|(hour, minutes)| structure(hour.data_type(), minutes.to_vec()))
            .collect::<Result<_>>()?;
        structure(field.data_type(), hours)
    }

    /// Builds the `_id`s of date and keys, such as `20001010/site-1//apache_pb.gif`. Escapes keep
    /// them unique: `/` is `%2F` in every key but the last, `%` is `%25`, null is `-`, and the
    /// text `-` is `%2D`.
    fn ids(&self, form: Form, of: Range<usize>) -> Result<ArrayRef> {
        let date = self.start.format(form.date_format()).to_string();
        let texts = self.keys.iter().map(|key| cast(key, &DataType::Utf8));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let id = |document: usize| {
            let mut id = date.clone();
            for (nth, text) in texts.iter().enumerate() {
                let last = nth + 1 == texts.len();
                let text = text
                    .is_valid(document)
                    .then(|| text.as_string::<i32>().value(document));
                push_key(&mut id, text, last);
            }
            id
        };
        Ok(Arc::new(StringArray::from_iter_values(of.map(id))))
    }
}

fn push_key(id: &mut String, text: Option<&str>, last: bool) {
    id.push('/');
    match text {
        None => id.push('-'),
        Some("-") => id.push_str("%2D"),
        Some(text) => {
            for c in text.chars() {
                match c {
                    '%' => id.push_str("%25"),
                    '/' if !last => id.push_str("%2F"),
                    c => id.push(c),
                }
            }
        }
    }
}

/// Returns the first row of each distinct key, in the order of keys.
fn first_rows(rows: &Rows) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
    order.sort_by_key(|row| rows.row(*row as usize));
    order.dedup_by_key(|row| rows.row(*row as usize));
    order
}

/// The hits of one cell.
struct Cell {
    document: u32,
    member: u16,
    hits: i64,
}

/// The hits of one level.
struct Hits {
    level: Level,
    /// Value of a member that has no cell: 0, or null if retention has dropped its bucket.
    absent: Option<i64>,
    /// Cells, sorted by document.
    cells: Vec<Cell>,
}

impl Hits {
    fn of(
        zone: Tz,
        interval: Bucket,
        from: &LevelRows,
        rows: &Rows,
        numbers: &HashMap<Row<'_>, u32>,
        memory: &MemoryReservation,
    ) -> Result<Self> {
        memory.try_grow(rows.num_rows() * size_of::<Cell>())?;
        let mut cells = Vec::with_capacity(rows.num_rows());
        let mut last = None;
        for (row, (bucket, hits)) in from.buckets().iter().zip(from.counts()).enumerate() {
            // Rows are sorted by bucket, so the local time is computed once for each bucket.
            let member = match last {
                Some((known, member)) if known == *bucket => member,
                _ => member_of(from.level, local(zone, *bucket)?),
            };
            last = Some((*bucket, member));
            let document = numbers.get(&rows.row(row)).copied().ok_or_else(|| {
                internal_datafusion_err!("BUG: a key of the {} is in no coarser level", from.level)
            })?;
            cells.push(Cell {
                document,
                member,
                hits: *hits,
            });
        }
        cells.sort_by_key(|cell| cell.document);
        Ok(Self {
            level: from.level,
            absent: (from.floor_us <= interval.start_us).then_some(0),
            cells,
        })
    }

    /// Returns the cells of a range of documents.
    fn cells(&self, of: &Range<usize>) -> &[Cell] {
        let before = |document: usize| {
            self.cells
                .partition_point(|cell| (cell.document as usize) < document)
        };
        &self.cells[before(of.start)..before(of.end)]
    }

    /// Returns the sum of the hits of each document.
    fn totals(&self, of: Range<usize>) -> Vec<i64> {
        let mut totals = vec![0_i64; of.len()];
        for cell in self.cells(&of) {
            let total = &mut totals[cell.document as usize - of.start];
            *total = total.saturating_add(cell.hits);
        }
        totals
    }

    /// Returns the hits of each document, by member. Buckets of a local time that clocks showed
    /// twice are added up here.
    fn members(&self, of: Range<usize>) -> Vec<Vec<Option<i64>>> {
        let mut members = vec![vec![self.absent; of.len()]; members(self.level)];
        for cell in self.cells(&of) {
            let member = &mut members[usize::from(cell.member)];
            let hits = &mut member[cell.document as usize - of.start];
            *hits = Some(hits.unwrap_or(0).saturating_add(cell.hits));
        }
        members
    }
}

/// Returns the index of the member for the bucket that starts at a local time.
fn member_of(level: Level, start: NaiveDateTime) -> u16 {
    let member = match level {
        Level::Minute => start.hour() * MINUTES as u32 + start.minute(),
        Level::Hour => start.hour(),
        _ => start.day0(),
    };
    member as u16
}

/// Returns the local time of an instant.
fn local(zone: Tz, at_us: i64) -> Result<NaiveDateTime, Error> {
    let beyond = || {
        Error::invalid(format!(
            "an event at {at_us} µs is outside the calendar's range"
        ))
    };
    let at = DateTime::from_timestamp_micros(at_us).ok_or_else(beyond)?;
    let utc = at.naive_utc();
    let offset_us = Calendar::new(zone, WeekStart::Sunday).offset_us(at_us);
    let offset = TimeDelta::microseconds(offset_us);
    utc.checked_add_signed(offset).ok_or_else(beyond)
}

fn fields(of: &DataType) -> &Fields {
    match of {
        DataType::Struct(fields) => fields,
        other => panic!("BUG: {other} is no struct"),
    }
}

fn structure(data_type: &DataType, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
    let made = StructArray::try_new(fields(data_type).clone(), columns, None)?;
    Ok(Arc::new(made))
}
