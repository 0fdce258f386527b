//! The Combined format, as a pattern and with a parser of its own.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int16Type, Int64Type};
use proptest::prelude::*;

use super::{TIME, options, parsed};

/// Returns the values of a column as texts.
fn texts(events: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let array = events.column_by_name(name).unwrap();
    let text = |row| match array.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
        _ => array.as_string::<i32>().value(row).to_owned(),
    };
    (0..array.len())
        .map(|row| array.is_valid(row).then(|| text(row)))
        .collect()
}

proptest! {
    /// The Combined format as a pattern reads lines as the parser of Combined does.
    #[test]
    fn combined_as_a_pattern_is_combined(
        host in "[a-z0-9.:-]{1,9}",
        user in "[a-z-]{1,4}",
        request in prop_oneof![
            "GET /[a-z?=&]{0,6} HTTP/1\\.[01]", "[ -!#-\\[\\]-~]{0,12}", Just("-".to_owned()),
        ],
        status in "[0-9]{2,4}",
        size in prop_oneof!["[0-9]{1,4}", Just("-".to_owned())],
        referrer in "([ -!#-\\[\\]-~é]|\\\\[\"x\\\\]){0,8}",
        agent in "([ -!#-\\[\\]-~é]|\\\\[\"x\\\\]){0,8}",
        gap in prop_oneof![Just(" "), Just("  "), Just("")],
    ) {
        let line = format!(
            "{host} - {user} [{TIME}] \"{request}\" {status}{gap}{size} \"{referrer}\" \"{agent}\""
        );
        let [of_parser, of_pattern] =
            ["combined", "apache:combined"].map(|format| parsed(options(format), &line));
        prop_assert_eq!(of_parser.events.num_rows(), of_pattern.events.num_rows(), "{}", line);
        for field in of_parser.events.schema().fields() {
            if field.name() != "time" {
                let name = field.name();
                let both = [&of_parser, &of_pattern].map(|parsed| texts(&parsed.events, name));
                prop_assert_eq!(&both[0], &both[1], "{}: {}", name, line);
            }
        }
    }
}
