//! The rows of an answer, written as messages.

use std::sync::Arc;

use arrow::array::timezone::Tz as ZoneOrOffset;
use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use bytes::{BufMut, BytesMut};
use chrono::DateTime;
use chrono_tz::Tz;
use futures::StreamExt;
use query::Answer;

use super::cells::Cells;
use super::cells::binary::put_value;
use super::copy::CopyOut;
use super::error::{Result, SqlError, state};
use super::message::{Format, put, put_count, put_text};
use crate::serve::Share;

/// Bytes of rows that are written before a connection sends them and lets others go on.
const WRITE_AT_ONCE: usize = 64 << 10;
/// Columns of an answer: the protocol counts them with 16 bits.
const COLUMNS_MAX: usize = 1_664;

/// The destination of rows.
#[derive(Debug)]
pub(super) enum Into<'a> {
    Rows,
    Copy(&'a mut CopyOut),
    /// A cursor that only moves on.
    Nothing,
}

/// The rows of a running question.
#[derive(Debug)]
pub(super) struct Rows {
    answer: Answer,
    /// Columns as the client was told.
    schema: SchemaRef,
    formats: Vec<Format>,
    zone: Tz,
    batch: Option<Batch>,
    is_done: bool,
    /// The question counts in the share of its client until it ends.
    _share: Arc<Share>,
}

/// A batch that is being written.
#[derive(Debug)]
struct Batch {
    columns: Vec<Cells>,
    rows: usize,
    next: usize,
}

impl Rows {
    /// Takes the rows of an answer for a client that was told the columns of `schema`.
    ///
    /// # Errors
    /// If there are other columns now, or too many.
    pub(super) fn new(
        answer: Answer,
        schema: SchemaRef,
        zone: Tz,
        share: Arc<Share>,
    ) -> Result<Self> {
        check_columns(&schema)?;
        let names = |schema: &SchemaRef| {
            let fields = schema.fields().iter();
            fields.map(|field| field.name().clone()).collect::<Vec<_>>()
        };
        if names(&schema) != names(&answer.schema) {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(state::NOT_SUPPORTED, message)
                .hint("the stream has got other columns: prepare the statement again"));
        }
        Ok(Self {
            answer,
            formats: vec![Format::Text; schema.fields().len()],
            schema,
            zone,
            batch: None,
            is_done: false,
            _share: share,
        })
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the format of each column.
    pub(super) fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// Sets the format of each column; without formats all are text.
    pub(super) fn write_as(&mut self, formats: &[Format]) {
        self.formats = match formats {
            [] => vec![Format::Text; self.schema.fields().len()],
            formats => formats.to_vec(),
        };
    }

    /// Returns whether all rows were written.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Waits for the next rows, if none are left.
    pub(super) async fn ready(&mut self) -> Result<()> {
        while !self.is_done && self.batch.is_none() {
            match self.answer.stream.next().await {
                None => self.is_done = true,
                Some(batch) => self.take(&batch?)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let wrong = |e| SqlError::new("22000", e);
        let columns = self.schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, array)| {
            // A parameter may have had another type before its value was known.
            match (field.data_type(), array.data_type()) {
                (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(zone))) => {
                    let local = local_times(array, zone)?;
                    Cells::of(field, &local)
                }
                (of, found) if query::pg_type(of) == query::pg_type(found) => {
                    Cells::of(field, array)
                }
                (of, _) => Cells::of(field, &cast(array, of)?),
            }
        });
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>();
        self.batch = Some(Batch {
            columns: columns.map_err(wrong)?,
            rows: batch.num_rows(),
            next: 0,
        });
        Ok(())
    }

    /// Writes rows of those that are ready: at most `most`, and no more than are sent at once.
    /// Returns their number.
    pub(super) fn write(&mut self, into: &mut Into<'_>, most: usize, out: &mut BytesMut) -> usize {
        let Some(batch) = &mut self.batch else {
            return 0;
        };
        let (from, begun) = (batch.next, out.len());
        let end = batch.rows.min(from.saturating_add(most));
        while batch.next < end && out.len() - begun < WRITE_AT_ONCE {
            match into {
                Into::Rows => put_row(out, &batch.columns, &self.formats, batch.next, self.zone),
                Into::Copy(copy) => copy.put_row(out, &batch.columns, batch.next, self.zone),
                Into::Nothing => {}
            }
            batch.next += 1;
        }
        let written = batch.next - from;
        if batch.next == batch.rows {
            self.batch = None;
        }
        written
    }
}

/// Returns the columns as the client is told: a time of another zone than the session's, as
/// `AT TIME ZONE` makes it, is a `timestamp` of that zone's clocks.
pub(super) fn wire_schema(schema: &SchemaRef, zone: Tz) -> SchemaRef {
    let is_foreign = |of: &DataType| match of {
        DataType::Timestamp(_, Some(other)) => {
            !matches!(&**other, "UTC" | "+00:00") && **other != *zone.name()
        }
        _ => false,
    };
    if !schema
        .fields()
        .iter()
        .any(|field| is_foreign(field.data_type()))
    {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        of @ DataType::Timestamp(unit, _) if is_foreign(of) => {
            let local = DataType::Timestamp(*unit, None);
            Arc::new(field.as_ref().clone().with_data_type(local))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

/// Returns what the clocks of a zone show, as timestamps without a zone.
fn local_times(times: &ArrayRef, zone: &str) -> std::result::Result<ArrayRef, ArrowError> {
    let zone: ZoneOrOffset = zone.parse()?;
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let instants = cast(times, &micros)?;
    let instants = instants.as_primitive::<TimestampMicrosecondType>();
    let local = instants.unary_opt::<_, TimestampMicrosecondType>(|at| {
        let at = DateTime::from_timestamp_micros(at)?;
        let local = at.with_timezone(&zone).naive_local();
        Some(local.and_utc().timestamp_micros())
    });
    Ok(Arc::new(local))
}

/// Checks the number of columns.
///
/// # Errors
/// If it is beyond PostgreSQL's own limit.
pub(super) fn check_columns(schema: &SchemaRef) -> Result<()> {
    match schema.fields().len() <= COLUMNS_MAX {
        true => Ok(()),
        false => Err(SqlError::new(
            "54011",
            format!("an answer has at most {COLUMNS_MAX} columns"),
        )),
    }
}

fn put_row(out: &mut BytesMut, columns: &[Cells], formats: &[Format], row: usize, zone: Tz) {
    put(out, b'D', |out| {
        put_count(out, columns.len());
        for (cells, format) in columns.iter().zip(formats) {
            match format {
                _ if cells.is_null(row) => out.put_i32(-1),
                Format::Text => put_value(out, |out| cells.text(row, zone, out)),
                Format::Binary => put_value(out, |out| cells.binary(row, out)),
            }
        }
    });
}

/// Appends the description of columns. Without formats they are not decided yet.
pub(super) fn put_description(out: &mut BytesMut, schema: &SchemaRef, formats: &[Format]) {
    put(out, b'T', |out| {
        put_count(out, schema.fields().len());
        for (n, field) in schema.fields().iter().enumerate() {
            let of = query::pg_type_of(field);
            put_text(out, field.name());
            out.put_i32(0);
            out.put_i16(0);
            out.put_u32(of.oid);
            out.put_i16(of.size);
            out.put_i32(-1);
            out.put_i16(formats.get(n).map_or(0, |format| format.code()));
        }
    });
}
