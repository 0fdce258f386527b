//! The shards of a batch's events.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Field, TimestampMicrosecondType};

use super::hash::{shard_hash, shard_mix};
use super::values::{FieldHashes, rest_of, with_value};
use super::{SALTS, Salt, ShardKey};
use crate::model::{Identity, REST, TIME, TIME_SOURCE};

/// Microseconds of an hour.
const HOUR_US: i64 = 3_600_000_000;

/// The values of a key whose events a salt divides: lists of texts, one for each field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HotValues(HashSet<u64>);

impl HotValues {
    /// Returns the set of these values.
    pub fn of(values: &[Vec<String>]) -> Self {
        let hash = |value: &Vec<String>| {
            let texts = value.iter();
            texts.fold(0, |hash, text| shard_hash(hash, Some(text.as_bytes())))
        };
        Self(values.iter().map(hash).collect())
    }
}

impl ShardKey {
    /// Returns the shard of a number.
    pub fn shard_of(number: u64, shards: u16) -> u16 {
        (shard_mix(number) % u64::from(shards.max(1))) as u16
    }

    /// Returns the shard of a batch as a whole, its home: the same for one that is sent again. All
    /// batches of an ordered source have one home.
    pub fn home(identity: &Identity, shards: u16) -> u16 {
        let name = match identity {
            Identity::Range { producer, .. } => producer,
            Identity::Key { key, .. } => key,
            // Items of the quarantine are resolved in the store that has them.
            Identity::Settles { .. } => return 0,
        };
        Self::shard_of(shard_hash(0, Some(name.as_bytes())), shards)
    }

    /// Returns the shard of each event of a batch whose home is `home`.
    pub fn places(
        &self,
        events: &RecordBatch,
        shards: u16,
        home: u16,
        hot: &HotValues,
    ) -> Vec<u16> {
        let rows = events.num_rows();
        match self {
            Self::Batch => vec![home; rows],
            Self::Time => hours(events, home, shards),
            Self::Fields { fields, .. } => {
                let (mut hashes, mut text) = (FieldHashes::of(fields, events), String::new());
                let place = |row| {
                    let hash = hashes.of_event(row, |_| ());
                    let salt = match self.salts(hash, hot) {
                        1 => 0,
                        salts => content(events, row, &mut text) % salts,
                    };
                    Self::shard_of(hash.wrapping_add(salt), shards)
                };
                (0..rows).map(place).collect()
            }
        }
    }

    /// Returns the shards to which the key sends events whose values have this hash.
    pub(super) fn places_of(
        &self,
        hash: u64,
        shards: u16,
        hot: &HotValues,
    ) -> impl Iterator<Item = u16> + use<> {
        let salts = 0..self.salts(hash, hot);
        salts.map(move |salt| Self::shard_of(hash.wrapping_add(salt), shards))
    }

    /// Returns the number of salts of values with this hash.
    fn salts(&self, hash: u64, hot: &HotValues) -> u64 {
        let is_salted = match self {
            Self::Batch | Self::Time => false,
            Self::Fields { salt, .. } => match salt {
                Salt::None => false,
                Salt::All => true,
                Salt::Hot => hot.0.contains(&hash),
            },
        };
        if is_salted { SALTS } else { 1 }
    }
}

/// Returns the shards of the hours. An event whose time is not its own goes to the home of the
/// batch: it would have another one in a second attempt.
fn hours(events: &RecordBatch, home: u16, shards: u16) -> Vec<u16> {
    let times = events.column_by_name(TIME);
    let times = times.and_then(|times| times.as_primitive_opt::<TimestampMicrosecondType>());
    let sources = events.column_by_name(TIME_SOURCE);
    let place = |row: usize| match times {
        Some(times) if !sources.is_some_and(|sources| sources.is_valid(row)) => {
            let hour = times.value(row).div_euclid(HOUR_US);
            ShardKey::shard_of(hour.cast_unsigned(), shards)
        }
        _ => home,
    };
    (0..events.num_rows()).map(place).collect()
}

/// Returns a hash of an event's values, whatever the order of their columns, and whether they have
/// columns. A time that is not the event's own does not count.
fn content(events: &RecordBatch, row: usize, text: &mut String) -> u64 {
    let sources = events.column_by_name(TIME_SOURCE);
    let has_own_time = !sources.is_some_and(|sources| sources.is_valid(row));
    let schema = events.schema_ref();
    let columns = schema.fields().iter().zip(events.columns());
    let counts = |name: &str, column: &ArrayRef| {
        column.is_valid(row) && name != REST && (has_own_time || name != TIME)
    };
    let columns = columns.filter(|(field, column)| counts(field.name(), column));
    let hash = |(field, column): (&Arc<Field>, &ArrayRef)| {
        let name = shard_hash(0, Some(field.name().as_bytes()));
        shard_mix(with_value(name, column, row, text))
    };
    let of_columns = columns.map(hash).fold(0, u64::wrapping_add);
    let of_rest = rest_of(events, row).into_iter().map(|(name, value)| {
        let name = shard_hash(0, Some(name.as_bytes()));
        shard_mix(shard_hash(name, Some(&value)))
    });
    shard_mix(of_rest.fold(of_columns, u64::wrapping_add))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
    use bson::Document;

    use super::*;

    const SHARDS: u16 = 5;
    const HOME: u16 = 3;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        )
        .expect("a batch")
    }

    fn places(key: &str, events: &RecordBatch, hot: &[&[&str]]) -> Vec<u16> {
        let key: ShardKey = key.parse().expect("a key");
        let hot: Vec<Vec<String>> = hot
            .iter()
            .map(|value| value.iter().map(|text| (*text).to_owned()).collect())
            .collect();
        key.places(events, SHARDS, HOME, &HotValues::of(&hot))
    }

    #[test]
    fn equal_values_go_to_one_shard_and_hot_ones_to_several() {
        let paths = (0..400).map(|n| format!("/{}", n % 20));
        let paths: ArrayRef = Arc::new(StringArray::from_iter_values(paths));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..400));
        let events = batch(vec![("path", paths), ("n", numbers)]);
        let found = places("path", &events, &[]);
        let of = |value: usize, found: &[u16]| -> HashSet<u16> {
            found.iter().skip(value).step_by(20).copied().collect()
        };
        let all: HashSet<u16> = found.iter().copied().collect();
        assert_eq!(all.len(), usize::from(SHARDS), "twenty values, five shards");
        assert!((0..20).all(|value| of(value, &found).len() == 1));
        let salted = places("path + hash", &events, &[]);
        assert!((0..20).all(|value| of(value, &salted).len() > 1));
        let hot = places("path + hash if hot", &events, &[&["/7"]]);
        for value in 0..20 {
            let shards = of(value, &hot);
            assert_eq!(shards.len() > 1, value == 7, "/{value}: {shards:?}");
        }
        assert_eq!(places("batch", &events, &[]), [HOME; 400]);
        assert_eq!(
            places("absent", &events, &[])
                .iter()
                .collect::<HashSet<_>>()
                .len(),
            1
        );
    }

    #[test]
    fn a_salt_is_that_of_the_event_however_its_batch_is_cut() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..100).map(f64::from)));
        let paths: ArrayRef = Arc::new(StringArray::from(vec!["/"; 100]));
        let events = batch(vec![("path", Arc::clone(&paths)), ("n", numbers)]);
        let all = places("path + hash", &events, &[]);
        assert!(all.iter().collect::<HashSet<_>>().len() > 1);
        for from in [0, 1, 50, 99] {
            let cut = events.slice(from, 100 - from);
            assert_eq!(places("path + hash", &cut, &[]), all[from..], "from {from}");
        }
        let other = batch(vec![("n", floats), ("path", paths)]);
        assert_eq!(
            places("path + hash", &other, &[]),
            all,
            "columns in another order and type"
        );
        let times = |first: i64| {
            let times = TimestampMicrosecondArray::from_iter_values(first..first + 100);
            let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
            let sources: ArrayRef = Arc::new(StringArray::from(vec!["received"; 100]));
            let (path, n) = (Arc::clone(events.column(0)), Arc::clone(events.column(1)));
            let columns = vec![
                (TIME, times),
                (TIME_SOURCE, sources),
                ("path", path),
                ("n", n),
            ];
            places("path + hash", &batch(columns), &[])
        };
        assert_eq!(
            times(0),
            times(5_000),
            "the time of the arrival does not count"
        );
    }

    #[test]
    fn a_value_without_a_column_has_the_shard_that_it_has_in_one() {
        let texts: Vec<String> = (0..60).map(|n| format!("v{}", n % 12)).collect();
        let with_column: ArrayRef = Arc::new(StringArray::from(texts.clone()));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..60));
        let rest = |fields: &dyn Fn(usize) -> Document| -> ArrayRef {
            let documents = (0..60).map(|n| fields(n).to_vec().expect("a document"));
            Arc::new(arrow::array::BinaryArray::from_iter_values(documents))
        };
        let moved = rest(&|n| bson::doc! { "v": &texts[n], "n": n as i64 });
        let half = rest(&|n| bson::doc! { "v": &texts[n] });
        for key in ["v", "v, n", "n + hash", "v + hash"] {
            let columns = vec![("v", Arc::clone(&with_column)), ("n", Arc::clone(&numbers))];
            let expected = places(key, &batch(columns), &[]);
            let all = vec![(REST, Arc::clone(&moved))];
            assert_eq!(places(key, &batch(all), &[]), expected, "{key}");
            let some = vec![("n", Arc::clone(&numbers)), (REST, Arc::clone(&half))];
            assert_eq!(places(key, &batch(some), &[]), expected, "{key}");
        }
    }

    #[test]
    fn a_number_has_one_shard_whatever_the_type_of_its_column() {
        let numbers: Vec<i64> = vec![0, -1, 200, 404, 1 << 53, -(1 << 53), 12_345_678_901];
        let integers: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
        let floats = numbers.iter().map(|n| *n as f64);
        let floats: ArrayRef = Arc::new(Float64Array::from_iter_values(floats));
        let texts = numbers.iter().map(i64::to_string);
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let expected = places("n", &batch(vec![("n", integers)]), &[]);
        assert_eq!(places("n", &batch(vec![("n", floats)]), &[]), expected);
        assert_eq!(places("n", &batch(vec![("n", texts)]), &[]), expected);
    }

    #[test]
    fn an_hour_goes_to_one_shard_and_the_time_of_the_arrival_to_the_home() {
        let times = (0..48).map(|n| n * HOUR_US / 2);
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
        let events = batch(vec![(TIME, Arc::new(times.clone()))]);
        let found = places("time", &events, &[]);
        assert!(found.chunks(2).all(|hour| hour[0] == hour[1]), "{found:?}");
        assert!(found.iter().collect::<HashSet<_>>().len() > 2, "{found:?}");
        let sources = (0..48).map(|n| (n % 3 == 0).then_some("received"));
        let sources: ArrayRef = Arc::new(StringArray::from_iter(sources));
        let events = batch(vec![(TIME, Arc::new(times)), (TIME_SOURCE, sources)]);
        for (row, shard) in places("time", &events, &[]).into_iter().enumerate() {
            let expected = if row % 3 == 0 { HOME } else { found[row] };
            assert_eq!(shard, expected, "row {row}");
        }
    }
}
