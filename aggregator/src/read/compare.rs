//! stub
use crate::calendar::Level;
use crate::cells::{Cells, KeyValue};
use crate::definition::Definition;

/// One state that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Start of the bucket, microseconds since 1970.
    pub bucket_us: i64,
    /// Values of the key columns.
    pub key: Vec<KeyValue>,
    /// The measure, `events` for the count of events.
    pub measure: String,
    /// What the left side has, `absent` when it has no such cell.
    pub left: String,
    /// What the right side has.
    pub right: String,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Cells looked at (present on either side).
    pub cells: u64,
    /// Differences found.
    pub total: u64,
    /// The first of them, at most 100, by bucket and key.
    pub shown: Vec<Difference>,
}

/// Compares two sides of one level, state by state, by canonical bytes. Each side must be one
/// merged [`Cells`].
pub fn compare(definition: &Definition, level: Level, left: &Cells, right: &Cells) -> Comparison {
    let _ = (definition, level, left, right);
    unimplemented!()
}
