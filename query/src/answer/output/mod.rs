//! Rows as JSON, NDJSON, CSV, a table for terminals, and an Arrow stream.
//!
//! JSON: an object for each row; null is written; integers as numbers, 64-bit ones too; a double
//! that is not finite as null; timestamps RFC 3339 in UTC with `Z`, the fraction only when it is
//! not zero, or in the zone and with the offset that the client asks for; bytes as base64 text,
//! except `_rest`, whose document is written as JSON under every alias, and states of levels,
//! which are described (`state.rs`); lists as arrays, structs as objects. CSV and tables write
//! values as JSON does, without its quotes; in CSV null is empty and an empty text is `""`. An
//! Arrow stream carries the values of its rows in their plain form: `arrow_stream.rs` describes
//! the rule.

mod arrow_stream;
mod plain;
mod plain_batches;
mod state;
mod table;
mod text;

pub use plain_batches::{PlainBatches, described_schema};
pub use table::{display_width, printable};

use std::io::{self, Write};
use std::str::FromStr;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, IntervalUnit, SchemaRef};
use arrow::error::ArrowError;
use chrono_tz::Tz;

use crate::error::{Error, Result};
use arrow_stream::ArrowStream;
use table::TableLook;
use text::Column;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// Aligned text for terminals.
    #[default]
    Table,
    /// An array of objects.
    Json,
    /// One object per line.
    Ndjson,
    /// Comma-separated with a header (RFC 4180).
    Csv,
    /// The Arrow IPC stream format.
    Arrow,
}

impl FromStr for Output {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "table" => Self::Table,
            "json" => Self::Json,
            "ndjson" => Self::Ndjson,
            "csv" => Self::Csv,
            "arrow" => Self::Arrow,
            _ => {
                return Err(Error::invalid(format!(
                    "{name:?} is not a form of output; write table, json, ndjson, csv or arrow"
                )));
            }
        })
    }
}

/// Writes a whole answer.
///
/// # Errors
/// When writing fails.
pub fn write(
    format: Output,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    to: &mut dyn Write,
) -> Result<()> {
    let mut writer = Writer::new(format, schema, to)?;
    for batch in batches {
        writer.batch(batch)?;
    }
    writer.finish()?;
    Ok(())
}

/// Returns the values of a column as JSON texts.
///
/// # Errors
/// If Arrow cannot print its type.
pub fn json_texts(field: &Field, array: &ArrayRef) -> Result<StringArray> {
    let column = Column::of_field(field, array, None)?;
    let mut text = Vec::new();
    let texts = (0..array.len()).map(|row| {
        (!column.is_null(row)).then(|| {
            text.clear();
            column.json(row, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    Ok(texts.collect())
}

/// Writes an answer batch by batch. A table is written at the end, since its widths depend on all
/// rows; an Arrow stream is written every few thousand rows; other formats are written at once.
pub struct Writer<W: Write> {
    to: W,
    schema: SchemaRef,
    kind: WriterState,
    look: TableLook,
}

enum WriterState {
    Table(Vec<RecordBatch>),
    Json { first: bool },
    Ndjson,
    Csv,
    Arrow(Box<ArrowStream>),
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Creates a writer for rows of `schema`.
    ///
    /// # Errors
    /// When writing the beginning fails.
    pub fn new(format: Output, schema: &SchemaRef, mut to: W) -> Result<Self> {
        let kind = match format {
            Output::Table => WriterState::Table(Vec::new()),
            Output::Json => {
                to.write_all(b"[")?;
                WriterState::Json { first: true }
            }
            Output::Ndjson => WriterState::Ndjson,
            Output::Csv => {
                let names: Vec<String> = schema
                    .fields()
                    .iter()
                    .map(|f| text::csv_quoted(f.name()))
                    .collect();
                writeln!(to, "{}", names.join(","))?;
                WriterState::Csv
            }
            Output::Arrow => {
                let stream = ArrowStream::new(schema).map_err(arrow_failed)?;
                WriterState::Arrow(Box::new(stream))
            }
        };
        Ok(Self {
            to,
            schema: schema.clone(),
            kind,
            look: TableLook::default(),
        })
    }

    /// Fits tables into lines of this many columns of a terminal; without a width nothing is cut.
    #[must_use]
    pub fn within(mut self, width: Option<usize>) -> Self {
        self.look.width = width;
        self
    }

    /// Writes instants in a zone, with its offset; without a zone in UTC.
    #[must_use]
    pub fn in_zone(mut self, zone: Option<Tz>) -> Self {
        self.look.zone = zone;
        self
    }

    /// Writes tables upright: each column of each row on a line of its own.
    #[must_use]
    pub fn upright(mut self, upright: bool) -> Self {
        self.look.upright = upright;
        self
    }

    /// Writes the rows of a batch.
    ///
    /// # Errors
    /// When writing fails.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut out = Vec::new();
        let zone = self.look.zone;
        match &mut self.kind {
            WriterState::Table(kept) => kept.push(batch.clone()),
            WriterState::Json { first } => {
                for row in JsonRows::new(&self.schema, batch, zone)? {
                    out.extend_from_slice(if *first { b"\n" } else { b",\n" });
                    *first = false;
                    out.extend_from_slice(&row);
                }
            }
            WriterState::Ndjson => {
                for row in JsonRows::new(&self.schema, batch, zone)? {
                    out.extend_from_slice(&row);
                    out.push(b'\n');
                }
            }
            WriterState::Csv => text::csv_rows(&self.schema, batch, zone, &mut out)?,
            WriterState::Arrow(stream) => stream.batch(batch, &mut out).map_err(arrow_failed)?,
        }
        self.to.write_all(&out)?;
        Ok(())
    }

    /// Writes the end and returns the underlying writer.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(mut self) -> Result<W> {
        match &mut self.kind {
            WriterState::Table(kept) => table::write(&self.schema, kept, self.look, &mut self.to)?,
            WriterState::Json { first: true } => self.to.write_all(b"]\n")?,
            WriterState::Json { first: false } => self.to.write_all(b"\n]\n")?,
            WriterState::Ndjson | WriterState::Csv => {}
            WriterState::Arrow(stream) => {
                let mut end = Vec::new();
                stream.finish(&mut end).map_err(arrow_failed)?;
                self.to.write_all(&end)?;
            }
        }
        self.to.flush()?;
        Ok(self.to)
    }
}

fn arrow_failed(error: ArrowError) -> Error {
    Error::Output(io::Error::other(error))
}

/// The rows of a batch, each as a JSON object.
struct JsonRows {
    names: Vec<Vec<u8>>,
    columns: Vec<Column>,
    row: usize,
    rows: usize,
}

impl JsonRows {
    /// Prepares the rows of `batch`, whose columns are those of `schema`, with instants in a zone,
    /// or in UTC without one.
    ///
    /// # Errors
    /// [`Error::Output`] when a column has a type that cannot be written.
    fn new(schema: &SchemaRef, batch: &RecordBatch, zone: Option<Tz>) -> Result<Self> {
        let names = schema.fields().iter().map(|f| {
            let mut name = Vec::new();
            text::json_text(f.name(), &mut name);
            name.push(b':');
            name
        });
        let columns = Column::of_batch(schema, batch, zone)?;
        Ok(Self {
            names: names.collect(),
            columns,
            row: 0,
            rows: batch.num_rows(),
        })
    }
}

impl Iterator for JsonRows {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.row == self.rows {
            return None;
        }
        let mut out = vec![b'{'];
        for (i, (name, column)) in self.names.iter().zip(&self.columns).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            column.json(self.row, &mut out);
        }
        out.push(b'}');
        self.row += 1;
        Some(out)
    }
}

/// Returns the SQL name of a column's type, as HTTP answers contain it.
pub fn type_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => "bigint",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => "numeric",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Interval(
            IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano,
        )
        | DataType::Duration(_) => "interval",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytea",
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => "array",
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => "record",
        DataType::Dictionary(_, values) => type_name(values),
        DataType::RunEndEncoded(_, values) => type_name(values.data_type()),
        _ => "text",
    }
}

#[cfg(test)]
mod tests;
