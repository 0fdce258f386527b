//! Rows as BSON documents, as a MongoDB client sees them.
//!
//! The fields have the order of the columns, which for an access log is the order of `SELECT *`:
//! `_id` ObjectId, `time` UTC datetime (milliseconds), `status` int32, `response_size` int64,
//! text as strings, structs as documents. A null column is a null field, except `site` and
//! `extra`, which are left out. The fields of the overflow column `_rest` follow in their own
//! types, and `_seq` is left out.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Schema, TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, RawDocument};
use storage::{ID, REST, SEQ};

use crate::error::{Error, Result};

/// Columns without a field where they are null: most access logs have neither.
pub(crate) const LEFT_OUT: [&str; 2] = ["site", "extra"];

/// Returns the documents of the rows of a batch.
///
/// # Errors
/// [`Error::Invalid`] when a column has a type that BSON cannot carry.
pub fn documents(batch: &RecordBatch) -> Result<Vec<Document>> {
    let batch = plain(batch)?;
    (0..batch.num_rows())
        .map(|row| row_document(&batch, row))
        .collect()
}

/// Returns the document of one row of a batch.
///
/// # Errors
/// The errors of [`documents`].
pub fn document(batch: &RecordBatch, row: usize) -> Result<Document> {
    row_document(&plain(&batch.slice(row, 1))?, 0)
}

/// Returns the batch with only one text type and one timestamp type.
pub(crate) fn plain(batch: &RecordBatch) -> Result<RecordBatch> {
    let arrow = |e: ArrowError| Error::invalid(e.to_string());
    let (fields, columns) =
        simple_all(batch.schema_ref().fields(), batch.columns()).map_err(arrow)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(arrow)
}

fn simple_all(
    fields: &Fields,
    columns: &[ArrayRef],
) -> Result<(Fields, Vec<ArrayRef>), ArrowError> {
    let columns = columns.iter().map(simple).collect::<Result<Vec<_>, _>>()?;
    let typed = |(field, array): (&Arc<Field>, &ArrayRef)| {
        let field = field.as_ref().clone();
        field.with_data_type(array.data_type().clone())
    };
    Ok((fields.iter().zip(&columns).map(typed).collect(), columns))
}

fn simple(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(_, _) => {
            cast(array, &DataType::Utf8View)
        }
        DataType::LargeBinary | DataType::BinaryView => cast(array, &DataType::Binary),
        DataType::Timestamp(..) | DataType::Date32 => cast(
            array,
            &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        DataType::Struct(fields) => {
            let structs = array.as_struct();
            let (fields, columns) = simple_all(fields, structs.columns())?;
            let nulls = structs.nulls().cloned();
            let len = structs.len();
            Ok(Arc::new(StructArray::try_new_with_length(
                fields, columns, nulls, len,
            )?))
        }
        _ => Ok(array.clone()),
    }
}

fn row_document(batch: &RecordBatch, row: usize) -> Result<Document> {
    let mut document = Document::new();
    let mut rest = None;
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        match name {
            SEQ => {}
            REST if *field.data_type() == DataType::Binary => {
                rest = array.is_valid(row).then_some(array)
            }
            _ if array.is_null(row) && LEFT_OUT.contains(&name) => {}
            ID => {
                document.insert(name, id(array, row)?);
            }
            _ => {
                document.insert(name, value(name, array, row)?);
            }
        }
    }
    if let Some(rest) = rest {
        let wrong =
            |e: &dyn std::fmt::Display| Error::invalid(format!("{REST} is not a document: {e}"));
        let raw =
            RawDocument::from_bytes(rest.as_binary::<i32>().value(row)).map_err(|e| wrong(&e))?;
        for entry in raw {
            let (name, value) = entry.map_err(|e| wrong(&e))?;
            let value: Bson = value
                .try_into()
                .map_err(|e: bson::error::Error| wrong(&e))?;
            document.insert(name.as_str(), value);
        }
    }
    Ok(document)
}

/// Returns an `_id` of 24 hex digits as an ObjectId; a client's own `_id` of another form stays
/// as it is.
pub(crate) fn id(array: &ArrayRef, row: usize) -> Result<Bson> {
    let value = value(ID, array, row)?;
    Ok(match &value {
        Bson::String(text) => ObjectId::parse_str(text).map_or(value, Bson::ObjectId),
        _ => value,
    })
}

pub(crate) fn value(name: &str, array: &ArrayRef, row: usize) -> Result<Bson> {
    if array.is_null(row) {
        return Ok(Bson::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Bson::Null,
        DataType::Boolean => Bson::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => Bson::Int32(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Bson::Int32(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Bson::Int32(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Bson::Int64(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Bson::Int32(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Bson::Int32(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Bson::Int64(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => {
            let value = array.as_primitive::<UInt64Type>().value(row);
            i64::try_from(value).map_or(Bson::Double(value as f64), Bson::Int64)
        }
        DataType::Float32 => Bson::Double(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Bson::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => Bson::String(array.as_string_view().value(row).to_owned()),
        DataType::Binary => Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: array.as_binary::<i32>().value(row).to_vec(),
        }),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            Bson::DateTime(DateTime::from_millis(micros.div_euclid(1_000)))
        }
        DataType::Struct(fields) => {
            let members = fields.iter().zip(array.as_struct().columns());
            let members = members
                .map(|(field, member)| Ok((field.name().clone(), value(name, member, row)?)));
            Bson::Document(members.collect::<Result<Document>>()?)
        }
        other => {
            return Err(Error::invalid(format!(
                "column {name} has type {other}, which BSON cannot represent"
            )));
        }
    })
}

#[cfg(test)]
mod tests;
