//! A store's own knowledge of the division by which a stream's events came to it.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::values::FieldHashes;
use super::{HotValues, ShardKey, shard_hash};

/// Combinations of values up to which [`Division::may_have`] looks for their shards.
const COMBINATIONS_MAX: usize = 1024;

/// The rule by which all events of a stream came to a store that is a shard of a cluster.
///
/// # Invariant
/// The store is a shard to which the key sends the values of each event that the stream has or had.
/// None of them has a value of a field in `unset`. The store checks this itself whenever it applies
/// a record of the journal (`Division::weaken`), whoever has divided the batch: so it holds for
/// items of the quarantine that become events where they are, for a catalog that was restored and
/// has another key now, and for a journal that is replayed over an older manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Division {
    shard: u16,
    shards: u16,
    key: ShardKey,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hot_values: Vec<Vec<String>>,
    /// Fields of the key of which no event has a value.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unset: BTreeSet<String>,
}

impl Division {
    /// Returns the division of a stream without events, at one of `shards` stores. `None` for a key
    /// without fields: it sends equal events to different shards.
    pub fn of(shard: u16, shards: u16, key: &ShardKey, hot_values: &[Vec<String>]) -> Option<Self> {
        let unset: BTreeSet<String> = key.fields().map(str::to_owned).collect();
        (!unset.is_empty()).then(|| Self {
            shard,
            shards,
            key: key.clone(),
            hot_values: hot_values.to_vec(),
            unset,
        })
    }

    /// Returns the fields, by their places, of which these events have a value; `None` if one of
    /// the events belongs elsewhere.
    fn fields_set(&self, events: &RecordBatch) -> Option<Vec<bool>> {
        let ShardKey::Fields { fields, .. } = &self.key else {
            return None;
        };
        let hot = HotValues::of(&self.hot_values);
        let mut hashes = FieldHashes::of(fields, events);
        let mut set = vec![false; fields.len()];
        for row in 0..events.num_rows() {
            let hash = hashes.of_event(row, |field| set[field] = true);
            if !self.is_home_of(hash, &hot) {
                return None;
            }
        }
        Some(set)
    }

    /// Takes back what a rule says and these events contradict; all of it if one of them belongs
    /// elsewhere.
    pub(crate) fn weaken(rule: &mut Option<Self>, events: &RecordBatch) {
        let Some(division) = rule else {
            return;
        };
        let Some(set) = division.fields_set(events) else {
            *rule = None;
            return;
        };
        if !division.unset.is_empty() {
            for (field, _) in division.key.fields().zip(set).filter(|(_, is_set)| *is_set) {
                division.unset.remove(field);
            }
        }
    }

    /// Returns the rule that holds with these events, too.
    #[cfg(test)]
    pub(crate) fn with(&self, events: &RecordBatch) -> Option<Self> {
        let mut rule = Some(self.clone());
        Self::weaken(&mut rule, events);
        rule
    }

    /// Returns whether `other` follows from this.
    pub(crate) fn says_no_less_than(&self, other: &Self) -> bool {
        let unset = self.unset.clone();
        let as_much = Self {
            unset,
            ..other.clone()
        };
        *self == as_much && other.unset.is_subset(&self.unset)
    }

    /// Returns whether the store may have an event with one of these values in each field. `values`
    /// returns them as the texts of the columns' values; `None` for a field with any.
    pub fn may_have(&self, values: impl Fn(&str) -> Option<Vec<String>>) -> bool {
        let mut hashes = vec![0];
        for field in self.key.fields() {
            let is_unset = self.unset.contains(field);
            hashes = match values(field) {
                Some(_) if is_unset => return false,
                Some(values) if hashes.len() * values.len() <= COMBINATIONS_MAX => {
                    let with = |hash: u64| {
                        let texts = values.iter();
                        texts.map(move |text| shard_hash(hash, Some(text.as_bytes())))
                    };
                    hashes.into_iter().flat_map(with).collect()
                }
                None if is_unset => {
                    let hashes = hashes.into_iter();
                    hashes.map(|hash| shard_hash(hash, None)).collect()
                }
                _ => return true,
            };
        }
        let hot = HotValues::of(&self.hot_values);
        hashes.into_iter().any(|hash| self.is_home_of(hash, &hot))
    }

    fn is_home_of(&self, hash: u64, hot: &HotValues) -> bool {
        let mut places = self.key.places_of(hash, self.shards, hot);
        places.any(|shard| shard == self.shard)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray};
    use bson::{Bson, Document};
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::model::REST;

    const KEYS: [&str; 7] = [
        "path",
        "n",
        "absent",
        "path, n",
        "absent, path",
        "path + hash",
        "path, n + hash if hot",
    ];

    /// An event: a text, a number, and a value of either that has no column.
    #[derive(Debug, Clone)]
    struct Row {
        path: Option<String>,
        n: Option<i64>,
        rest: Option<i64>,
    }

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let path = option::of((0..9_u8).prop_map(|n| format!("/{n}")));
        let row = (path, option::of(-4..5_i64), option::weighted(0.2, 0..9_i64));
        let row = row.prop_map(|(path, n, rest)| Row { path, n, rest });
        vec(row, 1..40)
    }

    fn batch(rows: &[Row]) -> RecordBatch {
        let rest = rows.iter().map(|row| {
            let number = row.rest?;
            let name = if number % 2 == 0 { "path" } else { "n" };
            let mut document = Document::new();
            document.insert(name, Bson::Int64(number));
            document.to_vec().ok()
        });
        let columns: [(&str, ArrayRef); 3] = [
            (
                "path",
                Arc::new(rows.iter().map(|r| r.path.clone()).collect::<StringArray>()),
            ),
            (
                "n",
                Arc::new(rows.iter().map(|r| r.n).collect::<Int64Array>()),
            ),
            (REST, Arc::new(rest.collect::<BinaryArray>())),
        ];
        let columns = columns.map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
    }

    proptest! {
        /// The store to which the key sends an event keeps its division, and another one does only
        /// where the event may be, too. A store that is ruled out has no event with the values.
        #[test]
        fn a_store_that_is_ruled_out_keeps_no_division_with_such_an_event(
            rows in rows(),
            key in 0..KEYS.len(),
            shards in 1..7_u16,
            before in 0..20_usize,
        ) {
            let key: ShardKey = KEYS[key].parse().expect("a key");
            let hot = vec![vec!["/3".to_owned(), "1".to_owned()]];
            let events = batch(&rows);
            let places = key.places(&events, shards, 0, &HotValues::of(&hot));
            let divisions: Vec<Division> = (0..shards)
                .map(|shard| Division::of(shard, shards, &key, &hot).expect("of fields"))
                .collect();
            for (row, place) in places.iter().enumerate() {
                let event = events.slice(row, 1);
                let at_home = divisions[usize::from(*place)].with(&event);
                prop_assert!(at_home.is_some(), "{row} at {place}");
                let values = |field: &str| match field {
                    "path" => rows[row].path.clone().map(|path| vec!["/no".to_owned(), path]),
                    "n" => rows[row].n.map(|n| vec![n.to_string()]),
                    _ => None,
                };
                // Events that came before may have values of any field.
                let earlier = events.slice(0, before.min(rows.len()));
                for division in &divisions {
                    let with = division.with(&earlier).and_then(|d| d.with(&event));
                    if let Some(with) = with {
                        prop_assert!(with.may_have(values), "{row}: {with:?}");
                        prop_assert_eq!(with.with(&event), Some(with.clone()));
                    }
                }
            }
        }
    }

    #[test]
    fn a_field_without_values_need_not_be_asked_for() {
        let of_shards = |may_have: &dyn Fn(&Division) -> bool| -> usize {
            let key = "absent, path".parse().expect("a key");
            let divisions = (0..5).filter_map(|shard| Division::of(shard, 5, &key, &[]));
            let row = |path: &str| Row {
                path: Some(path.to_owned()),
                n: None,
                rest: None,
            };
            let all: Vec<Row> = (0..40).map(|n| row(&format!("/{n}"))).collect();
            let with = divisions.map(|division| {
                let own = all.iter().filter(|row| {
                    let event = batch(std::slice::from_ref(*row));
                    division.with(&event).is_some()
                });
                let own: Vec<Row> = own.cloned().collect();
                assert!(!own.is_empty());
                division.with(&batch(&own)).expect("its own")
            });
            with.filter(may_have).count()
        };
        let one = |value: &str| Some(vec![value.to_owned()]);
        let path = |field: &str| one("/7").filter(|_| field == "path");
        assert_eq!(of_shards(&|d| d.may_have(path)), 1);
        assert_eq!(of_shards(&|d| d.may_have(|_| None)), 5, "any path");
        assert_eq!(
            of_shards(&|d| d.may_have(|_| one("/7"))),
            0,
            "none has such a field"
        );
    }
}
