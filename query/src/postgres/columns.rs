//! Rows of catalog tables: cells by column name, and the defaults of all other columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, RecordBatch, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue};

/// A row of a catalog table. A column without a cell is null if it may be, and otherwise zero,
/// false or empty.
#[derive(Debug, Default)]
pub(crate) struct CatalogRow(HashMap<&'static str, ScalarValue>);

impl CatalogRow {
    /// Adds the cell of a column.
    #[must_use]
    pub(crate) fn with(mut self, column: &'static str, value: impl Into<ScalarValue>) -> Self {
        self.0.insert(column, value.into());
        self
    }

    /// Adds cells of texts.
    #[must_use]
    pub(crate) fn texts<const N: usize>(self, cells: [(&'static str, &str); N]) -> Self {
        let add = |row: Self, (column, value)| row.with(column, ScalarValue::from(value));
        cells.into_iter().fold(self, add)
    }

    /// Adds cells of numbers.
    #[must_use]
    pub(crate) fn numbers<const N: usize>(self, cells: [(&'static str, u32); N]) -> Self {
        let add = |row: Self, (column, value): (_, u32)| row.with(column, value);
        cells.into_iter().fold(self, add)
    }

    /// Adds cells of flags.
    #[must_use]
    pub(crate) fn flags<const N: usize>(self, cells: [(&'static str, bool); N]) -> Self {
        let add = |row: Self, (column, value): (_, bool)| row.with(column, value);
        cells.into_iter().fold(self, add)
    }
}

/// Returns the rows as a batch of a schema.
pub(crate) fn batch(schema: &SchemaRef, rows: &[CatalogRow]) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| -> Result<ArrayRef> {
        let default = match field.is_nullable() {
            true => ScalarValue::try_from(field.data_type())?,
            false => empty(field.data_type())?,
        };
        let cells = rows
            .iter()
            .map(|row| match row.0.get(field.name().as_str()) {
                Some(value) => value.cast_to(field.data_type()),
                None => Ok(default.clone()),
            });
        let cells = cells.collect::<Result<Vec<_>>>()?;
        match cells.is_empty() {
            true => Ok(new_empty_array(field.data_type())),
            false => ScalarValue::iter_to_array(cells),
        }
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

fn empty(data_type: &DataType) -> Result<ScalarValue> {
    match data_type {
        DataType::List(element) => {
            let values = new_empty_array(element.data_type());
            let offsets = OffsetBuffer::from_lengths([0]);
            let list = ListArray::try_new(Arc::clone(element), offsets, values, None)?;
            Ok(ScalarValue::List(Arc::new(list)))
        }
        other => ScalarValue::new_default(other),
    }
}
