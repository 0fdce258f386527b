//! Evolution of a stream's columns, in journal order. A new field becomes a column; a column of
//! integers becomes one of floats when a float arrives; a value that its column cannot hold moves
//! to the overflow column `_rest`, with its own type.
//!
//! # Invariants
//! * A column's type changes at most once, from integers to floats, and never when the journal
//!   has an integer in it that a float would not hold exactly ([`Column::wide`]). So values
//!   written as integers read as floats without loss, in memory, in parts and when parts are
//!   merged.
//! * A stream never exceeds its limit of columns, whichever parser produced its batches, and with
//!   which schema.
//! * The columns follow from the records of the journal and their order, when writing as in
//!   recovery. A record that was reconciled needs no further change, whatever the stream has
//!   become since. So a record is first fitted, which changes nothing, and the columns change when
//!   it is applied: one that was refused, or could not be written, leaves no trace.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int16Type, Int64Type, Schema, TimestampMicrosecondType,
    UInt64Type,
};
use bson::{Bson, Decimal128, Document};
use chrono::{DateTime, SecondsFormat};

use crate::error::{Error, Result};
use crate::manifest::StreamMeta;
use crate::model::{
    Batch, Column, ColumnType, ID, REST, StreamKind, TIME, TIME_SOURCE, arrow_schema, fits_float,
};
use crate::record::Record;

/// Limit of a binary column, given by its 32-bit offsets.
const REST_BYTES_MAX: usize = i32::MAX as usize;

/// Rows of a batch's column that the stream's column cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misfits {
    None,
    /// Integers of which a float would lose digits.
    Wide,
    All,
}

/// Changes that fit a record and a stream to each other.
#[derive(Debug)]
pub(crate) struct Fit {
    /// Columns of the stream after the record, if they change.
    pub(crate) columns: Option<Vec<Column>>,
    /// Events with every value in its column or in `_rest`; `None` when nothing had to be moved.
    pub(crate) events: Option<RecordBatch>,
}

/// Adapts the stream's columns to a record that was fitted. Returns other events only for a record
/// that was not.
pub(crate) fn reconcile(meta: &mut StreamMeta, record: &Record) -> Result<Option<RecordBatch>> {
    // The limit of columns was applied when the record was fitted.
    let Fit { columns, events } = fit(meta, record, usize::MAX)?;
    if let Some(columns) = columns {
        meta.columns = columns;
    }
    Ok(events)
}

/// Fits a record to a stream that may have `columns_max` columns.
pub(crate) fn fit(meta: &StreamMeta, record: &Record, columns_max: usize) -> Result<Fit> {
    let batch = (&record.events, record.received_us);
    fit_columns((meta.kind, &meta.columns), batch, columns_max)
}

/// Fits a batch to the columns that the stores of a cluster have agreed upon, before it is divided
/// among them. Returns the columns after it, if they change; its values are in these columns or in
/// `_rest` then. What a store makes of its part changes no type any more.
///
/// # Errors
/// [`Error::Invalid`] if the values without a column are too long for one batch.
pub fn agree(
    kind: StreamKind,
    columns: &[Column],
    columns_max: usize,
    batch: &mut Batch,
) -> Result<Option<Vec<Column>>> {
    let events = (&batch.events, batch.received_us);
    let fit = fit_columns((kind, columns), events, columns_max)?;
    if let Some(events) = fit.events {
        batch.events = events;
    }
    Ok(fit.columns)
}

fn fit_columns(
    (kind, known): (StreamKind, &[Column]),
    (events, received_us): (&RecordBatch, i64),
    columns_max: usize,
) -> Result<Fit> {
    let mut columns = Cow::Borrowed(known);
    let mut misfits = Vec::new();
    let mut at = 0;
    for (i, field) in events.schema_ref().fields().iter().enumerate() {
        let found = ColumnType::of(field.data_type()).expect("BUG: batches are validated");
        let array = events.column(i);
        let known = find(&columns, field.name(), at);
        let misfit = match known {
            Some(known) => {
                at = known + 1;
                let widens = kind == StreamKind::Documents;
                let (column, misfit) = adapt_column(&columns[known], found, array, widens);
                if let Some(column) = column {
                    columns.to_mut()[known] = column;
                }
                misfit
            }
            None if is_own(field.name()) || counted(&columns) < columns_max => {
                let mut column = Column::new(field.name(), found);
                column.first_us = Some(received_us);
                column.wide = found == ColumnType::Int64 && has_wide(array);
                columns.to_mut().push(column);
                Misfits::None
            }
            None => Misfits::All,
        };
        if misfit != Misfits::None {
            misfits.push((i, misfit));
        }
    }
    if !misfits.is_empty() && find(&columns, REST, 0).is_none() {
        let mut column = Column::new(REST, ColumnType::Binary);
        column.first_us = Some(received_us);
        columns.to_mut().push(column);
    }
    let moved = (!misfits.is_empty()).then(|| move_to_rest(events, &misfits));
    Ok(Fit {
        columns: match columns {
            Cow::Owned(columns) => Some(columns),
            Cow::Borrowed(_) => None,
        },
        events: moved.transpose()?,
    })
}

/// Returns the index of a column. Batches have their columns in the stream's order, so the search
/// starts after the last column found.
fn find(columns: &[Column], name: &str, from: usize) -> Option<usize> {
    let from = from.min(columns.len());
    let is = |column: &Column| &*column.name == name;
    let after = columns[from..].iter().position(is).map(|i| from + i);
    after.or_else(|| columns[..from].iter().position(is))
}

/// Returns true for the columns that every stream may have beyond its limit.
fn is_own(name: &str) -> bool {
    [TIME, ID, TIME_SOURCE, REST].contains(&name)
}

fn counted(columns: &[Column]) -> usize {
    columns.iter().filter(|c| !is_own(&c.name)).count()
}

/// Adapts a column to the values of a batch. Returns the column if it changes, and which of the
/// values it cannot hold.
fn adapt_column(
    column: &Column,
    found: ColumnType,
    array: &ArrayRef,
    widens: bool,
) -> (Option<Column>, Misfits) {
    use ColumnType::{Float64, Int64};
    let (mut wide, mut column_type) = (column.wide, column.column_type);
    let misfits = match (column.column_type, found) {
        (Int64, Int64) => {
            wide |= widens && !wide && has_wide(array);
            Misfits::None
        }
        (known, found) if known == found => Misfits::None,
        (Int64, Float64) if widens && !wide => {
            column_type = Float64;
            Misfits::None
        }
        (Float64, Int64) if has_wide(array) => Misfits::Wide,
        (Float64, Int64) => Misfits::None,
        _ => Misfits::All,
    };
    let changes = (wide, column_type) != (column.wide, column.column_type);
    let changed = changes.then(|| Column {
        wide,
        column_type,
        ..column.clone()
    });
    (changed, misfits)
}

fn has_wide(integers: &ArrayRef) -> bool {
    let mut values = integers.as_primitive::<Int64Type>().iter().flatten();
    values.any(|v| !fits_float(v))
}

/// Moves the misfits to `_rest`.
fn move_to_rest(events: &RecordBatch, misfits: &[(usize, Misfits)]) -> Result<RecordBatch> {
    let (schema, rows) = (events.schema(), events.num_rows());
    let mut rest = documents_of(events);
    for (i, misfit) in misfits {
        let (field, array) = (schema.field(*i), events.column(*i));
        for (row, document) in rest.iter_mut().enumerate() {
            if array.is_valid(row) && (*misfit == Misfits::All || is_wide(array, row)) {
                let document = document.get_or_insert_with(Document::new);
                document.insert(field.name().clone(), value(array, row));
            }
        }
    }
    let whole: BTreeSet<usize> = misfits
        .iter()
        .filter(|(_, misfit)| *misfit == Misfits::All)
        .map(|(i, _)| *i)
        .collect();
    let mut fields: Vec<Arc<Field>> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        if whole.contains(&i) || field.name() == REST {
            continue;
        }
        let array = events.column(i);
        fields.push(Arc::clone(field));
        columns.push(if misfits.contains(&(i, Misfits::Wide)) {
            let integers = array.as_primitive::<Int64Type>();
            Arc::new(integers.unary_opt::<_, Int64Type>(|v| fits_float(v).then_some(v)))
        } else {
            Arc::clone(array)
        });
    }
    let field = arrow_schema(&[Column::new(REST, ColumnType::Binary)]);
    fields.push(Arc::clone(&field.fields()[0]));
    columns.push(Arc::new(encoded(&rest)?));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        columns,
        &options,
    )?)
}

/// Returns the documents that are in `_rest` already.
fn documents_of(events: &RecordBatch) -> Vec<Option<Document>> {
    let known = events.column_by_name(REST);
    match known.and_then(|a| a.as_binary_opt::<i32>()) {
        Some(known) => known
            .iter()
            .map(|document| document.and_then(|d| Document::from_reader(d).ok()))
            .collect(),
        None => vec![None; events.num_rows()],
    }
}

fn encoded(rest: &[Option<Document>]) -> Result<BinaryArray> {
    let encode = |document: &Document| document.to_vec().expect("BUG: plain values are BSON");
    let encoded: Vec<Option<Vec<u8>>> = rest.iter().map(|d| d.as_ref().map(encode)).collect();
    let bytes: usize = encoded.iter().flatten().map(Vec::len).sum();
    if bytes > REST_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the values without a column take {bytes} bytes; send fewer events in one batch"
        )));
    }
    Ok(BinaryArray::from_iter(encoded))
}

fn is_wide(array: &ArrayRef, row: usize) -> bool {
    *array.data_type() == DataType::Int64
        && !fits_float(array.as_primitive::<Int64Type>().value(row))
}

fn value(array: &ArrayRef, row: usize) -> Bson {
    match ColumnType::of(array.data_type()).expect("BUG: batches are validated") {
        ColumnType::Bool => array.as_boolean().value(row).into(),
        ColumnType::Int16 => i32::from(array.as_primitive::<Int16Type>().value(row)).into(),
        ColumnType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        ColumnType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        ColumnType::Text => array.as_string::<i32>().value(row).into(),
        ColumnType::Binary => Bson::Binary(bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: array.as_binary::<i32>().value(row).to_vec(),
        }),
        ColumnType::Time => instant(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        ColumnType::Uint64 => unsigned(array.as_primitive::<UInt64Type>().value(row)),
    }
}

/// Returns a BSON date when the time is in whole milliseconds, the resolution of BSON; else its
/// text, and else (outside the calendar) the microseconds as a number.
fn instant(us: i64) -> Bson {
    if us.rem_euclid(1000) == 0 {
        return bson::DateTime::from_millis(us.div_euclid(1000)).into();
    }
    match DateTime::from_timestamp_micros(us) {
        Some(time) => time.to_rfc3339_opts(SecondsFormat::Micros, true).into(),
        None => us.into(),
    }
}

fn unsigned(number: u64) -> Bson {
    let digits = || number.to_string().parse::<Decimal128>();
    match i64::try_from(number) {
        Ok(number) => number.into(),
        Err(_) => digits().expect("BUG: 20 digits are a decimal").into(),
    }
}

#[cfg(test)]
mod tests;
