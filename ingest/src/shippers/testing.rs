//! Decoded records as tests compare them.

use serde_json::Value;

use super::StreamRecords;

/// Returns each stream with its records as JSON values; a record that is no JSON is a text.
pub(super) fn values(streams: &[StreamRecords]) -> Vec<(&str, Vec<Value>)> {
    let value = |bytes: &[u8]| match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
    };
    let mut all = Vec::new();
    for StreamRecords { stream, records } in streams {
        let records = records.items(0).map(|item| value(item.bytes)).collect();
        all.push((stream.as_str(), records));
    }
    all
}
