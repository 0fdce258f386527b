//! Who has a name, stated a second time and as plainly as can be.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, naive_key};
use crate::calendar::Level;
use crate::cells::KeyValue;
use crate::definition::{Definition, KeyType};

/// The key under which each event counts. The events are all there are, in the order of their
/// sequence numbers.
pub(crate) fn counted_under(definition: &Definition, events: &[Event]) -> Vec<Vec<KeyValue>> {
    let other = other(definition);
    let mut names: BTreeMap<i64, BTreeSet<Vec<KeyValue>>> = BTreeMap::new();
    let mut keys = Vec::new();
    for event in events {
        let own = definition.by().iter().map(|k| naive_key(&k.name, event));
        let own: Vec<KeyValue> = own.collect();
        let Some(max_keys) = definition.max_keys() else {
            keys.push(own);
            continue;
        };
        let day = definition.calendar().bucket(Level::Day, event.time);
        let names = names.entry(day.start_us).or_default();
        if own != other && (names.len() as u64) < max_keys {
            names.insert(own.clone());
        }
        keys.push(if names.contains(&own) {
            own
        } else {
            other.clone()
        });
    }
    keys
}

/// The key of all who have no name.
pub(crate) fn other(definition: &Definition) -> Vec<KeyValue> {
    let column = |key_type: KeyType| match key_type {
        KeyType::Text => KeyValue::Text("(other)".to_owned()),
        KeyType::Int16 | KeyType::Int64 => KeyValue::Null,
    };
    definition.by().iter().map(|k| column(k.key_type)).collect()
}

/// A definition as it was before there was a limit on the number of keys.
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
