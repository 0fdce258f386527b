//! The result of a parser: columns of events, and quarantined lines.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use storage::{Quarantined, StreamKind};

use crate::formats::{Format, NO_FORMAT};

/// The events and quarantined lines of a block.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// Kind of the events.
    pub kind: StreamKind,
    /// The format in use: the decision of `Auto`, or `Auto` when nothing fits.
    pub format: Format,
    /// Typed columns; `time` is there without nulls.
    pub events: RecordBatch,
    /// The lines that could not be taken, in order.
    pub quarantine: Vec<Quarantined>,
    /// Lines read: events, quarantined and empty ones.
    pub lines: u64,
    /// Empty lines.
    pub empty: u64,
    /// With `ordered`: the index of the first bad item. Nothing after it was read.
    pub stopped_at: Option<u64>,
    /// The quarantined lines have no text, as fields of their stream are anonymised.
    pub hides_lines: bool,
}

impl Parsed {
    /// Returns whether there are lines that are not empty and no format fits any.
    pub fn has_no_format(&self) -> bool {
        let unknown = |item: &Quarantined| item.reason == NO_FORMAT;
        self.events.num_rows() == 0
            && !self.quarantine.is_empty()
            && self.quarantine.iter().all(unknown)
    }

    /// Counts the quarantined lines by their reason.
    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        let mut reasons = BTreeMap::new();
        for item in &self.quarantine {
            *reasons.entry(item.reason).or_default() += 1;
        }
        reasons
    }
}
