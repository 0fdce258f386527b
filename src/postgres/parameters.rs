//! Values for the parameters of a statement: from the text and binary formats of PostgreSQL to the
//! engine's types.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, new_null_array};
use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use arrow::util::display::FormatOptions;
use bytes::Bytes;
use chrono_tz::Tz;
use query::ScalarValue;

use super::cells::EPOCH_S;
use super::cells::numeric_text;
use super::error::{Result, SqlError, state};
use super::message::{Body, Format, Malformed};

const EPOCH_US: i64 = EPOCH_S * 1_000_000;
const EPOCH_DAYS: i64 = EPOCH_S / 86_400;

/// Maximum values of an array.
const ARRAY_MAX: usize = 100_000;
const BAD_TEXT: &str = "22P02";
const BAD_BINARY: &str = "22P03";
/// Digits of the widest decimal.
const DECIMAL_DIGITS: u8 = 38;

/// Types of parameters by their number (`pg_type.oid`), with the type of the engine.
const TYPES: [(u32, u32, DataType); 20] = [
    // type, array of it, type of the engine
    (16, 1000, DataType::Boolean),
    (17, 1001, DataType::Binary),
    (18, 1002, DataType::Utf8),
    (19, 1003, DataType::Utf8),
    (20, 1016, DataType::Int64),
    (21, 1005, DataType::Int16),
    (23, 1007, DataType::Int32),
    (25, 1009, DataType::Utf8),
    (26, 1028, DataType::UInt32),
    (114, 199, DataType::Utf8),
    (700, 1021, DataType::Float32),
    (701, 1022, DataType::Float64),
    (1042, 1014, DataType::Utf8),
    (1043, 1015, DataType::Utf8),
    (1082, 1182, DataType::Date32),
    (1083, 1183, DataType::Time64(TimeUnit::Microsecond)),
    (1114, 1115, DataType::Timestamp(TimeUnit::Microsecond, None)),
    (1186, 1187, DataType::Interval(IntervalUnit::MonthDayNano)),
    (2950, 2951, DataType::Utf8),
    (3802, 3807, DataType::Utf8),
];
const TIMESTAMPTZ: (u32, u32) = (1184, 1185);
const NUMERIC: (u32, u32) = (1700, 1231);
/// The type of a value that a client leaves to the server.
const UNKNOWN: u32 = 705;

fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Returns the type of the engine that a client declared; `None` for one left to the server.
///
/// # Errors
/// If there is no such type.
pub(super) fn declared(oid: u32) -> Result<Option<DataType>> {
    let list = |of: DataType| DataType::List(Arc::new(Field::new_list_field(of, true)));
    if matches!(oid, 0 | UNKNOWN) {
        return Ok(None);
    }
    // Its scale follows from the value.
    if oid == NUMERIC.0 {
        return Ok(Some(DataType::Float64));
    }
    let found = [
        (oid == TIMESTAMPTZ.0).then(timestamptz),
        (oid == TIMESTAMPTZ.1).then(|| list(timestamptz())),
        (oid == NUMERIC.1).then(|| list(DataType::Float64)),
        TYPES.iter().find_map(|(one, many, of)| match oid {
            oid if oid == *one => Some(of.clone()),
            oid if oid == *many => Some(list(of.clone())),
            _ => None,
        }),
    ];
    match found.into_iter().flatten().next() {
        Some(found) => Ok(Some(found)),
        None => Err(
            SqlError::unsupported(format!("a parameter of the type {oid}")).hint("send it as text"),
        ),
    }
}

/// Reads a value in the format and the type of the client. `wanted` is the type that the statement
/// implies, which counts for a type left to the server.
///
/// # Errors
/// If the bytes are no value of the type.
pub(super) fn read(
    value: Option<&Bytes>,
    format: Format,
    oid: u32,
    wanted: Option<&DataType>,
    zone: Tz,
) -> Result<ScalarValue> {
    let of = match declared(oid)? {
        Some(of) => of,
        None => wanted.cloned().unwrap_or(DataType::Utf8),
    };
    let Some(bytes) = value else {
        return scalar(&new_null_array(&of, 1));
    };
    match format {
        Format::Text => {
            let text = std::str::from_utf8(bytes).map_err(|_| bad_text("text", "not UTF-8"))?;
            of_text(text, &of, zone)
        }
        // Without a type, a binary value could be anything: clients declare it then.
        Format::Binary => binary(bytes, &of, oid == NUMERIC.0),
    }
}

fn scalar(array: &ArrayRef) -> Result<ScalarValue> {
    let made = ScalarValue::try_from_array(array, 0);
    made.map_err(|e| SqlError::new(state::BAD_PARAMETER, e))
}

fn bad_text(of: impl std::fmt::Display, why: impl std::fmt::Display) -> SqlError {
    SqlError::new(
        BAD_TEXT,
        format!("invalid input syntax for type {of}: {why}"),
    )
}

fn bad_binary(of: &DataType) -> SqlError {
    let name = query::pg_type(of).name;
    SqlError::new(BAD_BINARY, format!("incorrect binary data for type {name}"))
}

/// Reads the text of a value.
pub(super) fn of_text(text: &str, of: &DataType, zone: Tz) -> Result<ScalarValue> {
    let name = query::pg_type(of).name;
    let bad = || bad_text(name, format!("\"{text}\""));
    Ok(match of {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => {
            ScalarValue::Utf8(Some(text.to_owned()))
        }
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => {
            let bytes = match text.strip_prefix("\\x") {
                Some(hex) => hex_bytes(hex).ok_or_else(bad)?,
                None => text.as_bytes().to_vec(),
            };
            ScalarValue::Binary(Some(bytes))
        }
        DataType::Timestamp(_, Some(_)) => {
            let at = string_to_datetime(&zone, text.trim()).map_err(|_| bad())?;
            let micros = at.timestamp_micros();
            ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()))
        }
        DataType::List(item) => {
            let texts = array_texts(text).ok_or_else(bad)?;
            let values = texts.iter().map(|text| match text {
                Some(text) => of_text(text, item.data_type(), zone),
                None => scalar(&new_null_array(item.data_type(), 1)),
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            ScalarValue::List(ScalarValue::new_list(&values, item.data_type(), true))
        }
        DataType::Float64 if is_decimal(text) => decimal(text)?,
        DataType::Interval(_) if text.contains([',', ':']) => of_text(&in_units(text), of, zone)?,
        of => {
            let text = match of {
                DataType::Timestamp(_, None) => without_offset(text),
                _ => text,
            };
            let texts: ArrayRef = Arc::new(StringArray::from(vec![text.trim()]));
            let options = CastOptions {
                safe: false,
                format_options: FormatOptions::default(),
            };
            scalar(&cast_with_options(&texts, of, &options).map_err(|_| bad())?)?
        }
    })
}

/// Writes an interval as arrow reads it: `1 day, 02:30:00` as `1 day 02 hours 30 mins 00 secs`.
fn in_units(text: &str) -> String {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    let words = words.flat_map(|word| {
        let (sign, clock) = match word.strip_prefix('-') {
            Some(clock) => ("-", clock),
            None => ("", word),
        };
        match clock.contains(':') {
            true => {
                let fields = clock.split(':').zip(["hours", "mins", "secs"]);
                fields
                    .map(|(n, unit)| format!("{sign}{n} {unit}"))
                    .collect()
            }
            false => vec![word.to_owned()],
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns a local time without an offset behind its clock. PostgreSQL ignores it; JDBC sends that
/// of its machine with a local time.
fn without_offset(text: &str) -> &str {
    let clock = text.find(':').unwrap_or(text.len());
    let offset = text[clock..].find(['+', '-', 'Z', 'z']);
    &text[..offset.map_or(text.len(), |offset| clock + offset)]
}

/// Returns whether a number has digits that a float may not keep.
fn is_decimal(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    digits.bytes().filter(u8::is_ascii_digit).count() > 15
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Reads a number with all its digits.
fn decimal(text: &str) -> Result<ScalarValue> {
    let bad = || bad_text("numeric", format!("\"{text}\""));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = i8::try_from(fraction.len()).map_err(|_| bad())?;
    let digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| bad())?;
    match i64::try_from(digits) {
        Ok(integer) if scale == 0 => Ok(ScalarValue::Int64(Some(integer))),
        _ if scale > DECIMAL_DIGITS as i8 => Err(bad()),
        _ => Ok(ScalarValue::Decimal128(Some(digits), DECIMAL_DIGITS, scale)),
    }
}

fn hex_bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).ok();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Reads the texts of an array of one dimension: `{a,"b c",NULL}`.
fn array_texts(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut texts = Vec::new();
    let mut chars = inner.chars().peekable();
    while chars.peek().is_some() {
        let mut item = String::new();
        let is_quoted = chars.next_if_eq(&'"').is_some();
        loop {
            match chars.next() {
                Some('\\') => item.push(chars.next()?),
                Some('"') if is_quoted => break,
                None if is_quoted => return None,
                Some(',') if !is_quoted => break,
                None => break,
                Some('{' | '}' | '"') if !is_quoted => return None,
                Some(c) => item.push(c),
            }
        }
        if is_quoted && chars.peek().is_some() && chars.next() != Some(',') {
            return None;
        }
        let is_null = !is_quoted && item.eq_ignore_ascii_case("null");
        texts.push((!is_null).then_some(item));
        if texts.len() > ARRAY_MAX {
            return None;
        }
    }
    Some(texts)
}

/// Reads the binary form of a value.
fn binary(bytes: &Bytes, of: &DataType, is_numeric: bool) -> Result<ScalarValue> {
    let bad = || bad_binary(of);
    if is_numeric {
        let text = numeric_text(bytes).ok_or_else(bad)?;
        return of_text(&text, of, Tz::UTC);
    }
    fn fixed<const N: usize>(bytes: &Bytes) -> Option<[u8; N]> {
        bytes.as_ref().try_into().ok()
    }
    let int8 = || fixed(bytes).map(i64::from_be_bytes).ok_or_else(bad);
    let micros = || int8()?.checked_add(EPOCH_US).ok_or_else(bad);
    Ok(match of {
        DataType::Boolean => {
            let [value] = fixed(bytes).ok_or_else(bad)?;
            ScalarValue::Boolean(Some(value != 0))
        }
        DataType::Int16 | DataType::Int32 | DataType::Int64 => integer(bytes).ok_or_else(bad)?,
        DataType::UInt32 => {
            ScalarValue::UInt32(Some(fixed(bytes).map(u32::from_be_bytes).ok_or_else(bad)?))
        }
        DataType::Float32 => {
            ScalarValue::Float32(Some(fixed(bytes).map(f32::from_be_bytes).ok_or_else(bad)?))
        }
        DataType::Float64 => {
            ScalarValue::Float64(Some(fixed(bytes).map(f64::from_be_bytes).ok_or_else(bad)?))
        }
        DataType::Utf8 | DataType::Utf8View | DataType::Null => {
            let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
            ScalarValue::Utf8(Some(text.to_owned()))
        }
        DataType::Binary => ScalarValue::Binary(Some(bytes.to_vec())),
        DataType::Date32 => {
            let days = fixed(bytes).map(i32::from_be_bytes).ok_or_else(bad)?;
            let days = i32::try_from(i64::from(days) + EPOCH_DAYS).map_err(|_| bad())?;
            ScalarValue::Date32(Some(days))
        }
        DataType::Time64(_) => ScalarValue::Time64Microsecond(Some(int8()?)),
        DataType::Timestamp(_, Some(_)) => {
            ScalarValue::TimestampMicrosecond(Some(micros()?), Some("UTC".into()))
        }
        DataType::Timestamp(_, None) => ScalarValue::TimestampMicrosecond(Some(micros()?), None),
        DataType::Interval(_) => interval(bytes).ok_or_else(bad)?,
        DataType::List(item) => {
            let values = array(bytes, item.data_type()).map_err(|_| bad())?;
            ScalarValue::List(ScalarValue::new_list(&values, item.data_type(), true))
        }
        other => {
            let name = query::pg_type(other).name;
            return Err(
                SqlError::unsupported(format!("a binary parameter of type {name}"))
                    .hint("send it as text"),
            );
        }
    })
}

/// Reads an integer by its width.
fn integer(bytes: &Bytes) -> Option<ScalarValue> {
    Some(match bytes.len() {
        2 => ScalarValue::Int16(Some(i16::from_be_bytes(bytes.as_ref().try_into().ok()?))),
        4 => ScalarValue::Int32(Some(i32::from_be_bytes(bytes.as_ref().try_into().ok()?))),
        8 => ScalarValue::Int64(Some(i64::from_be_bytes(bytes.as_ref().try_into().ok()?))),
        _ => return None,
    })
}

/// Reads microseconds, days and months.
fn interval(bytes: &Bytes) -> Option<ScalarValue> {
    let mut body = Body(bytes.clone());
    let (micros, days, months) = (body.i64().ok()?, body.i32().ok()?, body.i32().ok()?);
    body.end().ok()?;
    let nanoseconds = micros.checked_mul(1_000)?;
    let interval = IntervalMonthDayNano::new(months, days, nanoseconds);
    Some(ScalarValue::IntervalMonthDayNano(Some(interval)))
}

/// Reads the values of an array of at most one dimension.
fn array(bytes: &Bytes, item: &DataType) -> std::result::Result<Vec<ScalarValue>, Malformed> {
    let wrong = Malformed("not an array");
    let mut body = Body(bytes.clone());
    let dimensions = body.i32()?;
    body.i32()?;
    let oid = body.u32()?;
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = usize::try_from(body.i32()?).map_err(|_| wrong)?;
            body.i32()?;
            count
        }
        _ => return Err(wrong),
    };
    if count > ARRAY_MAX {
        return Err(wrong);
    }
    let mut values = Vec::new();
    for _ in 0..count {
        let value = match body.i32()? {
            -1 => scalar(&new_null_array(item, 1)),
            length => {
                let value = body.take(usize::try_from(length).map_err(|_| wrong)?)?;
                binary(&value, item, oid == NUMERIC.0)
            }
        };
        values.push(value.map_err(|_| wrong)?);
    }
    body.end()?;
    Ok(values)
}

#[cfg(test)]
mod tests;
