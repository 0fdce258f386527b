//! The types that all modules share: names, columns, batches, quarantined items, acknowledgements.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::resolutions::{self, Ranges, Settlement};

/// Column of event times: microseconds, UTC, never null.
pub const TIME: &str = "time";
/// Column of sequence numbers in every part and memtable chunk.
pub const SEQ: &str = "_seq";
/// Greatest exclusive end of sequence numbers: an `_id` has six bytes of one. No sum overflows.
pub(crate) const SEQ_END_MAX: u64 = 1 << 48;
/// Reserved for the number of an event's store: sequence numbers count within one store.
pub const SHARD: &str = "_shard";
/// Column of `_id`: the client's own, or made of the store's birth, its id and the sequence number.
pub const ID: &str = "_id";
/// Column of the BSON document that holds the values that do not fit a column of their own.
pub const REST: &str = "_rest";
/// Column that records the origin of an event's time when no field of its document held it.
pub const TIME_SOURCE: &str = "time_source";
/// Internal stream of the items that could not be parsed.
pub const QUARANTINE: &str = "_quarantine";

/// Limit of a column's name: the journal stores its length in two bytes.
const COLUMN_NAME_BYTES_MAX: usize = u16::MAX as usize;

/// Limit of the bytes that one batch may quarantine, including the names repeated with each item:
/// the offsets of a column end at 2^31, and a journal record ends at 2^32.
const QUARANTINE_BYTES_MAX: usize = 1 << 30;

/// The name of a stream or a rollup: `[a-z_][a-z0-9_]{0,62}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// Checks the spelling of a name.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the rule when `name` breaks it.
    pub fn new(name: &str) -> Result<Self> {
        let mut bytes = name.bytes();
        let first_fits = bytes
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
        if first_fits
            && name.len() <= 63
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        {
            Ok(Self(name.into()))
        } else {
            Err(Error::invalid(format!(
                "{name:?} is not a name: use a lower-case letter or _, then up to 62 of a-z, 0-9 and _"
            )))
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        Self::new(&name)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Kind of the events of a stream; fixed when the stream is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamKind {
    /// Access-log lines with the columns of [`access_fields`]; `request` where it says more.
    Access,
    /// JSON documents and other events with columns of their own.
    Documents,
    /// Increments of counters, with the columns of [`counter_fields`](crate::counter_fields).
    Counters,
    /// Items that could not be parsed; the kind of the internal stream.
    Quarantine,
}

/// Type of a column. The journal's codec, parts and memtable support exactly these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// 16-bit signed integer (an HTTP status).
    Int16,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit float.
    Float64,
    /// UTF-8 text.
    Text,
    /// Bytes.
    Binary,
    /// Microseconds since 1970, UTC.
    Time,
    /// 64-bit unsigned integer (`_seq`).
    Uint64,
}

impl ColumnType {
    /// Returns the Arrow type of the column type.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Binary => DataType::Binary,
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Uint64 => DataType::UInt64,
        }
    }

    /// Returns the column type of an Arrow type, when there is one.
    pub fn of(arrow: &DataType) -> Option<Self> {
        Some(match arrow {
            DataType::Boolean => Self::Bool,
            DataType::Int16 => Self::Int16,
            DataType::Int64 => Self::Int64,
            DataType::Float64 => Self::Float64,
            DataType::Utf8 => Self::Text,
            DataType::Binary => Self::Binary,
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) if &**zone == "UTC" => {
                Self::Time
            }
            DataType::UInt64 => Self::Uint64,
            _ => return None,
        })
    }
}

/// One column of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Name of the column; nested fields have dotted ones (`a.b`).
    pub name: Arc<str>,
    /// Type of the values.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// True when an integer column keeps its type although a float arrives, because it holds an
    /// integer of which a float would lose digits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wide: bool,
    /// Arrival time of the batch that introduced the column, microseconds since 1970; `None` when
    /// the stream had it from its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<i64>,
}

impl Column {
    /// Returns a column of this name and type.
    pub fn new(name: &str, column_type: ColumnType) -> Self {
        Self {
            name: name.into(),
            column_type,
            wide: false,
            first_us: None,
        }
    }
}

/// Checks whether a float holds an integer exactly, and so every integer nearer to 0.
pub fn fits_float(integer: i64) -> bool {
    integer.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS
}

/// Returns the columns of an access log in the order of `SELECT *`, without `_id`.
pub fn access_fields() -> Vec<Column> {
    use ColumnType::{Int16, Int64, Text, Time};
    [
        ("host", Text),
        ("logname", Text),
        ("user", Text),
        (TIME, Time),
        ("method", Text),
        ("path", Text),
        ("query", Text),
        ("protocol", Text),
        ("request", Text),
        ("status", Int16),
        ("response_size", Int64),
        ("referrer", Text),
        ("user_agent", Text),
        ("site", Text),
        ("extra", Text),
    ]
    .into_iter()
    .map(|(name, column_type)| Column::new(name, column_type))
    .collect()
}

/// Returns the Arrow schema of some columns; `time` and `_seq` are not nullable, the others are.
pub fn arrow_schema(columns: &[Column]) -> SchemaRef {
    let fields: Vec<Field> = columns
        .iter()
        .map(|c| {
            let nullable = &*c.name != TIME && &*c.name != SEQ;
            Field::new(&*c.name, c.column_type.arrow(), nullable)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// One item that could not be parsed as an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Quarantined {
    /// Rank among the batch's items that get a sequence number (events and quarantined), from 0.
    pub rank: u32,
    /// Index in the request as the sender counts it (lines, empty ones included), from 0.
    pub index: u64,
    /// Short code of the fault: `not_combined`, `bad_json`, `bad_time`, `future`, …
    pub reason: &'static str,
    /// Description: expected value, actual value, column.
    pub detail: String,
    /// Line number in the source, from 1.
    pub line: u64,
    /// Offset of the line's first byte in the (decompressed) source, from 0.
    pub byte: u64,
    /// The line as it arrived, any bytes.
    pub raw: Vec<u8>,
    /// The event that the line is once its time has come, as one row: its place among shards is
    /// that of the line. It is not stored.
    pub event: Option<RecordBatch>,
}

/// The items of one request: one journal record, written whole or not at all.
///
/// # Invariants
/// `events` has a `time` column without nulls and no `_seq`; its types are those of
/// [`ColumnType`], `_rest` is binary; no column appears twice, and no column's name holds NUL or
/// more than 65,535 bytes. `stream` is not the quarantine.
/// The ranks of `quarantine` rise, below `events + quarantine`; events take the others in order.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Stream of the events.
    pub stream: Name,
    /// Kind of the stream if this batch creates it.
    pub kind: StreamKind,
    /// Arrival time of the batch, microseconds since 1970.
    pub received_us: i64,
    /// Origin of the batch, recorded in the quarantine: a path, or `http`.
    pub source: Arc<str>,
    /// Events in typed columns.
    pub events: RecordBatch,
    /// Items that could not be parsed.
    pub quarantine: Vec<Quarantined>,
    /// Identity by which a second copy of this batch is recognised.
    pub identity: Option<Identity>,
}

impl Batch {
    /// Returns how many sequence numbers the batch takes.
    pub fn items(&self) -> u64 {
        self.events.num_rows() as u64 + self.quarantine.len() as u64
    }

    /// Checks the invariants that the journal relies on.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the broken invariant.
    pub fn validate(&self) -> Result<()> {
        check_events(&self.stream, &self.events)?;
        let named = self.stream.as_str().len() + self.source.len();
        let texts = self.quarantine.iter();
        let texts = texts.map(|q| named + q.reason.len() + q.detail.len() + q.raw.len());
        if texts.sum::<usize>() > QUARANTINE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "what is quarantined of one batch has at most {QUARANTINE_BYTES_MAX} bytes, the names of stream and source with each item; send it in pieces"
            )));
        }
        let ranks = self.quarantine.iter().map(|q| u64::from(q.rank));
        if !ranks.clone().is_sorted_by(|a, b| a < b) || ranks.clone().any(|r| r >= self.items()) {
            return Err(Error::invalid(
                "quarantine ranks must rise and lie within the batch",
            ));
        }
        if let Some(Identity::Settles { items, how }) = &self.identity {
            let (events, bad) = (self.events.num_rows(), self.quarantine.len());
            resolutions::check(items, *how, events as u64, bad as u64)?;
        }
        Ok(())
    }
}

/// Checks the events of a batch for a stream.
pub(crate) fn check_events(stream: &Name, events: &RecordBatch) -> Result<()> {
    if stream.as_str() == QUARANTINE {
        return Err(Error::invalid(format!(
            "the stream {QUARANTINE} is written by the store itself; name another"
        )));
    }
    let schema = events.schema();
    let mut names = HashSet::with_capacity(schema.fields().len());
    for field in schema.fields() {
        check_column(field)?;
        if !names.insert(field.name()) {
            return Err(Error::invalid(format!(
                "column {} comes twice",
                field.name()
            )));
        }
    }
    if events.num_rows() > 0 {
        let times = events.column_by_name(TIME);
        let times = times.and_then(|times| times.as_primitive_opt::<TimestampMicrosecondType>());
        let times = times.ok_or_else(|| Error::invalid("a batch needs a time column"))?;
        if times.null_count() > 0 {
            return Err(Error::invalid("the time column must have no nulls"));
        }
    }
    Ok(())
}

/// Checks the requirements of the journal, the parts and the overflow column on a batch's column.
fn check_column(field: &Field) -> Result<()> {
    let name = field.name();
    let Some(found) = ColumnType::of(field.data_type()) else {
        return Err(Error::invalid(format!(
            "column {name} has the unknown type {}",
            field.data_type()
        )));
    };
    // The name becomes a key of a BSON document when a value does not fit its column.
    if name.len() > COLUMN_NAME_BYTES_MAX || name.contains('\0') {
        return Err(Error::invalid(format!(
            "a column's name has at most {COLUMN_NAME_BYTES_MAX} bytes and no NUL"
        )));
    }
    match (name.as_str(), found) {
        (SEQ, _) => Err(Error::invalid("a batch must not bring its own _seq")),
        (TIME, ColumnType::Time) | (REST, ColumnType::Binary) => Ok(()),
        (TIME | REST, _) => Err(Error::invalid(format!(
            "column {name} cannot be {}",
            field.data_type()
        ))),
        _ => Ok(()),
    }
}

/// The identity by which a second copy of a batch is recognised. It is never derived from the
/// events: equal log lines are legal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Range of an ordered source's own counter (a file's decompressed bytes, Kafka offsets).
    Range {
        /// Name by which the source identifies itself, never changed.
        producer: String,
        /// First position of the batch.
        from: u64,
        /// Position after the last.
        to: u64,
        /// Hash (xxh3-64) of all the source's content before `to`, 0 for sources without content.
        /// The hash recognises a grown file, and detects other content under the same path.
        content: u64,
    },
    /// A client's own key for one request.
    Key {
        /// Key as sent, with its stream.
        key: String,
        /// Hash (xxh3-64) of the body as sent; the same key with another body is refused.
        body_hash: u64,
    },
    /// Quarantined items that this batch resolves: they become its events, one each, or are
    /// discarded by a batch without events. An item is resolved once, for ever.
    Settles {
        /// Sequence numbers of the items.
        items: Ranges,
        /// Resolution of the items.
        how: Settlement,
    },
}

impl Identity {
    /// Checks whether both identify the same batch, whatever its content.
    pub(crate) fn same_batch(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key { key: a, .. }, Self::Key { key: b, .. }) => a == b,
            (
                Self::Range {
                    producer: a,
                    from,
                    to,
                    ..
                },
                Self::Range {
                    producer: b,
                    from: f,
                    to: t,
                    ..
                },
            ) => a == b && from == f && to == t,
            _ => false,
        }
    }
}

/// The acknowledgement of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Number of events stored.
    pub accepted: u64,
    /// Number of items stored in quarantine.
    pub quarantined: u64,
    /// First sequence number, `None` when the batch held nothing to store.
    pub first_seq: Option<u64>,
    /// Last sequence number.
    pub last_seq: Option<u64>,
    /// True when the batch had been stored before: these are the figures of its first copy.
    pub duplicate: bool,
    /// The shard of a cluster that has stored it, where a batch is divided among several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
}

impl Ack {
    /// Acknowledgement of a duplicate whose counts the store does not know: the first copy is older
    /// than those remembered, or several batches together resolved its quarantined items.
    pub(crate) const UNCOUNTED_DUPLICATE: Self = Self {
        accepted: 0,
        quarantined: 0,
        first_seq: None,
        last_seq: None,
        duplicate: true,
        shard: None,
    };
}
