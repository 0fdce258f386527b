//! The parts of a request that a selection may reveal.

use super::*;
use crate::{Format, ParseOptions, Parser};

fn fields(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn keep(names: &[&str]) -> Selection {
    Selection {
        keep: Some(fields(names)),
        ..Selection::default()
    }
}

fn drop(names: &[&str]) -> Selection {
    Selection {
        drop: fields(names),
        ..Selection::default()
    }
}

/// The columns of two lines, one of them with a request that has no parts.
fn stored(selection: Selection) -> RecordBatch {
    let lines = "h - - [01/Mar/2024:00:00:00 +0000] \"GET /a?s=1 HTTP/1.1\" 200 5\n\
                 h - - [01/Mar/2024:00:00:00 +0000] \"garbage\" 400 5\n";
    let options = ParseOptions {
        format: Format::Common,
        received_us: i64::MAX / 2,
        selection,
        ..ParseOptions::default()
    };
    let parsed = Parser::new(options)
        .parse(lines.as_bytes())
        .expect("parses");
    assert_eq!(parsed.events.num_rows(), 2);
    parsed.events
}

fn texts(events: &RecordBatch, name: &str) -> Option<Vec<Option<String>>> {
    let column = events.column_by_name(name)?.as_string::<i32>();
    Some(column.iter().map(|v| v.map(str::to_owned)).collect())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_request_kept_without_its_parts_is_stored_whole() {
    let whole = Some(vec![some("GET /a?s=1 HTTP/1.1"), some("garbage")]);
    let alone = stored(keep(&["request"]));
    assert_eq!(texts(&alone, REQUEST), whole);
    assert_eq!(alone.num_columns(), 2, "the time and the request");
    let with_one = stored(keep(&["request", "path"]));
    assert_eq!(texts(&with_one, REQUEST), whole);
    // Its parts give it back: only what has none is stored.
    let parts = stored(keep(&["request", "method", "path", "query", "protocol"]));
    assert_eq!(texts(&parts, REQUEST), Some(vec![None, some("garbage")]));
}

#[test]
fn a_request_tells_nothing_of_a_part_that_is_dropped() {
    for part in PARTS {
        let events = stored(drop(&[part]));
        assert_eq!(texts(&events, REQUEST), None, "{part}");
        assert!(events.column_by_name(part).is_none());
    }
    let other = stored(drop(&["host"]));
    assert_eq!(texts(&other, REQUEST), Some(vec![None, some("garbage")]));
    assert!(other.column_by_name("host").is_none());
    assert!(stored(drop(&[REQUEST])).column_by_name(REQUEST).is_none());
}
