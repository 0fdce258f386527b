//! The shared nouns: stream, column, batch, quarantine.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::resolutions::{self, Ranges, Settlement};

/// The event time column: microseconds, UTC, never null.
pub const TIME: &str = "time";
/// The sequence number column of every part and memtable chunk.
pub const SEQ: &str = "_seq";
/// A client's own `_id`, or the one made of the store's epoch and the sequence number.
pub const ID: &str = "_id";
/// The BSON document of values that have no column of their type.
pub const REST: &str = "_rest";
/// The column that says where an event's time comes from when no field of its document gave it.
pub const TIME_SOURCE: &str = "time_source";
/// The internal stream that keeps what could not be parsed.
pub const QUARANTINE: &str = "_quarantine";

/// The journal gives two bytes to the length of a column's name.
const COLUMN_NAME_BYTES_MAX: usize = u16::MAX as usize;

/// The most bytes of what one batch quarantines, with what each item repeats: the offsets of a
/// column end at 2^31, and a record of the journal at 2^32.
const QUARANTINE_BYTES_MAX: usize = 1 << 30;

/// The name of a stream or a rollup: `[a-z_][a-z0-9_]{0,62}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

impl Name {
    /// Checks the spelling.
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

    /// The name as text.
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

/// What a stream holds; decided when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamKind {
    /// Access-log lines: the fixed columns of [`access_fields`]. `request` is stored only where it
    /// cannot be put together again from `method`, `path`, `query` and `protocol`.
    Access,
    /// JSON documents and other events with columns of their own.
    Documents,
    /// The internal stream of what could not be parsed.
    Quarantine,
}

/// The types a column can have. The journal's codec, parts and memtable know exactly these.
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
    /// The Arrow type that carries it.
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

    /// The column type that carries an Arrow type, when there is one.
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
pub struct Column {
    /// Its name; nested fields have dotted ones (`a.b`).
    pub name: Arc<str>,
    /// Its type.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
    /// An integer column keeps its type when a float comes: it holds an integer of which a float
    /// would lose digits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wide: bool,
    /// When the batch came that brought it, microseconds since 1970; `None` when the stream had it
    /// from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_us: Option<i64>,
}

impl Column {
    /// A column.
    pub fn new(name: &str, column_type: ColumnType) -> Self {
        Self {
            name: name.into(),
            column_type,
            wide: false,
            first_us: None,
        }
    }
}

/// Whether a float holds an integer exactly, and every one nearer to 0.
pub fn fits_float(integer: i64) -> bool {
    integer.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS
}

/// The columns of an access log in the order of `SELECT *`, without `_id`.
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

/// The Arrow schema of some columns; `time` and `_seq` are not nullable, the others are.
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

/// One item that could not be taken as an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its rank among the batch's items that get a sequence number (events and quarantined), from 0.
    pub rank: u32,
    /// Its index in the request as the sender counts it (lines, empty ones included), from 0.
    pub index: u64,
    /// A short code: `not_combined`, `bad_json`, `bad_time`, `future`, …
    pub reason: &'static str,
    /// What was expected and what was found, with the column.
    pub detail: String,
    /// The line in its source, from 1.
    pub line: u64,
    /// The byte at which that line begins in its (decompressed) source, from 0.
    pub byte: u64,
    /// The line as it came, any bytes.
    pub raw: Vec<u8>,
}

/// What one request carries: one journal record, whole or not at all.
///
/// # Invariants
/// `events` has a `time` column without nulls and no `_seq`; its types are those of [`ColumnType`],
/// that of `_rest` is binary; no column comes twice, and no column's name holds NUL or more than
/// 65,535 bytes. `stream` is not the quarantine.
/// The ranks of `quarantine` rise and lie below `events + quarantine`; events take the other ranks
/// in order.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Where the events go.
    pub stream: Name,
    /// What the stream becomes when this batch creates it.
    pub kind: StreamKind,
    /// When the batch came, microseconds since 1970.
    pub received_us: i64,
    /// Where it came from, for the quarantine: a path, or `http`.
    pub source: Arc<str>,
    /// Typed columns.
    pub events: RecordBatch,
    /// What could not be parsed.
    pub quarantine: Vec<Quarantined>,
    /// How a second copy of this batch would be known.
    pub identity: Option<Identity>,
}

impl Batch {
    /// How many sequence numbers the batch takes.
    pub fn items(&self) -> u64 {
        self.events.num_rows() as u64 + self.quarantine.len() as u64
    }

    /// Checks the invariants that the journal relies on.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the broken one.
    pub fn validate(&self) -> Result<()> {
        if self.stream.as_str() == QUARANTINE {
            return Err(Error::invalid(format!(
                "the stream {QUARANTINE} is written by the store itself; name another"
            )));
        }
        let schema = self.events.schema();
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
        if self.events.num_rows() > 0 {
            let time = self
                .times()
                .ok_or_else(|| Error::invalid("a batch needs a time column"))?;
            if time.null_count() > 0 {
                return Err(Error::invalid("the time column must have no nulls"));
            }
        }
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

    fn times(&self) -> Option<&TimestampMicrosecondArray> {
        self.events.column_by_name(TIME)?.as_any().downcast_ref()
    }
}

/// Checks what the journal, the parts and the overflow column ask of a batch's column.
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

/// How a second copy of a batch is known. Never its content: equal log lines are legal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// A range of an ordered source's own counter (a file's decompressed bytes, Kafka offsets).
    Range {
        /// The source's name for itself, for ever.
        producer: String,
        /// First position of the batch.
        from: u64,
        /// Position after the last.
        to: u64,
        /// xxh3-64 of all the source's content before `to`, 0 for sources without content: by it a
        /// file is known again after it has grown, and other content under its path is not.
        content: u64,
    },
    /// A caller's own key for one request.
    Key {
        /// The key as sent, with the stream it was sent for.
        key: String,
        /// xxh3-64 of the body as sent; the same key with another body is refused.
        body_hash: u64,
    },
    /// Items of the quarantine that become the events of this batch, one each, or that a batch without
    /// events gives up. Each is settled once, for ever.
    Settles {
        /// Their sequence numbers.
        items: Ranges,
        /// What becomes of them.
        how: Settlement,
    },
}

impl Identity {
    /// Whether both name the same batch, whatever is in it.
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

/// What an acknowledgement must wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WriteConcern {
    /// 0: not acknowledged; 1: sequence given, written to the journal file, visible to queries.
    pub w: u8,
    /// The journal group that holds the batch is synced to disk.
    pub j: bool,
}

impl WriteConcern {
    /// Not acknowledged: may lose what is in flight.
    pub const UNACKNOWLEDGED: Self = Self { w: 0, j: false };
    /// In the journal file and visible; survives `kill -9`. After power loss at most what came
    /// since the last finished sync is missing, always a suffix.
    pub const ACKNOWLEDGED: Self = Self { w: 1, j: false };
    /// In the synced journal; survives power loss.
    pub const JOURNALED: Self = Self { w: 1, j: true };

    /// Reads `w` and `j` as a client spells them.
    ///
    /// On one node `majority` is a majority of one and implies `j`; `w=0` with `j=true` counts as
    /// `w=1, j=true`, as MongoDB has it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when more is asked for than one node gives: never a downgrade.
    pub fn parse(w: Option<&str>, j: Option<bool>) -> Result<Self> {
        let j = j.unwrap_or(false);
        match w.unwrap_or("1") {
            "0" if j => Ok(Self::JOURNALED),
            "0" => Ok(Self::UNACKNOWLEDGED),
            "1" => Ok(Self { w: 1, j }),
            "majority" => Ok(Self::JOURNALED),
            other => Err(Error::invalid(match other.parse::<u32>() {
                Ok(n) => format!(
                    "w={n} needs {n} nodes and this store has one; ask for w=1 or w=majority"
                ),
                Err(_) => format!("w={other:?} is not a write concern; use 0, 1 or majority"),
            })),
        }
    }
}

impl Default for WriteConcern {
    fn default() -> Self {
        Self::ACKNOWLEDGED
    }
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Events stored.
    pub accepted: u64,
    /// Items kept in quarantine.
    pub quarantined: u64,
    /// First sequence number, `None` when the batch held nothing to store.
    pub first_seq: Option<u64>,
    /// Last sequence number.
    pub last_seq: Option<u64>,
    /// The batch had been stored before; this is what its first copy was told.
    pub duplicate: bool,
}
