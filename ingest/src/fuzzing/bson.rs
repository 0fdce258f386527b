//! BSON documents, as clients of MongoDB send them.

use arrow::array::AsArray;
use bson::Document;
use storage::REST;

use super::{RECEIVED_US, choices, received};
use crate::options::ParseOptions;
use crate::{Format, Parser, Records};

/// Parses a document: the first byte is the format. Both of two equal documents are events, or both
/// are quarantined with their bytes; an event is a document for `bson`, and so is its `_rest`.
pub fn bson(bytes: &[u8]) {
    let ([format], document) = choices(bytes);
    let format = match format % 2 {
        0 => Format::Bson,
        _ => Format::Counters,
    };
    let mut records = Records::default();
    records.push(document);
    records.push(document);
    let mut parser = Parser::new(ParseOptions {
        format,
        ..received()
    });
    let parsed = parser.parse_items(records.items(RECEIVED_US));
    let parsed = parsed.expect("two documents are not too much");
    let (events, bad) = (parsed.events.num_rows(), parsed.quarantine.len());
    assert!(
        events + bad == 2 && events != 1,
        "{events} events, {bad} bad"
    );
    assert!(parsed.quarantine.iter().all(|item| item.raw == document));
    if events > 0 {
        let read = Document::from_reader(document);
        assert!(read.is_ok(), "{read:?}");
    }
    if let Some(rest) = parsed.events.column_by_name(REST) {
        let rest = rest.as_binary::<i32>().iter().flatten();
        rest.for_each(|rest| drop(Document::from_reader(rest).expect("a document")));
    }
}
