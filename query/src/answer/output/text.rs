//! Values as JSON and CSV text.

use std::io::Write as _;

use aggregator::state::StateKind;
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, StringViewArray, StructArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bson::{RawBsonRef, RawDocument};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use chrono_tz::Tz;

use super::state;
use crate::error::{Error, Result};
use crate::functions::attr::json_of;
use crate::marks::holds_documents;

/// A column ready to be written: its type is resolved once, not for every value.
pub(super) enum Column {
    Null,
    Bool(BooleanArray),
    Int(Int64Array),
    Uint(UInt64Array),
    Float(Float64Array),
    Text(StringArray),
    View(StringViewArray),
    Bytes(BinaryArray),
    /// The overflow column: BSON documents, written as JSON.
    Document(BinaryArray),
    /// States of a level, written as a short description.
    State(BinaryArray, StateKind),
    Micros(TimestampMicrosecondArray, Option<Tz>),
    Nanos(TimestampNanosecondArray, Option<Tz>),
    List(ListArray, Box<Column>),
    Struct(StructArray, Vec<(String, Column)>),
    /// Decimal numbers, formatted by Arrow's own display.
    Number(StringArray),
}

impl Column {
    /// Prepares the columns of a batch. Instants are written in `zone`, otherwise in UTC.
    ///
    /// The fields are those of the answer: batches of an operator may lack the marks of columns.
    pub(super) fn of_batch(
        schema: &SchemaRef,
        batch: &RecordBatch,
        zone: Option<Tz>,
    ) -> Result<Vec<Self>> {
        let named = schema.fields().iter().zip(batch.columns());
        named
            .map(|(field, array)| Self::of_field(field, array, zone))
            .collect()
    }

    /// Prepares a column of this field.
    pub(super) fn of_field(field: &Field, array: &ArrayRef, zone: Option<Tz>) -> Result<Self> {
        match (Self::new(array, zone)?, state::kind(field)) {
            (Self::Bytes(documents), _) if holds_documents(field) => Ok(Self::Document(documents)),
            (Self::Bytes(states), Some(kind)) => Ok(Self::State(states, kind)),
            (column, _) => Ok(column),
        }
    }

    /// Prepares a column. A time without a zone is no instant, so that `zone` does not move it.
    pub(super) fn new(array: &ArrayRef, zone: Option<Tz>) -> Result<Self> {
        let failed = |e: ArrowError| Error::Output(std::io::Error::other(e));
        let to = |wanted: &DataType| cast(array, wanted).map_err(failed);
        macro_rules! of {
            ($kind:ident, $array:ty, $array_ref:expr) => {
                Self::$kind(downcast::<$array>(&$array_ref))
            };
        }
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => of!(Bool, BooleanArray, array),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                of!(Int, Int64Array, to(&DataType::Int64)?)
            }
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                of!(Uint, UInt64Array, to(&DataType::UInt64)?)
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                of!(Float, Float64Array, to(&DataType::Float64)?)
            }
            DataType::Utf8 | DataType::LargeUtf8 => of!(Text, StringArray, to(&DataType::Utf8)?),
            DataType::Utf8View => of!(View, StringViewArray, array),
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => {
                of!(Bytes, BinaryArray, to(&DataType::Binary)?)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, known) => {
                let nanos = to(&DataType::Timestamp(TimeUnit::Nanosecond, None))?;
                Self::Nanos(downcast(&nanos), zone.filter(|_| known.is_some()))
            }
            DataType::Timestamp(_, known) => {
                let micros = to(&DataType::Timestamp(TimeUnit::Microsecond, None))?;
                Self::Micros(downcast(&micros), zone.filter(|_| known.is_some()))
            }
            DataType::Dictionary(_, values) => Self::new(&to(values)?, zone)?,
            DataType::List(field) => {
                let list: ListArray = downcast(array);
                let values = Self::of_field(field, list.values(), zone)?;
                Self::List(list, Box::new(values))
            }
            DataType::RunEndEncoded(_, values) => Self::new(&to(values.data_type())?, zone)?,
            DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _) => {
                Self::new(&to(&DataType::List(field.clone()))?, zone)?
            }
            DataType::Struct(fields) => {
                let values: StructArray = downcast(array);
                let named = fields.iter().zip(values.columns());
                let inner = named
                    .map(|(f, c)| Ok((f.name().clone(), Self::of_field(f, c, zone)?)))
                    .collect::<Result<Vec<_>>>()?;
                Self::Struct(values, inner)
            }
            other if other.is_decimal() => Self::Number(displayed(array).map_err(failed)?),
            _ => Self::Text(displayed(array).map_err(failed)?),
        })
    }

    fn array(&self) -> Option<&dyn Array> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(a) => a,
            Self::Int(a) => a,
            Self::Uint(a) => a,
            Self::Float(a) => a,
            Self::Text(a) | Self::Number(a) => a,
            Self::View(a) => a,
            Self::Bytes(a) | Self::Document(a) | Self::State(a, _) => a,
            Self::Micros(a, _) => a,
            Self::Nanos(a, _) => a,
            Self::List(a, _) => a,
            Self::Struct(a, _) => a,
        })
    }

    /// Returns whether a value is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array().is_none_or(|a| a.is_null(row))
    }

    /// Returns whether values are numbers, which a table aligns to the right.
    pub(super) fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int(_) | Self::Uint(_) | Self::Float(_) | Self::Number(_)
        )
    }

    /// Returns whether values are instants.
    pub(super) fn is_time(&self) -> bool {
        matches!(self, Self::Micros(..) | Self::Nanos(..))
    }

    /// Appends a value as JSON.
    pub(super) fn json(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match self {
            Self::Float(a) if !a.value(row).is_finite() => out.extend_from_slice(b"null"),
            Self::Text(a) => json_text(a.value(row), out),
            Self::View(a) => json_text(a.value(row), out),
            Self::Bytes(_) | Self::Micros(..) | Self::Nanos(..) => {
                out.push(b'"');
                self.plain(row, out);
                out.push(b'"');
            }
            _ => self.plain(row, out),
        }
    }

    /// Appends a value that is not null as text without quotes.
    pub(super) fn plain(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Null => {}
            Self::Bool(a) => out.extend_from_slice(if a.value(row) { b"true" } else { b"false" }),
            Self::Int(a) => put(out, format_args!("{}", a.value(row))),
            Self::Uint(a) => put(out, format_args!("{}", a.value(row))),
            // Debug writes the shortest digits that parse to the same value, and always a point
            // or an exponent.
            Self::Float(a) => put(out, format_args!("{:?}", a.value(row))),
            Self::Text(a) | Self::Number(a) => out.extend_from_slice(a.value(row).as_bytes()),
            Self::View(a) => out.extend_from_slice(a.value(row).as_bytes()),
            Self::Bytes(a) => base64(a.value(row), out),
            Self::Document(a) => out.extend_from_slice(document(a.value(row)).as_bytes()),
            Self::State(a, kind) => match state::described(*kind, a.value(row)) {
                Some(text) => out.extend_from_slice(text.as_bytes()),
                None => base64_text(a.value(row), out),
            },
            Self::Micros(a, zone) => {
                let at = DateTime::from_timestamp_micros(a.value(row));
                stamp(at, *zone, a.value(row), out);
            }
            Self::Nanos(a, zone) => {
                let at = DateTime::from_timestamp_nanos(a.value(row));
                stamp(Some(at), *zone, a.value(row), out);
            }
            Self::List(a, values) => {
                out.push(b'[');
                let offsets = a.value_offsets();
                for (n, i) in (offsets[row]..offsets[row + 1]).enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    values.json(
                        usize::try_from(i).expect("BUG: offsets of a list are not negative"),
                        out,
                    );
                }
                out.push(b']');
            }
            Self::Struct(_, fields) => {
                out.push(b'{');
                for (n, (name, column)) in fields.iter().enumerate() {
                    if n > 0 {
                        out.push(b',');
                    }
                    json_text(name, out);
                    out.push(b':');
                    column.json(row, out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Returns the values of an array in Arrow's own words.
fn displayed(array: &ArrayRef) -> Result<StringArray, ArrowError> {
    let format = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &format)?;
    let value = |i: usize| array.is_valid(i).then(|| formatter.value(i).to_string());
    Ok((0..array.len()).map(value).collect())
}

fn downcast<T: Clone + 'static>(array: &ArrayRef) -> T {
    array
        .as_any()
        .downcast_ref::<T>()
        .expect("BUG: an array has the type it says")
        .clone()
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("BUG: memory takes what is written");
}

/// Appends an instant as RFC 3339 with the offset of a zone, or in UTC with `Z`, with groups of
/// three fraction digits as needed; beyond the calendar, the number.
fn stamp(at: Option<DateTime<Utc>>, zone: Option<Tz>, raw: i64, out: &mut Vec<u8>) {
    match (at, zone) {
        (Some(at), Some(zone)) if in_calendar(at) => {
            let at = at.with_timezone(&zone);
            out.extend_from_slice(at.to_rfc3339_opts(SecondsFormat::AutoSi, true).as_bytes());
        }
        (Some(at), _) => {
            out.extend_from_slice(at.to_rfc3339_opts(SecondsFormat::AutoSi, true).as_bytes())
        }
        (None, _) => put(out, format_args!("{raw}")),
    }
}

/// Returns whether an instant is more than a day away from the ends of the calendar, so that every
/// zone has a date for it.
fn in_calendar(at: DateTime<Utc>) -> bool {
    let day = TimeDelta::days(1);
    at.checked_add_signed(day).is_some() && at.checked_sub_signed(day).is_some()
}

/// Appends text as a JSON string.
pub(super) fn json_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (i, byte) in bytes.iter().enumerate() {
        let escaped: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0..=0x1f | 0x7f => {
                out.extend_from_slice(&bytes[from..i]);
                put(out, format_args!("\\u{byte:04x}"));
                from = i + 1;
                continue;
            }
            _ => continue,
        };
        out.extend_from_slice(&bytes[from..i]);
        out.extend_from_slice(escaped);
        from = i + 1;
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

/// Returns a BSON document as JSON with every digit; other bytes as a JSON string of base64.
fn document(bytes: &[u8]) -> String {
    if let Ok(document) = RawDocument::from_bytes(bytes) {
        return json_of(RawBsonRef::Document(document));
    }
    let mut text = Vec::new();
    base64_text(bytes, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Appends bytes as a JSON string of base64.
fn base64_text(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    base64(bytes, out);
    out.push(b'"');
}

/// Appends bytes as base64 (RFC 4648, padded).
fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bits);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= group.len() { digit } else { b'=' });
        }
    }
}

/// Returns a CSV field, quoted where necessary.
pub(super) fn csv_quoted(text: &str) -> String {
    if text.is_empty()
        || text.contains([',', '"', '\n', '\r'])
        || text.starts_with(' ')
        || text.ends_with(' ')
    {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Appends the rows of a batch as CSV.
pub(super) fn csv_rows(
    schema: &SchemaRef,
    batch: &RecordBatch,
    zone: Option<Tz>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let columns = Column::of_batch(schema, batch, zone)?;
    let mut field = Vec::new();
    for row in 0..batch.num_rows() {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            if column.is_null(row) {
                continue;
            }
            field.clear();
            column.plain(row, &mut field);
            out.extend_from_slice(csv_quoted(&String::from_utf8_lossy(&field)).as_bytes());
        }
        out.push(b'\n');
    }
    Ok(())
}
