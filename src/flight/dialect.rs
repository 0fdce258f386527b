//! The forms of answers and names that a client of a call understands.
//!
//! InfluxDB's clients know their tables in the schema `iox` and times in nanoseconds. Grafana's
//! InfluxDB data source, which is one, reads every timestamp as nanoseconds, whatever its type
//! says, and makes an empty column of a type that it does not know, so that the columns of its
//! frame differ in length (`pkg/tsdb/influxdb/fsql/arrow.go` of grafana/grafana).

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use axum::http::HeaderMap;
use query::Session;
use query::output::described_schema;
use tonic::Request;

use super::DATABASE_HEADER;

/// InfluxDB's schema of tables.
const IOX: &str = "iox";

/// A kind of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Clients that read the types of Arrow.
    FlightSql,
    /// Clients of InfluxDB, which name the database in a header.
    Influx,
}

impl Dialect {
    /// Returns the dialect of a call with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        match headers.contains_key(DATABASE_HEADER) {
            true => Self::Influx,
            false => Self::FlightSql,
        }
    }

    /// Returns the dialect of a call that was admitted.
    pub(super) fn of_call<T>(request: &Request<T>) -> Self {
        let dialect = request.extensions().get::<Self>().copied();
        dialect.unwrap_or(Self::FlightSql)
    }

    /// Returns the settings of a question of the client.
    pub(super) fn session(self) -> Session {
        Session {
            public_name: (self == Self::Influx).then_some(IOX),
            ..Session::default()
        }
    }

    /// Returns the columns of an answer as the client gets them.
    pub(super) fn described(self, schema: &SchemaRef) -> Schema {
        let plain = described_schema(schema);
        match self {
            Self::FlightSql => plain,
            Self::Influx => {
                let fields = plain.fields().iter();
                let known = fields.map(|field| {
                    let data_type = influx_type(field.data_type());
                    Field::new(field.name(), data_type, true)
                });
                Schema::new(known.collect::<Vec<_>>())
            }
        }
    }
}

/// Returns the type, among those that InfluxDB's clients know, in which a column loses least.
fn influx_type(data_type: &DataType) -> DataType {
    use DataType::{
        Boolean, Date32, Date64, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp,
        UInt8, UInt16, UInt32, UInt64, Utf8,
    };
    match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32
        | Float64 | Utf8 => data_type.clone(),
        Timestamp(_, zone) => Timestamp(TimeUnit::Nanosecond, zone.clone()),
        Date32 | Date64 => Timestamp(TimeUnit::Nanosecond, None),
        Float16 => Float64,
        decimal if decimal.is_decimal() => Float64,
        _ => Utf8,
    }
}

/// Converts a column in its plain form, which has the field `from`, to the type that the client
/// was told. A time beyond the years 1677 to 2262 is null in nanoseconds.
///
/// # Errors
/// When Arrow does not convert it.
pub(super) fn converted(
    column: &ArrayRef,
    from: &Field,
    to: &DataType,
) -> Result<ArrayRef, ArrowError> {
    if column.data_type() == to {
        return Ok(ArrayRef::clone(column));
    }
    let has_no_text = from.data_type().is_nested() || *from.data_type() == DataType::Binary;
    match has_no_text && *to == DataType::Utf8 {
        true => {
            let texts = query::json_texts(from, column);
            let texts = texts.map_err(|error| ArrowError::ExternalError(error.into()))?;
            Ok(Arc::new(texts))
        }
        false => cast(column, to),
    }
}

#[cfg(test)]
mod tests;
