//! The effects of a key on a sample.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use storage::{SALTS, Salt, ShardKey, shard_hash, shard_mix};

use super::sample::{EventSample, ValueColumn};
use super::{HotValue, LevelCells, LookupShards, ShardKeyFigures};

/// The events of a request.
const REQUEST_EVENTS: usize = 100;

/// The values of a key's fields together, each as a number from 0.
pub(super) struct KeyValues<'a> {
    columns: Vec<&'a ValueColumn>,
    /// The numbers of the fields' values, for each value of the key.
    tuples: Vec<Vec<u32>>,
    /// The events of each value.
    counts: Vec<u64>,
    /// The value of each event.
    rows: Vec<u32>,
}

impl<'a> KeyValues<'a> {
    fn of(columns: Vec<&'a ValueColumn>, events: usize) -> Self {
        let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
        let (mut tuples, mut counts): (Vec<Vec<u32>>, Vec<u64>) = (Vec::new(), Vec::new());
        let rows = (0..events).map(|row| {
            let tuple: Vec<u32> = columns.iter().map(|column| column.rows[row]).collect();
            let next = tuples.len() as u32;
            let number = *numbers.entry(tuple).or_insert_with_key(|tuple| {
                tuples.push(tuple.clone());
                counts.push(0);
                next
            });
            counts[number as usize] += 1;
            number
        });
        let rows = rows.collect();
        Self {
            columns,
            tuples,
            counts,
            rows,
        }
    }

    /// Returns a hash of the texts of a value.
    fn hash(&self, tuple: &[u32]) -> u64 {
        let texts = self.columns.iter().zip(tuple);
        let texts = texts.map(|(column, n)| column.values[*n as usize].as_deref());
        texts.fold(0, |hash, text| shard_hash(hash, text.map(str::as_bytes)))
    }

    /// Returns the values without a null that more events have than these, most first.
    fn above(&self, least: u64) -> Vec<Vec<String>> {
        let values = self.counts.iter().zip(&self.tuples);
        let mut values: Vec<_> = values.filter(|(count, _)| **count > least).collect();
        values.sort_by(|one, other| other.cmp(one));
        let texts = |(_, tuple): (&u64, &Vec<u32>)| {
            let texts = self.columns.iter().zip(tuple);
            let texts = texts.map(|(column, n)| column.values[*n as usize].as_deref());
            texts.map(|text| text.map(str::to_owned)).collect()
        };
        values.into_iter().filter_map(texts).collect()
    }

    /// Returns the value that most events have, and their number.
    fn hottest(&self) -> Option<(Vec<Option<String>>, u64)> {
        let values = self.counts.iter().zip(&self.tuples).max();
        let (count, tuple) = values.filter(|_| !self.columns.is_empty())?;
        let texts = self.columns.iter().zip(tuple);
        let texts = texts.map(|(column, n)| column.values[*n as usize].as_deref());
        Some((texts.map(|text| text.map(str::to_owned)).collect(), *count))
    }
}

impl EventSample {
    /// Returns the effects of a key whose fields are in the sample, which has events.
    pub(super) fn figures(
        &self,
        key: &ShardKey,
        shards: u16,
        lookups: &[String],
    ) -> ShardKeyFigures {
        let values = self.values_of(key);
        let places = self.places(key, &values, shards);
        let mean = self.events() as f64 / f64::from(shards);
        let busiest = counts(places.iter()).into_values().max().unwrap_or(0);
        let busiest = busiest as f64 / mean;
        let cells = self.cells_on(&places);
        let ratios: f64 = cells.iter().map(|level| level.ratio).sum();
        let work = match cells.len() {
            0 => busiest,
            levels => busiest * ratios / levels as f64,
        };
        ShardKeyFigures {
            key: key.clone(),
            busiest,
            busiest_in_minute: self.busiest_in_minute(&places) / mean,
            cells,
            lookups: self.lookups(&places, lookups),
            parts: self.parts(&places),
            hot_values: match key {
                ShardKey::Fields {
                    salt: Salt::Hot, ..
                } => values.above(self.hot(shards)),
                _ => Vec::new(),
            },
            hottest: values.hottest().map(|(values, count)| HotValue {
                values,
                share: count as f64 / self.events() as f64,
            }),
            work,
        }
    }

    /// Returns the number of events above which a value is hot: a quarter of a shard's.
    fn hot(&self, shards: u16) -> u64 {
        self.events() / (4 * u64::from(shards))
    }

    /// Returns the values of a key whose fields are in the sample.
    pub(super) fn values_of(&self, key: &ShardKey) -> KeyValues<'_> {
        let columns = key.fields().map(|field| &self.fields[field]).collect();
        KeyValues::of(columns, self.seqs.len())
    }

    /// Returns the shard of each event.
    pub(super) fn places(&self, key: &ShardKey, values: &KeyValues<'_>, shards: u16) -> Vec<u16> {
        let place = |number: u64| ShardKey::shard_of(number, shards);
        match key {
            ShardKey::Batch => {
                let mut places = vec![0; self.seqs.len()];
                for (request, rows) in self.arrival.chunks(REQUEST_EVENTS).enumerate() {
                    let shard = place(request as u64);
                    rows.iter().for_each(|row| places[*row as usize] = shard);
                }
                places
            }
            ShardKey::Time => {
                let hours = self.hours.iter();
                hours.map(|hour| place(hour.cast_unsigned())).collect()
            }
            ShardKey::Fields { salt, .. } => {
                let hashes = values.tuples.iter().map(|tuple| values.hash(tuple));
                let hashes: Vec<u64> = hashes.collect();
                let hot = self.hot(shards);
                let is_salted = |value: usize| match salt {
                    Salt::None => false,
                    Salt::All => true,
                    Salt::Hot => values.counts[value] > hot,
                };
                let rows = values.rows.iter().zip(&self.seqs);
                let shard = |(value, seq): (&u32, &u64)| {
                    let value = *value as usize;
                    let salt = match is_salted(value) {
                        true => shard_mix(*seq) % SALTS,
                        false => 0,
                    };
                    place(hashes[value].wrapping_add(salt))
                };
                rows.map(shard).collect()
            }
        }
    }

    /// Returns the sum over minutes of the events that the busiest shard of the minute has.
    fn busiest_in_minute(&self, places: &[u16]) -> f64 {
        let mut most: HashMap<u32, u64> = HashMap::new();
        for ((minute, _), n) in counts(self.minutes.iter().zip(places)) {
            let most = most.entry(*minute).or_default();
            *most = n.max(*most);
        }
        most.into_values().sum::<u64>() as f64
    }

    fn cells_on(&self, places: &[u16]) -> Vec<LevelCells> {
        let mut levels: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for (level, cells) in &self.cells {
            let (of_one, of_all) = levels.entry(*level).or_default();
            *of_one += cells.iter().collect::<HashSet<_>>().len() as u64;
            *of_all += cells.iter().zip(places).collect::<HashSet<_>>().len() as u64;
        }
        let levels = levels.into_iter();
        let levels = levels.map(|(level, (of_one, of_all))| LevelCells {
            level: level.as_str().to_owned(),
            ratio: of_all as f64 / of_one as f64,
        });
        levels.collect()
    }

    fn lookups(&self, places: &[u16], lookups: &[String]) -> Vec<LookupShards> {
        let lookups = lookups.iter().map(|field| {
            let rows = &self.fields[field].rows;
            let mut shards: HashMap<u32, u64> = HashMap::new();
            for (value, _) in rows.iter().zip(places).collect::<HashSet<_>>() {
                *shards.entry(*value).or_default() += 1;
            }
            let read: u64 = rows.iter().map(|value| shards[value]).sum();
            LookupShards {
                field: field.clone(),
                shards: read as f64 / self.events() as f64,
            }
        });
        lookups.collect()
    }

    /// Returns the mean number of shards of the events that came together.
    fn parts(&self, places: &[u16]) -> f64 {
        let requests = self.arrival.chunks(REQUEST_EVENTS);
        let number = requests.len();
        let parts = requests.map(|rows| {
            let places = rows.iter().map(|row| places[*row as usize]);
            places.collect::<HashSet<_>>().len()
        });
        parts.sum::<usize>() as f64 / number as f64
    }
}

fn counts<T: Hash + Eq>(items: impl Iterator<Item = T>) -> HashMap<T, u64> {
    let mut counts = HashMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}
