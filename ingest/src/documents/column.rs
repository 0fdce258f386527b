//! One column of documents: most fields occur in some lines only, so rows without it are counted
//! and filled in when the next value comes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int16Builder, Int64Builder,
    StringBuilder, TimestampMicrosecondBuilder, UInt64Builder,
};
use storage::{Column, ColumnType, fits_float};

use super::row::{DocumentRow, Value};

#[derive(Debug)]
enum Builder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int64(Int64Builder),
    Uint64(UInt64Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Time(TimestampMicrosecondBuilder),
}

/// Runs the same code with the builder of any type.
macro_rules! each {
    ($builder:expr, $b:ident => $body:expr) => {
        match $builder {
            Builder::Bool($b) => $body,
            Builder::Int16($b) => $body,
            Builder::Int64($b) => $body,
            Builder::Uint64($b) => $body,
            Builder::Float64($b) => $body,
            Builder::Text($b) => $body,
            Builder::Binary($b) => $body,
            Builder::Time($b) => $body,
        }
    };
}

impl Builder {
    /// Returns `None` for types that no document's value has.
    fn new(column_type: ColumnType) -> Option<Self> {
        Some(match column_type {
            ColumnType::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnType::Int16 => Self::Int16(Int16Builder::new()),
            ColumnType::Int64 => Self::Int64(Int64Builder::new()),
            ColumnType::Uint64 => Self::Uint64(UInt64Builder::new()),
            ColumnType::Float64 => Self::Float64(Float64Builder::new()),
            ColumnType::Text => Self::Text(StringBuilder::new()),
            ColumnType::Binary => Self::Binary(BinaryBuilder::new()),
            ColumnType::Time => {
                let times = TimestampMicrosecondBuilder::new();
                Self::Time(times.with_data_type(column_type.arrow()))
            }
            _ => return None,
        })
    }
}

/// A column and the values of the batch so far.
#[derive(Debug)]
pub(crate) struct ColumnValues {
    pub(crate) column: Column,
    builder: Option<Builder>,
    /// Rows that the builder holds.
    rows: usize,
}

impl ColumnValues {
    pub(crate) fn new(column: Column) -> Self {
        Self {
            column,
            builder: None,
            rows: 0,
        }
    }

    /// Returns the type of a column that begins with this value; `None` for values that no column
    /// holds.
    pub(crate) fn type_of(value: &Value) -> Option<ColumnType> {
        Some(match value {
            Value::Bool(_) => ColumnType::Bool,
            Value::Int(_) => ColumnType::Int64,
            Value::Float(_) => ColumnType::Float64,
            Value::Text(_) => ColumnType::Text,
            Value::Time(_) => ColumnType::Time,
            Value::Null | Value::Other(_) => return None,
        })
    }

    /// Returns whether the batch has a value so far.
    pub(crate) fn has_begun(&self) -> bool {
        self.builder.is_some()
    }

    /// Returns whether the column takes the value without losing anything of it.
    pub(crate) fn fits(&self, value: &Value) -> bool {
        match (self.column.column_type, value) {
            (ColumnType::Bool, Value::Bool(_))
            | (ColumnType::Int64, Value::Int(_))
            | (ColumnType::Float64, Value::Float(_))
            | (ColumnType::Text, Value::Text(_))
            | (ColumnType::Time, Value::Time(_)) => true,
            (ColumnType::Int16, Value::Int(number)) => i16::try_from(*number).is_ok(),
            (ColumnType::Uint64, Value::Int(number)) => *number >= 0,
            (ColumnType::Float64, Value::Int(number)) => fits_float(*number),
            (ColumnType::Int64, Value::Float(_)) => !self.column.wide,
            _ => false,
        }
    }

    /// Puts a value that fits into a row; the rows since the last value have none.
    pub(crate) fn put(&mut self, row_index: usize, value: &Value, row: &DocumentRow) {
        if self.column.column_type == ColumnType::Int64 {
            match value {
                Value::Int(number) => self.column.wide |= !fits_float(*number),
                Value::Float(_) => self.widen(),
                _ => {}
            }
        }
        let missing = row_index - self.rows;
        let Some(builder) = self.builder_after(missing) else {
            return;
        };
        match (builder, value) {
            (Builder::Bool(b), Value::Bool(value)) => b.append_value(*value),
            (Builder::Int64(b), Value::Int(number)) => b.append_value(*number),
            (Builder::Float64(b), Value::Float(number)) => b.append_value(*number),
            (Builder::Float64(b), Value::Int(number)) => b.append_value(*number as f64),
            (Builder::Int16(b), Value::Int(number)) => b.append_option(i16::try_from(*number).ok()),
            (Builder::Uint64(b), Value::Int(number)) => {
                b.append_option(u64::try_from(*number).ok())
            }
            (Builder::Text(b), Value::Text(place)) => b.append_value(row.str(place)),
            (Builder::Time(b), Value::Time(us)) => b.append_value(*us),
            (builder, _) => each!(builder, b => b.append_null()),
        }
        self.rows = row_index + 1;
    }

    /// Makes a column of integers one of floats, which hold every value in it.
    fn widen(&mut self) {
        self.column.column_type = ColumnType::Float64;
        if let Some(Builder::Int64(integers)) = &mut self.builder {
            let integers = integers.finish();
            let mut floats = Float64Builder::with_capacity(integers.len());
            floats.extend(integers.iter().map(|v| v.map(|v| v as f64)));
            self.builder = Some(Builder::Float64(floats));
        }
    }

    /// Puts bytes that are no value of the document into a row.
    pub(crate) fn put_bytes(&mut self, row_index: usize, bytes: &[u8]) {
        let missing = row_index - self.rows;
        if let Some(Builder::Binary(b)) = self.builder_after(missing) {
            b.append_value(bytes);
            self.rows = row_index + 1;
        }
    }

    /// As [`ColumnValues::put_bytes`], for a column of text.
    pub(crate) fn put_text(&mut self, row_index: usize, text: &str) {
        let missing = row_index - self.rows;
        if let Some(Builder::Text(b)) = self.builder_after(missing) {
            b.append_value(text);
            self.rows = row_index + 1;
        }
    }

    /// Makes the column part of the batch even if no row has a value.
    pub(crate) fn begin(&mut self) {
        self.builder_after(0);
    }

    fn builder_after(&mut self, nulls: usize) -> Option<&mut Builder> {
        if self.builder.is_none() {
            self.builder = Builder::new(self.column.column_type);
        }
        let builder = self.builder.as_mut()?;
        if nulls > 0 {
            each!(builder, b => b.append_nulls(nulls));
        }
        Some(builder)
    }

    /// Returns the column of a batch of `rows`, `None` when no row has a value.
    pub(crate) fn finish(&mut self, rows: usize) -> Option<ArrayRef> {
        let mut builder = self.builder.take()?;
        let nulls = rows - self.rows;
        self.rows = 0;
        Some(each!(&mut builder, b => {
            b.append_nulls(nulls);
            Arc::new(b.finish()) as ArrayRef
        }))
    }
}
