use super::*;
use crate::read::{compare, merge};
use crate::testing::{
    TestRandom, batch, default_definitions, definition, events, filtered, is_full, keyed,
    recompute, rows, zoned,
};
use crate::{TileFile, encode};
use chrono_tz::Tz;
use serde_json::json;

/// Splits events at random, cascades each piece, and passes about half of them through a tile file.
fn in_pieces(
    definition: &Definition,
    all: &[crate::testing::AccessEvent],
    random: &mut TestRandom,
) -> Vec<CellSet> {
    let mut sets = Vec::new();
    let mut rest = all;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
        // A piece may itself come in several batches.
        let (a, b) = piece.split_at(random.below(piece.len() as u64) as usize);
        let mut set = cascade(&[definition], &[batch(a), batch(b)])
            .expect("cells")
            .remove(0);
        if random.below(2) == 0 {
            let image = encode(definition, &set);
            let file = TileFile::open(Arc::new(definition.clone()), image.bytes.clone().into())
                .expect("a tile");
            for (level, cells) in &mut set.levels {
                let projection = crate::Projection::all(definition);
                let read: Vec<Cells> = image
                    .sections
                    .iter()
                    .filter(|s| s.level == level.as_str())
                    .map(|s| {
                        file.read(s, &projection, &crate::Filter::ALL)
                            .expect("cells")
                    })
                    .collect();
                *cells = merge(definition, *level, &read.iter().collect::<Vec<_>>());
            }
        }
        sets.push(set);
        rest = after;
    }
    sets
}

fn check(definition: &Definition, all: &[crate::testing::AccessEvent], random: &mut TestRandom) {
    let sets = in_pieces(definition, all, random);
    let whole = cascade(&[definition], &[batch(all)])
        .expect("cells")
        .remove(0);
    for level in definition.levels() {
        let inputs: Vec<&Cells> = sets
            .iter()
            .map(|s| s.level(*level).expect("the level"))
            .collect();
        let merged = merge(definition, *level, &inputs);
        let once = whole.level(*level).expect("the level");
        assert_eq!(merged.events(), all.len() as u64);
        let expected = recompute(definition, *level, all);
        let found = rows(definition, *level, &merged);
        assert_eq!(found.len(), expected.len(), "{level}");
        for (at, row) in &expected {
            assert_eq!(
                found.get(at),
                Some(row),
                "{} {level} {at:?}",
                definition.timezone()
            );
        }
        assert_eq!(rows(definition, *level, once), expected, "{level}");
        let comparison = compare(definition, *level, &merged, once);
        assert_eq!(
            (comparison.total, comparison.cells),
            (0, expected.len() as u64),
            "{comparison:?}"
        );
    }
}

#[test]
fn any_division_of_a_history_reads_as_a_naive_recompute() {
    let mut random = TestRandom(7);
    for zone in [
        Tz::UTC,
        Tz::named("Europe/Berlin"),
        Tz::named("Asia/Kolkata"),
    ] {
        for (len, days, paths, hosts) in [
            (1, 1, 1, 1),
            (60, 3, 4, 9),
            (900, 45, 12, 300),
            (5_000, 4, 6, 2_000),
        ] {
            // The zones differ in their buckets alone, which the shorter histories meet as well.
            if len == 5_000 && zone != Tz::UTC && !is_full() {
                continue;
            }
            let all = events(&mut random, len, days, paths, hosts);
            check(&zoned(&["site", "path"], zone, "hour"), &all, &mut random);
            check(
                &zoned(&["site", "status", "method"], zone, "minute"),
                &all,
                &mut random,
            );
            check(&zoned(&[], zone, "day"), &all, &mut random);
            check(&filtered(&["path"], zone, "hour"), &all, &mut random);
            check(&keyed(zone), &all, &mut random);
            check(&filtered(&["status"], zone, "day"), &all, &mut random);
        }
    }
}

#[test]
fn levels_may_be_left_out() {
    let mut random = TestRandom(8);
    let all = events(&mut random, 500, 500, 5, 40);
    for levels in [
        json!(["hour", "week"]),
        json!(["minute", "year"]),
        json!(["month"]),
        json!(["week", "month", "year"]),
    ] {
        let table = json!({ "stream": "events", "by": ["path"], "levels": levels, "measures": {
            "hits": "count", "size": { "histogram": "response_size", "from": "week" }, "visitors": { "distinct": "host" },
        }});
        check(&definition(table), &all, &mut random);
    }
}

#[test]
fn order_of_events_does_not_show_in_the_tile() {
    let mut random = TestRandom(9);
    let all = events(&mut random, 3_000, 3, 50, 500);
    let mut turned = all.clone();
    turned.reverse();
    for definition in default_definitions() {
        let image = |events: &[crate::testing::AccessEvent]| {
            encode(
                &definition,
                &cascade(&[&definition], &[batch(events)]).expect("cells")[0],
            )
        };
        assert_eq!(image(&all).bytes, image(&turned).bytes);
    }
}

#[test]
fn no_events_make_no_cells() {
    for definition in default_definitions() {
        for batches in [&[][..], &[batch(&[])]] {
            let set = cascade(&[&definition], batches).expect("cells").remove(0);
            assert_eq!(set.events(), 0);
            assert!(
                definition
                    .levels()
                    .iter()
                    .all(|l| set.level(*l).expect("the level").is_empty())
            );
            assert!(encode(&definition, &set).bytes.is_empty());
        }
    }
}

#[test]
fn missing_columns_read_as_null_and_other_types_as_numbers_or_text() {
    let time = arrow::array::TimestampMicrosecondArray::from(vec![1_000_000, 2_000_000, 3_000_000]);
    let first = RecordBatch::try_from_iter([
        ("time", Arc::new(time.clone()) as arrow::array::ArrayRef),
        (
            "user",
            Arc::new(arrow::array::Int64Array::from(vec![Some(5), None, Some(5)])) as _,
        ),
        (
            "ms",
            Arc::new(arrow::array::Float64Array::from(vec![
                Some(0.25),
                Some(f64::NAN),
                Some(2.5),
            ])) as _,
        ),
    ])
    .expect("a batch");
    let second = RecordBatch::try_from_iter([
        ("time", Arc::new(time) as arrow::array::ArrayRef),
        (
            "user",
            Arc::new(arrow::array::StringViewArray::from(vec!["5", "x", "5"])) as _,
        ),
        (
            "ms",
            Arc::new(arrow::array::Int64Array::from(vec![1, 2, 3])) as _,
        ),
    ])
    .expect("a batch");
    let table: crate::RollupTable = serde_json::from_value(json!({
        "stream": "events", "by": ["user"], "levels": ["day"],
        "measures": { "hits": "count", "total": "sum(ms)", "spread": "variance(ms)", "ms": { "histogram": "ms" }, "users": { "distinct": "user" } },
    }))
    .expect("a table");
    let name = storage::Name::new("sessions").expect("a name");
    let definition = table
        .resolve(&name, storage::StreamKind::Documents)
        .expect("a definition");
    let set = cascade(&[&definition], &[first, second])
        .expect("cells")
        .remove(0);
    let cells = set.level(Level::Day).expect("days");
    let names = [
        "user", "hits", "total", "spread", "ms_count", "ms_min", "ms_p99", "users",
    ];
    let read = crate::finalise(&definition, Level::Day, cells, &names).expect("columns");
    let text = arrow::util::pretty::pretty_format_batches(&[read])
        .expect("text")
        .to_string();
    let rows: Vec<&str> = text.lines().skip(3).take(3).collect();
    // The integer 5 and the text "5" are one key, but two distinct values.
    assert_eq!(
        rows,
        [
            "|      | 1    |       |          | 0        |        |        | 0     |",
            "| 5    | 4    | 6.75  | 1.640625 | 4        | 0.25   | 3.0    | 2     |",
            "| x    | 1    | 2.0   |          | 1        | 2.0    | 2.0    | 1     |",
        ],
        "{text}"
    );
}

#[test]
fn events_without_time_are_refused() {
    let batch = batch(&events(&mut TestRandom(1), 3, 1, 1, 1))
        .project(&[1, 2])
        .expect("columns");
    let definitions = default_definitions();
    assert!(cascade(&[&definitions[0]], &[batch]).is_err());
}
