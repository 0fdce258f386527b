//! Records that were read and wait to become a batch: copies, of which those of librdkafka need not
//! be kept.

use std::fmt::Write;
use std::ops::Range;

use ingest::SourceItem;
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};
use serde_json::{Map, Value};
use storage::{Clock, SystemClock};
use xxhash_rust::xxh3::Xxh3Default;

/// Records of one partition, in the order of their offsets.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Values, keys and headers.
    bytes: Vec<u8>,
    records: Vec<Record>,
}

/// One record; ranges of bytes are its parts.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) offset: u64,
    /// Timestamp as Kafka has it, in milliseconds; -1 for none.
    time_ms: i64,
    /// Time of receipt: the timestamp, unless that is none or later than now.
    received_us: i64,
    /// `None` for a tombstone.
    value: Option<Range<usize>>,
    key: Option<Range<usize>>,
    /// The headers as one JSON object.
    headers: Option<Range<usize>>,
}

impl Records {
    /// Takes a copy of a record.
    pub(super) fn add(&mut self, offset: u64, message: &BorrowedMessage<'_>) {
        let time_ms = time_ms(message);
        let now_us = SystemClock.now_us();
        let stamped = Some(time_ms.saturating_mul(1000)).filter(|us| (1..=now_us).contains(us));
        let value = message.payload().map(|value| self.copy(value));
        let key = message.key().map(|key| self.copy(key));
        let headers = message.headers().filter(|headers| headers.count() > 0);
        let headers = headers.map(|headers| {
            let pairs = headers.iter().map(|header| (header.key, header.value));
            self.copy(as_json(pairs).as_bytes())
        });
        self.records.push(Record {
            offset,
            time_ms,
            received_us: stamped.unwrap_or(now_us),
            value,
            key,
            headers,
        });
    }

    fn copy(&mut self, part: &[u8]) -> Range<usize> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(part);
        begin..self.bytes.len()
    }

    /// Returns the bytes that the records take.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.records.len() * size_of::<Record>()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Forgets the records, and gives back the memory of unusually many.
    pub(super) fn clear(&mut self, keep_bytes: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep_bytes);
        self.records.clear();
    }

    pub(super) fn last(&self, range: &Range<usize>) -> &Record {
        &self.records[range.end - 1]
    }

    /// Returns the fingerprint of a record.
    pub(super) fn fingerprint(&self, record: &Record) -> u64 {
        let part = |range: &Option<Range<usize>>| range.clone().map(|range| &self.bytes[range]);
        let (key, value) = (part(&record.key), part(&record.value));
        fingerprint(record.offset, record.time_ms, key, value)
    }

    /// Returns the records with values, for a parser.
    pub(super) fn items(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = SourceItem<'_>> + Clone {
        self.records[range].iter().filter_map(|record| {
            Some(SourceItem {
                bytes: without_end(&self.bytes[record.value.clone()?]),
                received_us: record.received_us,
                line: 0,
                byte: record.offset,
                sender: None,
            })
        })
    }

    /// Returns the keys and the headers of the records with values.
    pub(super) fn attributes(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (Option<String>, Option<String>)> {
        let with_values = self.records[range].iter().filter(|r| r.value.is_some());
        with_values.map(|record| {
            let part = |range: &Option<Range<usize>>| {
                let bytes = &self.bytes[range.clone()?];
                Some(text_of(bytes))
            };
            (part(&record.key), part(&record.headers))
        })
    }

    /// Returns the bytes of the values.
    pub(super) fn value_bytes(&self, range: Range<usize>) -> usize {
        let values = self.records[range].iter().filter_map(|r| r.value.as_ref());
        values.map(Range::len).sum()
    }

    /// BatchCounts the records without values.
    pub(super) fn tombstones(&self, range: Range<usize>) -> usize {
        let none = |record: &&Record| record.value.is_none();
        self.records[range].iter().filter(none).count()
    }
}

/// Returns the fingerprint of a record that librdkafka has: not 0, which stands for none.
pub(super) fn fingerprint_of(offset: u64, message: &BorrowedMessage<'_>) -> u64 {
    fingerprint(offset, time_ms(message), message.key(), message.payload())
}

fn time_ms(message: &BorrowedMessage<'_>) -> i64 {
    message.timestamp().to_millis().unwrap_or(-1)
}

fn fingerprint(offset: u64, time_ms: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> u64 {
    let mut hasher = Xxh3Default::new();
    hasher.update(&offset.to_le_bytes());
    hasher.update(&time_ms.to_le_bytes());
    for part in [key, value] {
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        hasher.update(&length.to_le_bytes());
        hasher.update(part.unwrap_or_default());
    }
    hasher.digest().max(1)
}

/// Leaves out the end of a line: some producers send lines with it.
fn without_end(value: &[u8]) -> &[u8] {
    let line = value.strip_suffix(b"\n").unwrap_or(value);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns bytes as a text from which they can be had again: UTF-8 as it is, and other bytes, or a
/// text that begins like them, as `\x` and hexadecimal digits.
fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with("\\x") => text.to_owned(),
        _ => {
            let mut text = "\\x".to_owned();
            for byte in bytes {
                // Writing to a string does not fail.
                let _ignored = write!(text, "{byte:02x}");
            }
            text
        }
    }
}

/// Returns headers as a JSON object; a name that comes several times has an array of its values.
fn as_json<'a>(headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>) -> String {
    let mut object = Map::new();
    for (name, value) in headers {
        let value = value.map_or(Value::Null, |value| Value::String(text_of(value)));
        match object.get_mut(name) {
            None => {
                object.insert(name.to_owned(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(one) => *one = Value::Array(vec![one.take(), value]),
        }
    }
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_headers_can_be_had_again_from_their_texts() {
        assert_eq!(text_of("käse".as_bytes()), "käse");
        assert_eq!(text_of(b"\xff\x00a"), "\\xff0061");
        assert_eq!(text_of(b"\\x00"), "\\x5c783030");
        let headers = [
            ("b", Some(b"1".as_slice())),
            ("a", None),
            ("b", Some(b"\xfe".as_slice())),
            ("b", None),
        ];
        let text = as_json(headers.into_iter());
        assert_eq!(text, r#"{"b":["1","\\xfe",null],"a":null}"#);
    }

    #[test]
    fn a_fingerprint_tells_every_part_of_a_record_apart() {
        let all = [
            fingerprint(1, 2, Some(b"k"), Some(b"v")),
            fingerprint(2, 2, Some(b"k"), Some(b"v")),
            fingerprint(1, 3, Some(b"k"), Some(b"v")),
            fingerprint(1, 2, Some(b"kv"), Some(b"")),
            fingerprint(1, 2, Some(b"kv"), None),
            fingerprint(1, 2, None, Some(b"v")),
            fingerprint(1, 2, Some(b""), Some(b"v")),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
