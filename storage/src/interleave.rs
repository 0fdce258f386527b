//! Rows of many chunks side by side, in any order.
//!
//! Small batches of a stream of documents have few of its columns each. What is looked at and kept
//! here grows with the columns that they have, not with those that the stream has.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

use crate::error::Result;

/// (batch, row): where a row lies.
pub(crate) type Row = (usize, usize);

/// One column of the rows to come.
#[derive(Debug)]
struct InterleavedColumn {
    /// The batches that have it.
    batches: Vec<usize>,
    /// Their arrays, behind a single null for the batches that have not.
    arrays: Vec<ArrayRef>,
}

/// The columns of some batches.
#[derive(Debug)]
pub(crate) struct Columns {
    schema: SchemaRef,
    columns: Vec<InterleavedColumn>,
    batches: usize,
}

impl Columns {
    /// The columns of `schema` that some batch has values for, in its types, and all that may not be
    /// null.
    pub(crate) fn of(schema: &Schema, batches: &[&RecordBatch]) -> Result<Self> {
        let fields = schema.fields();
        let place = |(i, field): (usize, &FieldRef)| (field.name().clone(), i);
        let places: HashMap<String, usize> = fields.iter().enumerate().map(place).collect();
        let empty = |field: &FieldRef| InterleavedColumn {
            batches: Vec::new(),
            arrays: vec![new_null_array(field.data_type(), 1)],
        };
        let mut columns: Vec<InterleavedColumn> = fields.iter().map(empty).collect();
        for (nth, batch) in batches.iter().enumerate() {
            for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                let Some(&at) = places.get(field.name()) else {
                    continue;
                };
                if array.null_count() == array.len() {
                    continue;
                }
                columns[at].batches.push(nth);
                columns[at]
                    .arrays
                    .push(cast(array, fields[at].data_type())?);
            }
        }
        let (fields, columns): (Vec<FieldRef>, Vec<InterleavedColumn>) = fields
            .iter()
            .cloned()
            .zip(columns)
            .filter(|(field, column)| !field.is_nullable() || !column.batches.is_empty())
            .unzip();
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            columns,
            batches: batches.len(),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Some rows, in the order given.
    pub(crate) fn rows(&self, rows: &[Row]) -> Result<RecordBatch> {
        let everywhere: Vec<Row> = rows.iter().map(|(batch, row)| (batch + 1, *row)).collect();
        let mut places = vec![0; self.batches];
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let values: Vec<&dyn Array> = column.arrays.iter().map(|a| &**a).collect();
            if column.batches.len() == self.batches {
                arrays.push(interleave(&values, &everywhere)?);
                continue;
            }
            for (nth, batch) in column.batches.iter().enumerate() {
                places[*batch] = nth + 1;
            }
            let somewhere = rows.iter().map(|(batch, row)| match places[*batch] {
                0 => (0, 0),
                place => (place, *row),
            });
            arrays.push(interleave(&values, &somewhere.collect::<Vec<Row>>())?);
            for batch in &column.batches {
                places[*batch] = 0;
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)
    }
}
