//! Compares the key limit with a naive implementation: in one cascade, with events in any order,
//! and in whole histories.

mod histories;

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{RecordBatch, UInt64Array};
use chrono_tz::Tz;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::by_day::Firsts;
use super::*;
use crate::calendar::Bucket;
use crate::cascade::cascade;
use crate::keys::KeyValue;
use crate::testing::{
    AccessEvent, TestRandom, batch, counted_under, definition, events, other, recompute, rows,
};

const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "Asia/Kolkata"];

#[test]
fn only_sections_of_the_same_days_add_up() {
    let section = |first: i64, last: i64, densest: u64| storage::Section {
        level: "day".into(),
        partition_us: first,
        bucket_min_us: first,
        bucket_max_us: last,
        cells: 10 * densest,
        densest,
        events: 0,
        offset: 0,
        len: 0,
    };
    let check = |sections: &[storage::Section], keys: u64| {
        assert_eq!(before::densest(sections.iter()), keys);
    };
    check(&[], 0);
    check(&[section(0, 9, 5), section(10, 19, 7)], 7);
    check(&[section(0, 10, 5), section(10, 19, 7)], 12);
    check(&[section(0, 30, 5), section(5, 6, 1), section(8, 9, 3)], 8);
    // A section that does not record its densest day counts with all its cells.
    check(&[section(0, 9, 5), section(3, 3, 0), section(0, 0, 2)], 7);
}

/// Returns a rollup's table with three measures.
fn table(by: &Value, zone: Tz, max_keys: u64) -> Value {
    json!({
        "stream": "events", "by": by, "timezone": zone.name(), "max_keys": max_keys,
        "measures": {
            "hits": "count", "bytes": "sum(response_size)",
            "visitors": { "distinct": "host", "from": "hour" },
        },
    })
}

/// Returns three lists of keys: of one text, of text and integer, and of expressions.
fn keys() -> [Value; 3] {
    [
        json!(["path"]),
        json!(["site", "status"]),
        json!([
            { "name": "class", "expr": "status / 100" },
            { "name": "even", "expr": "regexp_capture(path, '([0-9]*[02468])$')" },
        ]),
    ]
}

/// Returns events; some of them have `(other)` as their own key.
fn with_others(random: &mut TestRandom, len: usize, days: u64, paths: u64) -> Vec<AccessEvent> {
    let mut all = events(random, len, days, paths, 40);
    for event in &mut all {
        if random.below(8) == 0 {
            event.path = Some(OTHER.to_owned());
        }
        if random.below(8) == 0 {
            (event.site, event.status) = (Some(OTHER.to_owned()), None);
        }
    }
    all
}

#[test]
fn the_first_keys_of_a_day_are_admitted_at_every_level() {
    let mut random = TestRandom(11);
    for max_keys in 1..=10 {
        for zone in ZONES.map(Tz::named) {
            for by in keys() {
                let definition = definition(table(&by, zone, max_keys));
                let all = with_others(&mut random, 400, 3, 15);
                let (first, second) = all.split_at(random.below(400) as usize);
                let set = cascade(&[&definition], &[batch(first), batch(second)])
                    .expect("cells")
                    .remove(0);
                for level in definition.levels() {
                    let found = rows(&definition, *level, set.level(*level).expect("the level"));
                    let expected = recompute(&definition, *level, &all);
                    assert_eq!(found, expected, "{zone} {level} {by} {max_keys}");
                }
            }
        }
    }
}

#[test]
fn a_section_that_does_not_say_how_full_its_days_are_counts_with_all_cells() {
    let section = |densest| storage::Section {
        level: "day".to_owned(),
        partition_us: 0,
        bucket_min_us: 0,
        bucket_max_us: 0,
        cells: 9,
        densest,
        events: 9,
        offset: 0,
        len: 1,
    };
    assert_eq!([4, 0].map(|n| before::keys_at_most(&section(n))), [4, 9]);
}

#[test]
fn a_dictionary_holds_only_the_admitted_keys_and_other() {
    let definition = definition(table(&json!(["path"]), Tz::UTC, 4));
    let all = events(&mut TestRandom(3), 900, 1, 200, 5);
    let set = cascade(&[&definition], &[batch(&all)])
        .expect("cells")
        .remove(0);
    let days = set.level(Level::Day).expect("days");
    assert_eq!((days.keys.len, days.len()), (5, 5));
}

/// Returns the admitted keys of each day by the naive implementation.
fn naive_admitted(
    definition: &Definition,
    all: &[AccessEvent],
) -> BTreeMap<i64, BTreeSet<Vec<KeyValue>>> {
    let mut admitted: BTreeMap<i64, BTreeSet<Vec<KeyValue>>> = BTreeMap::new();
    for (event, key) in all.iter().zip(counted_under(definition, all)) {
        let day = definition.calendar().bucket(Level::Day, event.time);
        let admitted = admitted.entry(day.start_us).or_default();
        if key != other(definition) {
            admitted.insert(key);
        }
    }
    admitted
}

/// Returns a batch with sequence numbers.
fn numbered(events: &[(u64, AccessEvent)]) -> RecordBatch {
    let plain: Vec<AccessEvent> = events.iter().map(|(_, event)| event.clone()).collect();
    let seqs: UInt64Array = events.iter().map(|(seq, _)| Some(*seq)).collect();
    let batch = batch(&plain);
    let mut fields = batch.schema().fields().to_vec();
    fields.push(Arc::new(arrow::datatypes::Field::new(
        storage::SEQ,
        arrow::datatypes::DataType::UInt64,
        false,
    )));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(seqs));
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    RecordBatch::try_new(schema, columns).expect("a batch")
}

/// Returns the admitted keys of whole days from events in this order, `together` events at a time.
fn decided(
    definition: &Definition,
    events: &[(u64, AccessEvent)],
    together: usize,
) -> BTreeMap<i64, AdmittedKeys> {
    let max_keys = definition.max_keys().expect("a limit");
    let calendar = definition.calendar();
    let days: BTreeSet<Bucket> = events
        .iter()
        .map(|(_, event)| calendar.bucket(Level::Day, event.time))
        .collect();
    let days: Vec<Bucket> = days.into_iter().collect();
    let mut firsts = Firsts::new(definition, max_keys, &days);
    for events in events.chunks(together) {
        let (a, b) = events.split_at(events.len() / 2);
        firsts.add(&[numbered(a), numbered(b)]).expect("keys");
    }
    firsts.admitted().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whole_days_in_any_order_admit_the_same_keys(
        seed: u64, len in 1..120_usize, max_keys in 1..7_u64, together in 1..40_usize, nth in 0..3_usize,
    ) {
        let mut random = TestRandom(seed);
        let definition = definition(table(&keys()[nth], Tz::named(ZONES[nth]), max_keys));
        let all = with_others(&mut random, len, 3, 12);
        let mut shuffled: Vec<(u64, AccessEvent)> = (7..).zip(all.iter().cloned()).collect();
        for at in (1..len).rev() {
            shuffled.swap(at, random.below(at as u64 + 1) as usize);
        }
        let found = decided(&definition, &shuffled, together);
        let expected = naive_admitted(&definition, &all);
        // Both are compared as encoded keys; the cascade's are those of its cells of the day level.
        let encoder = Encoder::new(&definition);
        let set = cascade(&[&definition], &[batch(&all)]).expect("cells").remove(0);
        let days = set.level(Level::Day).expect("days");
        let rows = encoder.rows(&days.keys.columns).expect("keys");
        let other = encoder.other(&definition).expect("a key");
        let mut sequential: BTreeMap<i64, BTreeSet<&[u8]>> =
            found.keys().map(|d| (*d, BTreeSet::new())).collect();
        for (day, key) in days.bucket.iter().zip(&days.key) {
            let key = rows.row(*key as usize).data();
            if *key != *other {
                sequential.get_mut(day).expect("a day").insert(key);
            }
        }
        let whole = found.iter().map(|(day, keys)| (*day, keys.iter().collect())).collect();
        prop_assert_eq!(&sequential, &whole);
        let count = |days: &BTreeMap<i64, BTreeSet<Vec<KeyValue>>>| -> Vec<usize> {
            days.values().map(BTreeSet::len).collect()
        };
        prop_assert_eq!(count(&expected), found.values().map(AdmittedKeys::len).collect::<Vec<_>>());
        let of_cells = |day: &i64| -> BTreeSet<Vec<KeyValue>> {
            let cells = days.bucket.iter().zip(&days.key).filter(|(d, _)| *d == day);
            let keys = cells.map(|(_, key)| days.keys.tuple(*key as usize));
            keys.filter(|key| *key != crate::testing::other(&definition)).collect()
        };
        for (day, admitted) in &expected {
            prop_assert_eq!(admitted, &of_cells(day));
        }
    }
}
