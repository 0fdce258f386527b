//! Positions of producers, as records of a topic.
//!
//! The key of a record is the name of the producer, the value a JSON object: how far its content
//! was taken, the hash of that, and the states before it. A compacted topic keeps the newest of
//! each.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use storage::{Identity, SourcePosition};

/// States of a producer that are remembered. An older one recognises a copy that was not finished.
const STATES_MAX: usize = 16;
/// The beginning of the keys of markers; no producer's name begins so.
const MARKER: &str = "marker:";

/// The positions of all producers of a shipper.
#[derive(Debug, Default)]
pub(super) struct Positions(BTreeMap<String, VecDeque<SourcePosition>>);

/// The place of a range beside what is known of its producer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RangePlace {
    Next,
    /// The topic has it.
    Known,
    /// It fits nowhere, with the reason.
    Conflict(String),
}

/// The value of a record of a position.
#[derive(Debug, Serialize, Deserialize)]
struct PositionValue {
    /// Bytes taken, and the xxh3-64 of them.
    to: u64,
    content: String,
    /// The states before, the newest last.
    before: Vec<(u64, String)>,
    /// The place of the last batch: its partition, and the offsets of its first record and of the
    /// last. For those who search; a shipper does not read them.
    partition: i32,
    offsets: Option<(i64, i64)>,
}

/// The place of a batch in the topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchPlace {
    pub(super) partition: i32,
    /// The offsets of the first record and of the last; none of a batch of empty lines.
    pub(super) offsets: Option<(i64, i64)>,
}

/// A record of the topic of positions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PositionRecord {
    Position(String, VecDeque<SourcePosition>),
    /// A marker, with its value.
    Marker(String),
}

impl Positions {
    pub(super) fn names(&self, prefix: &str) -> Vec<String> {
        let from = self.0.range(prefix.to_owned()..);
        let named = from.take_while(|(name, _)| name.starts_with(prefix));
        named.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn states(&self, producer: &str) -> Vec<SourcePosition> {
        let states = self.0.get(producer);
        states.into_iter().flatten().copied().collect()
    }

    /// Returns where a range stands. `Next` is the answer for a producer that is not known,
    /// wherever its range begins: a copy goes on under a name of its own.
    pub(super) fn place(&self, producer: &str, from: u64, last: SourcePosition) -> RangePlace {
        let Some(states) = self.0.get(producer) else {
            return RangePlace::Next;
        };
        match states.back().map_or(0, |state| state.to) {
            end if from == end => RangePlace::Next,
            _ if states.contains(&last) => RangePlace::Known,
            end => RangePlace::Conflict(format!(
                "producer {producer} sent {from}..{}, but the topic has its lines up to {end}",
                last.to
            )),
        }
    }

    /// Forgets a producer whose record has no value.
    pub(super) fn remove(&mut self, producer: &str) {
        self.0.remove(producer);
    }

    /// Takes over what a record says.
    pub(super) fn set(&mut self, producer: String, states: VecDeque<SourcePosition>) {
        self.0.insert(producer, states);
    }

    /// Returns the states of a producer with one more.
    pub(super) fn behind(&self, producer: &str, last: SourcePosition) -> VecDeque<SourcePosition> {
        let mut states = self.0.get(producer).cloned().unwrap_or_default();
        states.push_back(last);
        while states.len() > STATES_MAX {
            states.pop_front();
        }
        states
    }
}

/// Returns the producer, the beginning and the state behind a batch of a file.
pub(super) fn range_of(identity: &Identity) -> (&str, u64, SourcePosition) {
    match identity {
        Identity::Range {
            producer,
            from,
            to,
            content,
        } => {
            let (to, content) = (*to, *content);
            (producer, *from, SourcePosition { to, content })
        }
        Identity::Key { .. } | Identity::Settles { .. } => {
            unreachable!("BUG: a shipper sends ranges")
        }
    }
}

/// Returns the value of the record that says how far a producer was taken.
pub(super) fn value_of(states: &VecDeque<SourcePosition>, place: BatchPlace) -> String {
    let hex = |state: &SourcePosition| (state.to, format!("{:016x}", state.content));
    let mut before: Vec<_> = states.iter().map(hex).collect();
    let (to, content) = before.pop().unwrap_or_default();
    let value = PositionValue {
        to,
        content,
        before,
        partition: place.partition,
        offsets: place.offsets,
    };
    serde_json::to_string(&value).expect("BUG: a position is JSON")
}

/// Returns the key of the markers of a shipper.
pub(super) fn marker_key(shipper: &str) -> String {
    format!("{MARKER}{shipper}")
}

/// Reads a record.
///
/// # Errors
/// If it is none that a shipper wrote.
pub(super) fn parse(key: &[u8], value: &[u8]) -> Result<PositionRecord, String> {
    let key = std::str::from_utf8(key).map_err(|_| "its key is no text".to_owned())?;
    if key.starts_with(MARKER) {
        let value = String::from_utf8_lossy(value).into_owned();
        return Ok(PositionRecord::Marker(value));
    }
    let value: PositionValue = serde_json::from_slice(value).map_err(|e| e.to_string())?;
    let states = value.before.into_iter().chain([(value.to, value.content)]);
    let read = |(to, content): (u64, String)| match u64::from_str_radix(&content, 16) {
        Ok(content) => Ok(SourcePosition { to, content }),
        Err(_) => Err(format!("{content:?} is no hash")),
    };
    let states = states.map(read).collect::<Result<_, _>>()?;
    Ok(PositionRecord::Position(key.to_owned(), states))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(to: u64) -> SourcePosition {
        SourcePosition {
            to,
            content: to.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let mut positions = Positions::default();
        let name = "file:logs:web1:12-0123456789abcdef";
        for to in (10..400).step_by(10) {
            assert_eq!(positions.place(name, to - 10, at(to)), RangePlace::Next);
            let states = positions.behind(name, at(to));
            let place = BatchPlace {
                partition: 3,
                offsets: Some((0, 9)),
            };
            let value = value_of(&states, place);
            let read = parse(name.as_bytes(), value.as_bytes()).expect("a position");
            assert_eq!(read, PositionRecord::Position(name.into(), states.clone()));
            positions.set(name.into(), states);
        }
        let states = positions.states(name);
        assert_eq!(states.len(), STATES_MAX);
        assert_eq!(states.last(), Some(&at(390)));
        assert_eq!(positions.place(name, 380, at(390)), RangePlace::Known);
        for (from, to) in [(380, 391), (385, 390), (400, 410), (0, 10)] {
            let place = positions.place(name, from, at(to));
            let is_known = from == 385;
            assert_eq!(matches!(place, RangePlace::Known), is_known, "{place:?}");
            assert_eq!(matches!(place, RangePlace::Conflict(_)), !is_known);
        }
        assert_eq!(positions.names("file:logs:web1:"), [name]);
        assert!(positions.names("file:logs:web2:").is_empty());
        assert!(positions.names("file:logs:w").len() == 1);
    }

    #[test]
    fn what_no_shipper_wrote_is_an_error() {
        let marker = marker_key("web1");
        let read = parse(marker.as_bytes(), b"17").expect("a marker");
        assert_eq!(read, PositionRecord::Marker("17".into()));
        for (key, value) in [
            (&b"\xff"[..], &b"{}"[..]),
            (b"file:a", b"no JSON"),
            (b"file:a", b"{}"),
            (
                b"file:a",
                br#"{"to":1,"content":"zz","before":[],"partition":0,"offsets":null}"#,
            ),
        ] {
            assert!(parse(key, value).is_err(), "{key:?} {value:?}");
        }
    }
}
