use super::*;
use crate::calendar::Level;
use crate::cells::{Cells, Grain, Projection};
use crate::definition::Definition;
use crate::keys::KeyValue;
use crate::testing::{AccessEvent, TestRandom, batch, definition, events, filtered, zoned};
use crate::{Error, Filter, TileFile, cascade, encode};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal128Type, Float64Type, Int64Type};
use chrono_tz::Tz;
use proptest::prelude::*;
use serde_json::json;

fn cells(definition: &Definition, level: Level, events: &[AccessEvent]) -> Cells {
    let set = cascade(&[definition], &[batch(events)])
        .expect("cells")
        .remove(0);
    set.level(level).expect("the level").clone()
}

#[test]
fn buckets_end_where_the_next_begins() {
    let definition = zoned(&[], Tz::named("Europe/Berlin"), "hour");
    let all = events(&mut TestRandom(31), 300, 5, 1, 1);
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
    let mut all = events(&mut TestRandom(32), 400, 2, 3, 30);
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
    let all = events(&mut TestRandom(33), 2_000, 30, 40, 3);
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
    let mut all = events(&mut TestRandom(34), 30, 1, 1, 3);
    let few = Projection::of_columns(&definition, Level::Day, &["hits"]).expect("columns");
    let days = cells(&definition, Level::Day, &all).filter(&Filter::ALL, &few);
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
}

#[test]
fn a_sum_beyond_64_bits_is_null_in_its_cell_alone_and_stands_in_its_exact_column() {
    let definition = definition(json!({ "stream": "events", "by": ["path"], "measures": {
        "hits": "count", "bytes": "sum(response_size)", "size": { "histogram": "response_size" },
    }}));
    let mut all = events(&mut TestRandom(34), 30, 1, 2, 1);
    for (nth, event) in all.iter_mut().enumerate() {
        event.path = Some(if nth % 2 == 0 { "/large" } else { "/small" }.into());
        event.size = Some(if nth % 2 == 0 { i64::MAX } else { 7 });
    }
    let years = cells(&definition, Level::Year, &all);
    let years = merge(&definition, Level::Year, &[&years]);
    let names = ["path", "bytes", "size_sum", "bytes_exact", "size_sum_exact"];
    let rows = finalise(&definition, Level::Year, &years, &names).expect("reads");
    let large = i128::from(i64::MAX) * 15;
    for (whole, exact) in [(1, 3), (2, 4)] {
        let whole = rows.column(whole).as_primitive::<Int64Type>();
        let exact = rows.column(exact).as_primitive::<Decimal128Type>();
        assert!(whole.is_null(0) && whole.value(1) == 7 * 15);
        assert_eq!((exact.value(0), exact.value(1)), (large, 7 * 15));
    }
    let refused = TooLarge::Refused;
    let error = finalise_by_bucket(&definition, Level::Year, &years, &["bytes"], refused)
        .expect_err("too large")
        .to_string();
    let wanted = ["64 bits", "bytes_exact", &large.to_string(), "2024"];
    assert!(wanted.iter().all(|w| error.contains(w)), "{error}");
    let exact = finalise_by_bucket(&definition, Level::Year, &years, &names[3..], refused);
    assert!(exact.is_ok(), "{exact:?}");
}

#[test]
fn merging_nothing_or_one_changes_nothing() {
    let definition = definition(
        json!({ "stream": "events", "by": ["site", "status"], "measures": {
            "hits": "count", "mean": "mean(response_size)", "visitors": { "distinct": "host" },
        }}),
    );
    let all = events(&mut TestRandom(35), 500, 2, 3, 400);
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

/// Returns the cells of some events after a write to a tile file and a read.
fn through_a_tile(definition: &Definition, level: Level, events: &[AccessEvent]) -> Cells {
    let set = cascade(&[definition], &[batch(events)])
        .expect("cells")
        .remove(0);
    let image = encode(definition, &set);
    let file = TileFile::open(definition.clone().into(), image.bytes.into()).expect("a tile");
    let sections = image.sections.iter().filter(|s| s.level == level.as_str());
    let read = |section| file.read(section, &Projection::all(definition), &Filter::ALL);
    let cells: Vec<Cells> = sections
        .map(read)
        .collect::<crate::Result<_>>()
        .expect("cells");
    merge(definition, level, &cells.iter().collect::<Vec<_>>())
}

/// Computes the variance by its definition. The distances are exact, and squares are only added, so
/// no digits cancel.
fn variance_of_distances(values: &[i64]) -> Option<f64> {
    let n = values.len() as f64;
    let distances = values
        .iter()
        .flat_map(|a| values.iter().map(|b| a.abs_diff(*b) as f64));
    (values.len() > 1).then(|| distances.map(|d| d * d).sum::<f64>() / (2.0 * n * (n - 1.0)))
}

fn any_size() -> impl Strategy<Value = Option<i64>> {
    let edges = prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), Just(-1), Just(1)];
    prop::option::weighted(0.9, prop_oneof![edges, any::<i64>(), 0..2_000_i64])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_order_and_bracketing_of_merges_gives_the_same_bytes(
        seed in any::<u64>(),
        sizes in prop::collection::vec(any_size(), 1..60),
    ) {
        let mut random = TestRandom(seed);
        let mut all = events(&mut random, sizes.len(), 2, 3, 200);
        all.iter_mut().zip(&sizes).for_each(|(event, size)| event.size = *size);
        let definition = filtered(&["status"], Tz::UTC, "hour");
        for level in [Level::Minute, Level::Day, Level::Year] {
            let once = cells(&definition, level, &all);
            let mut pieces = Vec::new();
            let mut rest = &all[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
                pieces.push(through_a_tile(&definition, level, piece));
                rest = after;
            }
            while pieces.len() > 1 {
                let one = pieces.swap_remove(random.below(pieces.len() as u64) as usize);
                let other = pieces.swap_remove(random.below(pieces.len() as u64) as usize);
                pieces.push(merge(&definition, level, &[&one, &other]));
            }
            let found = compare(&definition, level, &pieces[0], &once);
            prop_assert_eq!((found.total, found.cells), (0, once.len() as u64), "{:?}", found);
        }
    }

    #[test]
    fn a_coarser_grain_gives_the_cells_of_events_that_lack_what_it_leaves_out(
        seed in any::<u64>(),
        count in 1..80_usize,
        keys in prop::collection::vec(any::<bool>(), 3),
        buckets in any::<bool>(),
    ) {
        let mut random = TestRandom(seed);
        let all = events(&mut random, count, 2, 3, 200);
        let definition = definition(json!({
            "stream": "events", "by": ["site", "status", "path"], "measures": {
                "hits": "count", "bytes": "sum(response_size)", "spread": "variance(response_size)",
                "size": { "histogram": "response_size" }, "visitors": { "distinct": "host" },
            },
        }));
        let mut lacking = all.clone();
        let first = all.iter().map(|e| e.time).min().expect("an event");
        for event in &mut lacking {
            event.site = event.site.take().filter(|_| keys[0]);
            event.status = event.status.filter(|_| keys[1]);
            event.path = event.path.take().filter(|_| keys[2]);
            if !buckets {
                event.time = first;
            }
        }
        let grain = Grain { buckets, keys };
        for level in [Level::Minute, Level::Day, Level::Year] {
            let at = random.below(all.len() as u64) as usize;
            let pieces = [&all[..at], &all[at..]].into_iter().filter(|piece| !piece.is_empty());
            let pieces = pieces.map(|piece| through_a_tile(&definition, level, piece));
            let pieces: Vec<Cells> = pieces.collect();
            let found = merge_to(&grain, &definition, level, &pieces.iter().collect::<Vec<_>>());
            let expected = cells(&definition, level, &lacking);
            let compared = compare(&definition, level, &found, &expected);
            prop_assert_eq!((compared.total, compared.cells), (0, expected.len() as u64), "{:?}", compared);
        }
    }

    #[test]
    fn a_variance_is_that_of_its_values_to_the_ends_of_64_bits(
        sizes in prop::collection::vec(any_size(), 1..60),
    ) {
        let mut all = events(&mut TestRandom(36), sizes.len(), 1, 1, 1);
        // About half of the events lie in one minute, so that both events and cells are added up.
        for (event, size) in all.iter_mut().zip(&sizes) {
            event.size = *size;
            if event.time % 2 == 0 {
                event.time = 1_729_814_400_000_000;
            }
        }
        let definition = filtered(&[], Tz::UTC, "hour");
        let years = through_a_tile(&definition, Level::Year, &all);
        let read = finalise(&definition, Level::Year, &years, &["spread"]).expect("a column");
        let spread = read.column(0).as_primitive::<Float64Type>();
        let found = spread.is_valid(0).then(|| spread.value(0));
        let values: Vec<i64> = sizes.iter().copied().flatten().collect();
        match (found, variance_of_distances(&values)) {
            (Some(found), Some(expected)) => {
                prop_assert!((found - expected).abs() <= 1e-12 * expected, "{found} {expected}");
            }
            (found, expected) => prop_assert_eq!(found, expected),
        }
    }
}
