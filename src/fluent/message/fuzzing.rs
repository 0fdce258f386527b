//! Target of the fuzzer: messages of Fluent's forward protocol.
//!
//! `tests/fuzz` includes this file and the reader. The tests of the program replay the corpus.

use super::{Entries, push_packed, push_single, read};
use crate::fluent::msgpack::Tokens;

/// Reads a message, and its entries as records: each is an object of JSON with the tag, or bytes of
/// the message as they came.
pub(crate) fn fluent_message(bytes: &[u8]) {
    let Ok(Some(message)) = read(bytes) else {
        return;
    };
    let mut records = Vec::new();
    let mut push = |record: &[u8]| {
        records.push(record.to_vec());
        true
    };
    let count = match message.entries {
        Entries::Packed(packed) => {
            push_packed(message.tag, packed, &mut push);
            let mut tokens = Tokens::new(packed);
            let mut count = 0;
            while !tokens.is_empty() && tokens.skip().is_ok() {
                count += 1;
            }
            count + usize::from(!tokens.is_empty())
        }
        Entries::Single(pair) => {
            push_single(message.tag, pair, &mut push);
            1
        }
        Entries::Compressed(_) => return,
    };
    assert_eq!(records.len(), count);
    for record in records {
        let is_part = |part: &[u8]| bytes.windows(part.len().max(1)).any(|w| w == part);
        match serde_json::from_slice::<serde_json::Value>(&record) {
            Ok(object) if object["tag"] == message.tag => assert!(object.is_object()),
            _ => assert!(record.is_empty() || is_part(&record), "{record:?}"),
        }
    }
}
