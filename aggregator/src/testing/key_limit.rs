//! The key limit, implemented a second time and as plainly as possible.

use std::collections::{BTreeMap, BTreeSet};

use super::{AccessEvent, naive_key};
use crate::calendar::Level;
use crate::definition::{Definition, KeyType};
use crate::keys::KeyValue;

/// Returns the key under which each event counts. `events` must be all events of the stream, in the
/// order of their sequence numbers.
pub(crate) fn counted_under(definition: &Definition, events: &[AccessEvent]) -> Vec<Vec<KeyValue>> {
    let other = other(definition);
    let mut days: BTreeMap<i64, BTreeSet<Vec<KeyValue>>> = BTreeMap::new();
    let mut keys = Vec::new();
    for event in events {
        let own = definition.by().iter().map(|k| naive_key(&k.name, event));
        let own: Vec<KeyValue> = own.collect();
        let Some(max_keys) = definition.max_keys() else {
            keys.push(own);
            continue;
        };
        let day = definition.calendar().bucket(Level::Day, event.time);
        let admitted = days.entry(day.start_us).or_default();
        if own != other && (admitted.len() as u64) < max_keys {
            admitted.insert(own.clone());
        }
        keys.push(if admitted.contains(&own) {
            own
        } else {
            other.clone()
        });
    }
    keys
}

/// Returns the key `(other)`, under which events of keys that are not admitted count.
pub(crate) fn other(definition: &Definition) -> Vec<KeyValue> {
    let column = |key_type: KeyType| match key_type {
        KeyType::Text => KeyValue::Text("(other)".to_owned()),
        KeyType::Int16 | KeyType::Int64 => KeyValue::Null,
    };
    definition.by().iter().map(|k| column(k.key_type)).collect()
}

/// Returns the definition as it was before there was a key limit.
pub(crate) fn without_limit(definition: Definition) -> Definition {
    Definition::new(
        definition.name().clone(),
        definition.stream().clone(),
        definition.by().to_vec(),
        definition.levels().to_vec(),
        definition.timezone(),
        definition.week(),
        definition.measures().to_vec(),
    )
    .expect("a definition")
}
