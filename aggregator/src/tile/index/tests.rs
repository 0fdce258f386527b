use super::*;
use crate::cascade;
use crate::definition::Definition;
use crate::testing::{TestRandom, batch, definition, events, keyed, zoned};
use chrono_tz::Tz;
use serde_json::json;
use std::sync::Arc;

fn keys_of(definition: &Definition, len: usize) -> Arc<Keys> {
    let all = events(&mut TestRandom(41), len, 3, 300, 20);
    let set = cascade(&[definition], &[batch(&all)])
        .expect("cells")
        .remove(0);
    Arc::clone(&set.levels[0].1.keys)
}

/// Returns random values, of which a column has most and lacks some.
fn some_values(keys: &Keys, column: usize, random: &mut TestRandom) -> Vec<KeyValue> {
    let mut values = vec![
        KeyValue::Null,
        KeyValue::Int(404),
        KeyValue::Int(1 << 40),
        KeyValue::Text("/none".to_owned()),
    ];
    values.extend((0..20).map(|_| keys.value(column, random.below(keys.len as u64) as usize)));
    (0..random.below(4).pow(2) * 2)
        .map(|_| values[random.below(values.len() as u64) as usize].clone())
        .collect()
}

#[test]
fn an_index_finds_what_comparing_every_key_finds() {
    let mut random = TestRandom(42);
    let long = json!({ "stream": "events", "by": ["response_size", "path"], "measures": { "hits": "count" } });
    for definition in [
        zoned(&["site", "path"], Tz::UTC, "hour"),
        zoned(&["status", "path", "method"], Tz::UTC, "hour"),
        zoned(&[], Tz::UTC, "hour"),
        keyed(Tz::UTC),
        definition(long),
    ] {
        let keys = keys_of(&definition, 2_000);
        let index = KeyIndex::new(keys.columns.len());
        let mut found = 0;
        for _ in 0..300 {
            let columns = 0..keys.columns.len();
            let wanted =
                |column| (random.below(3) > 0).then(|| some_values(&keys, column, &mut random));
            let filter = Filter {
                keys: columns.map(wanted).collect(),
                ..Filter::ALL
            };
            let (ours, plain) = (index.passing(&keys, &filter), filter.passing(&keys));
            assert_eq!(ours, plain, "{filter:?}");
            found += ours.map_or(0, |p| (0..keys.len as u32).filter(|id| p.has(*id)).count());
        }
        assert!(keys.columns.is_empty() || found > 100, "{found}");
        assert_eq!(index.memory_bytes(), keys.columns.len() * keys.len * 8);
    }
}

#[test]
fn a_first_question_makes_no_index() {
    let keys = keys_of(&zoned(&["path"], Tz::UTC, "hour"), 500);
    let index = KeyIndex::new(1);
    let filter = Filter {
        keys: vec![Some(vec![KeyValue::Text("/page/3".to_owned())])],
        ..Filter::ALL
    };
    let first = index.passing(&keys, &filter);
    assert_eq!(index.memory_bytes(), 0);
    assert_eq!(index.passing(&keys, &filter), first);
    assert_eq!(index.memory_bytes(), keys.len * 8);
}
