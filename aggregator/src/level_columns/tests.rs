use super::*;
use crate::testing::{default_definitions, definition};
use serde_json::json;

#[test]
fn the_columns_are_those_of_the_manual() {
    let stats = &default_definitions()[0];
    let names = |level| {
        columns(stats, level)
            .iter()
            .map(|f| f.name().clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(Level::Minute),
        ["bucket", "bucket_end", "site", "path", "hits", "bytes"]
    );
    let of_size = [
        "count", "sum", "mean", "min", "max", "p50", "p90", "p95", "p99", "overflow",
    ];
    let mut hourly = names(Level::Minute);
    hourly.extend(of_size.iter().map(|s| format!("size_{s}")));
    hourly.extend(["size", "visitors", "visitors_state"].map(str::to_owned));
    assert_eq!(names(Level::Hour), hourly);
    let entries = ["hits", "size_p99", "visitors_state", "path", "nothing"]
        .map(|c| column_entry_level(stats, c));
    assert_eq!(
        entries,
        [
            Some(Level::Minute),
            Some(Level::Hour),
            Some(Level::Hour),
            Some(Level::Minute),
            None
        ]
    );
}

#[test]
fn a_measure_with_the_name_of_an_exact_column_keeps_it() {
    let definition = definition(json!({ "stream": "events", "measures": {
        "hits": "count", "bytes": "sum(response_size)", "bytes_exact": "max(response_size)",
    }}));
    assert_eq!(exact_column(&definition, "bytes"), None);
    assert!(exact_columns(&definition, Level::Day).is_empty());
}
