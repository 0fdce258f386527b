//! Records as products write them, each with its whole event.

use serde_json::Value;

use crate::Format;
use crate::formats::documents::testing::{options, parsed};

/// A record, and its event.
pub(super) type Case = (&'static str, Value);

/// Makes cases of `record => { event }`.
macro_rules! cases {
    ($($record:literal => { $($event:tt)* }),* $(,)?) => {
        Vec::from([$(($record, serde_json::json!({ $($event)* }))),*])
    };
}
pub(super) use cases;

/// Checks that records behind some directives are these events, and nothing else.
#[track_caller]
pub(super) fn assert_cases(directives: &str, cases: &[Case]) {
    let records = cases.iter().map(|(record, _)| format!("{record}\n"));
    let text = directives.to_owned() + &records.collect::<String>();
    let (events, bad) = parsed(options(Format::W3c), text.as_bytes());
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(events.len(), cases.len());
    for (event, (record, expected)) in events.iter().zip(cases) {
        assert_eq!(event, expected, "{record}");
    }
}
