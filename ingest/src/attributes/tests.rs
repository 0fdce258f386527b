use arrow::array::{Array, AsArray};

use super::*;
use crate::{Method, ParseOptions, Parser};

fn parsed() -> Parsed {
    let options = ParseOptions {
        format: crate::Format::Json,
        ..ParseOptions::default()
    };
    let lines = b"{\"a\":1,\"b\":{\"c\":[1,{\"d\":2}]}}\nbad\n{\"a\":2}\n";
    Parser::new(options).parse(lines).unwrap()
}

fn texts() -> Vec<Option<String>> {
    vec![Some("10.1.2.3".to_owned()), None]
}

#[test]
fn records_that_are_events_are_told_by_their_rank() {
    assert_eq!(
        parsed().are_events().collect::<Vec<_>>(),
        [true, false, true]
    );
}

#[test]
fn an_attribute_is_a_column_unless_the_stream_or_the_event_says_otherwise() {
    let with = |name: &str, selection: &Selection, anonymiser: &Anonymiser| {
        let mut parsed = parsed();
        parsed
            .add_attribute(name, texts(), selection, anonymiser)
            .unwrap();
        parsed.events
    };
    let all = Selection::default();
    let nobody = Anonymiser::default();
    let events = with("key", &all, &nobody);
    let key = events["key"].as_string::<i32>();
    assert_eq!((key.value(0), key.is_null(1)), ("10.1.2.3", true));

    let hidden = Anonymiser::default()
        .with("key", Method::Truncate, None)
        .unwrap();
    let events = with("key", &all, &hidden);
    assert_eq!(events["key"].as_string::<i32>().value(0), "10.1.2.0");

    let selections = [
        Selection {
            keep: Some(vec!["a".to_owned()]),
            ..Selection::default()
        },
        Selection {
            drop: vec!["key".to_owned()],
            ..Selection::default()
        },
    ];
    for selection in selections {
        assert!(
            with("key", &selection, &nobody)
                .column_by_name("key")
                .is_none()
        );
    }
    // A field of the events.
    let events = with("a", &all, &nobody);
    assert_eq!(
        events["a"]
            .as_primitive::<arrow::datatypes::Int64Type>()
            .value(0),
        1
    );
}
