//! Bodies of the protocols that shippers speak: decoded to records of streams.
//!
//! Each record becomes one JSON object, which the format `json` reads: the store has one way in for
//! documents, the quarantine keeps a text that can be replayed, and a mapping is a function from
//! bytes to text. Names follow one rule: a record's own fields keep their names, and a name that
//! the mapping itself uses (`time`, `line`, …) gets the name of its place before it
//! (`labels.line`), whether or not this record uses it. So a field's column never depends on other
//! records.

pub mod elastic;
pub mod hec;
pub mod journald;
pub mod loki;
mod names;
mod object;
pub mod otlp;
#[cfg(test)]
mod testing;

use std::collections::HashMap;

pub use self::names::stream_name;
use crate::source::Records;

/// The records of a body for one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamRecords {
    /// The stream, spelled as a store spells it.
    pub stream: String,
    /// Its records, in the order of the body.
    pub records: Records,
}

/// The records of a body by stream, in the order in which the streams appear.
#[derive(Debug, Default)]
pub(crate) struct RecordsByStream {
    streams: Vec<StreamRecords>,
    ranks: HashMap<String, usize>,
}

impl RecordsByStream {
    /// Returns the rank of a stream and its records.
    pub(crate) fn of(&mut self, stream: &str) -> (usize, &mut Records) {
        let rank = match self.ranks.get(stream) {
            Some(&rank) => rank,
            None => {
                let rank = self.streams.len();
                self.ranks.insert(stream.to_owned(), rank);
                self.streams.push(StreamRecords {
                    stream: stream.to_owned(),
                    records: Records::default(),
                });
                rank
            }
        };
        (rank, &mut self.streams[rank].records)
    }

    /// Returns the streams that have records.
    pub(crate) fn into_streams(self) -> Vec<StreamRecords> {
        self.streams
    }
}

/// Returns whether a record's field has a name of the mapping's own or one below it, or a name that
/// makes it the event's `_id`.
fn is_own(own: &[&str], name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    own.contains(&first) || first == storage::ID || name.is_empty()
}
