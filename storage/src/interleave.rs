//! Gathers rows of many chunks into one batch, in any order.
//!
//! Small batches of a document stream have few of its columns each. Time and memory here grow
//! with the columns that the batches have, not with those of the stream.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

use crate::error::Result;

/// (batch, row): position of a row.
pub(crate) type Row = (usize, usize);

/// One column of the output.
#[derive(Debug)]
struct InterleavedColumn {
    /// Batches that have the column.
    batches: Vec<usize>,
    /// A single null, for batches without the column, and then the arrays of `batches`.
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
    /// Takes the columns of `schema` for which some batch has values, cast to its types, and all
    /// columns that are not nullable.
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

    /// Returns a batch of these rows, in this order.
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
