//! Events of lines as JSON, for the tests of formats.

use serde_json::Value;
use storage::StreamKind;

use crate::explain::first_event;
use crate::{Format, ParseOptions, Parser};

/// 2026-11-26T12:00:00Z.
pub(crate) const RECEIVED_US: i64 = 1_795_694_400_000_000;

pub(crate) fn options(format: Format) -> ParseOptions {
    ParseOptions {
        format,
        received_us: RECEIVED_US,
        ..ParseOptions::default()
    }
}

/// Returns the events, and of each quarantined line its reason and detail.
pub(crate) fn parsed(options: ParseOptions, lines: &[u8]) -> (Vec<Value>, Vec<String>) {
    let parsed = Parser::new(options).parse(lines).unwrap();
    let rows = parsed.events.num_rows();
    assert_eq!(
        parsed.lines as usize,
        rows + parsed.quarantine.len() + parsed.empty as usize
    );
    let event = |row| first_event(&parsed.events.slice(row, 1), StreamKind::Documents).unwrap();
    let events = (0..rows).map(|row| Value::Object(event(row)));
    let bad = parsed.quarantine.iter();
    let bad = bad.map(|item| format!("{}: {}", item.reason, item.detail));
    (events.collect(), bad.collect())
}

/// Returns the event of a line.
#[track_caller]
pub(crate) fn event(format: Format, line: &str) -> Value {
    let (mut events, bad) = parsed(options(format), line.as_bytes());
    assert!(
        bad.is_empty() && events.len() == 1,
        "{line}: {events:?} {bad:?}"
    );
    events.remove(0)
}

/// Returns the reason and the detail for which a line is quarantined.
#[track_caller]
pub(crate) fn refusal(format: Format, line: &str) -> String {
    let (events, mut bad) = parsed(options(format), line.as_bytes());
    assert!(
        events.is_empty() && bad.len() == 1,
        "{line}: {events:?} {bad:?}"
    );
    bad.remove(0)
}

/// Checks some fields of the event of a line; one that is null here is none there.
#[track_caller]
pub(crate) fn assert_fields(format: Format, line: &str, expected: Value) {
    let event = event(format, line);
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(
            event.get(name).unwrap_or(&Value::Null),
            value,
            "{name} of {line}"
        );
    }
}
