//! How a stream's columns grow: new ones are added as they appear, in journal order; a value whose
//! type is not its column's moves to the overflow column `_rest`, with its own type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int16Type, Int64Type, Schema, TimestampMicrosecondType,
    UInt64Type,
};
use bson::{Bson, Document};

use crate::error::Result;
use crate::manifest::StreamMeta;
use crate::model::{Column, ColumnType, REST};

/// Adds the columns of `events` to the stream and returns `events` with every column of the type
/// that the stream gives it; `None` when nothing had to be changed.
pub(crate) fn reconcile(
    meta: &mut StreamMeta,
    events: &RecordBatch,
) -> Result<Option<RecordBatch>> {
    let schema = events.schema();
    let mut misfits = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        let found = ColumnType::of(field.data_type()).expect("BUG: batches are validated");
        match meta.column_type(field.name()) {
            Some(known) if known == found => {}
            Some(_) => misfits.push(i),
            None => meta.columns.push(Column::new(field.name(), found)),
        }
    }
    if misfits.is_empty() {
        return Ok(None);
    }
    let rows = events.num_rows();
    let mut rest: Vec<Option<Document>> = match events
        .column_by_name(REST)
        .and_then(|a| a.as_binary_opt::<i32>())
    {
        Some(known) => known
            .iter()
            .map(|doc| doc.and_then(|d| Document::from_reader(d).ok()))
            .collect(),
        None => vec![None; rows],
    };
    for i in &misfits {
        let (field, array) = (schema.field(*i), events.column(*i));
        for (row, doc) in rest.iter_mut().enumerate() {
            if array.is_valid(row) {
                doc.get_or_insert_with(Document::new)
                    .insert(field.name().clone(), value(array, row));
            }
        }
    }
    let mut fields: Vec<Arc<Field>> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        if !misfits.contains(&i) && field.name() != REST {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(events.column(i)));
        }
    }
    let encoded: Vec<Option<Vec<u8>>> = rest
        .iter()
        .map(|doc| {
            doc.as_ref()
                .map(|d| d.to_vec().expect("BUG: plain values are valid BSON"))
        })
        .collect();
    fields.push(Arc::new(Field::new(REST, DataType::Binary, true)));
    columns.push(Arc::new(BinaryArray::from_iter(encoded)));
    if meta.column_type(REST).is_none() {
        meta.columns.push(Column::new(REST, ColumnType::Binary));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(Some(RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        columns,
        &options,
    )?))
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
        ColumnType::Time => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            bson::DateTime::from_millis(us.div_euclid(1000)).into()
        }
        ColumnType::Uint64 => i64::try_from(array.as_primitive::<UInt64Type>().value(row))
            .unwrap_or(i64::MAX)
            .into(),
    }
}
