use super::*;
use crate::cells::{Cells, KeyValue, Projection};
use crate::testing::{Event, Random, batch, default_definitions, definition, events, zoned};
use crate::{Error, cascade};
use chrono_tz::Tz;
use serde_json::json;

fn cells(definition: &Definition, level: Level, events: &[Event]) -> Cells {
    let set = cascade(&[definition], &[batch(events)])
        .expect("cells")
        .remove(0);
    set.level(level).expect("the level").clone()
}

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
fn buckets_end_where_the_next_begins() {
    let definition = zoned(&[], Tz::Europe__Berlin, "hour");
    let all = events(&mut Random(31), 300, 5, 1, 1);
    let days = cells(&definition, Level::Day, &all);
    let batch =
        finalise(&definition, Level::Day, &days, &["bucket", "bucket_end"]).expect("columns");
    let of = |column: usize| {
        use arrow::array::AsArray;
        batch
            .column(column)
            .as_primitive::<arrow::datatypes::TimestampMicrosecondType>()
            .values()
            .to_vec()
    };
    let (starts, ends) = (of(0), of(1));
    assert_eq!(starts[1..], ends[..ends.len() - 1]);
    let hours: Vec<i64> = starts
        .iter()
        .zip(&ends)
        .map(|(s, e)| (e - s) / 3_600_000_000)
        .collect();
    assert!(hours.contains(&25) && hours.contains(&24), "{hours:?}");
}

#[test]
fn a_comparison_names_each_difference() {
    let definition = zoned(&["path"], Tz::UTC, "minute");
    let mut all = events(&mut Random(32), 400, 2, 3, 30);
    let right = cells(&definition, Level::Day, &all);
    let size = all
        .iter()
        .position(|e| e.path.is_some() && e.size.is_some())
        .expect("one with a size");
    let path = all[size].path.clone().expect("a path");
    *all[size].size.as_mut().expect("a size") += 1 << 30;
    let left = cells(&definition, Level::Day, &all);
    let found = compare(&definition, Level::Day, &left, &right);
    assert_eq!(found.cells, right.len() as u64);
    assert!(
        found.total >= 1 && found.total == found.shown.len() as u64,
        "{found:?}"
    );
    assert!(
        found
            .shown
            .iter()
            .all(|d| d.key == [KeyValue::Text(path.clone())] && d.left != d.right)
    );
    assert!(found.shown[0].measure.contains("bytes"), "{found:?}");

    let fewer = cells(&definition, Level::Day, &all[..200]);
    let found = compare(&definition, Level::Day, &left, &fewer);
    assert!(
        found
            .shown
            .iter()
            .any(|d| d.measure == "events" || d.right == "absent"),
        "{found:?}"
    );
    assert!(
        found.shown.iter().any(|d| d.measure == "visitors"),
        "{found:?}"
    );
    let nothing = Cells::empty(&definition, Level::Day, &Projection::all(&definition));
    assert_eq!(
        compare(&definition, Level::Day, &left, &nothing).total,
        left.len() as u64
    );
    assert_eq!(
        compare(&definition, Level::Day, &nothing, &nothing).total,
        0
    );
}

#[test]
fn the_shown_differences_are_bounded() {
    let definition = zoned(&["path"], Tz::UTC, "minute");
    let all = events(&mut Random(33), 2_000, 30, 40, 3);
    let minutes = cells(&definition, Level::Minute, &all);
    let nothing = Cells::empty(&definition, Level::Minute, &Projection::all(&definition));
    let mut found = compare(&definition, Level::Minute, &nothing, &minutes);
    assert_eq!(
        (found.total, found.shown.len()),
        (minutes.len() as u64, 100)
    );
    found.add(found.clone());
    assert_eq!(
        (found.total, found.shown.len()),
        (2 * minutes.len() as u64, 100)
    );
}

#[test]
fn what_was_not_read_or_does_not_fit_is_an_error() {
    let definition = zoned(&["path"], Tz::UTC, "minute");
    let mut all = events(&mut Random(34), 30, 1, 1, 3);
    let few = Projection::of_columns(&definition, Level::Day, &["hits"]).expect("columns");
    let days = cells(&definition, Level::Day, &all).filter(&crate::Filter::ALL, &few);
    assert!(finalise(&definition, Level::Day, &days, &["path", "hits"]).is_ok());
    for name in ["bytes", "visitors", "size_p50", "nothing"] {
        assert!(
            matches!(
                finalise(&definition, Level::Day, &days, &[name]),
                Err(Error::Invalid { .. })
            ),
            "{name}"
        );
    }
    all.iter_mut().for_each(|e| e.size = Some(i64::MAX));
    let days = cells(&definition, Level::Day, &all);
    assert!(finalise(&definition, Level::Day, &days, &["size_max"]).is_ok());
    let error = finalise(&definition, Level::Day, &days, &["bytes"])
        .expect_err("too large")
        .to_string();
    assert!(error.contains("64 bits"), "{error}");
}

#[test]
fn merging_nothing_or_one_changes_nothing() {
    let definition = definition(
        json!({ "stream": "events", "by": ["site", "status"], "measures": {
            "hits": "count", "mean": "mean(response_size)", "visitors": { "distinct": "host" },
        }}),
    );
    let all = events(&mut Random(35), 500, 2, 3, 400);
    let days = cells(&definition, Level::Day, &all);
    let nothing = merge(&definition, Level::Day, &[]);
    assert!(nothing.is_empty());
    for inputs in [
        &[&days][..],
        &[&nothing, &days],
        &[&days, &nothing, &nothing],
    ] {
        assert_eq!(
            compare(
                &definition,
                Level::Day,
                &merge(&definition, Level::Day, inputs),
                &days
            )
            .total,
            0
        );
    }
    let twice = merge(&definition, Level::Day, &[&days, &days]);
    assert_eq!((twice.len(), twice.events()), (days.len(), 1_000));
}
