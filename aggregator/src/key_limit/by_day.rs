//! The admitted keys of whole days, decided from raw events in any order. Parts are sorted by host,
//! so a key of a day counts with its least sequence number, and the keys with the least of these
//! numbers are admitted.
//!
//! A day is decided when its first part is read and dropped from memory after its last one. Only
//! the first keys of a day are held while it is decided: memory is bounded by the days of one part.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use hashbrown::HashMap;

use super::{AdmittedKeys, Encoder, KeyAdmission};
use crate::calendar::{Bucket, Level};
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::group::group;
use crate::intern::{KeyValues, Tuples, bucket_ranks, times};
use crate::raw::RawEvents;

/// The admitted keys of the days decided so far. A day without an entry has no more events than the
/// limit, so all its keys are admitted.
#[derive(Debug)]
pub(crate) struct AdmittedByDay {
    days: BTreeMap<i64, AdmittedKeys>,
    decided_to: i64,
    /// Result for a day without an entry.
    no_keys: AdmittedKeys,
}

impl AdmittedByDay {
    pub(crate) fn new() -> Self {
        Self {
            days: BTreeMap::new(),
            decided_to: i64::MIN,
            no_keys: AdmittedKeys::default(),
        }
    }

    /// Decides every day of events in the range `time`. The range of the next call must not begin
    /// earlier: days before the range are dropped.
    pub(crate) fn reach(&mut self, raw: &RawEvents<'_>, time: (i64, i64)) -> Result<()> {
        let definition = raw.definition();
        let Some(max_keys) = definition.max_keys() else {
            return Ok(());
        };
        let calendar = definition.calendar();
        let first = calendar.bucket(Level::Day, time.0);
        self.days = self.days.split_off(&first.start_us);
        let mut crowded: Vec<Bucket> = Vec::new();
        let mut day = calendar.bucket(Level::Day, time.0.max(self.decided_to));
        while day.start_us <= time.1 {
            if raw.rows_at_most(day) > max_keys {
                crowded.push(day);
            }
            self.decided_to = day.end_us;
            day = calendar.bucket(Level::Day, day.end_us);
        }
        let (Some(first), Some(last)) = (crowded.first(), crowded.last()) else {
            return Ok(());
        };
        let span = Bucket {
            start_us: first.start_us,
            end_us: last.end_us,
        };
        let mut firsts = Firsts::new(definition, max_keys, &crowded);
        for events in raw.keys(span) {
            firsts.add(&events?)?;
        }
        self.days.extend(firsts.admitted());
        Ok(())
    }
}

impl KeyAdmission for AdmittedByDay {
    fn at_most(&mut self, days_us: (i64, i64)) -> u64 {
        let days = self.days.range(days_us.0..=days_us.1);
        days.map(|(_, keys)| keys.len() as u64).max().unwrap_or(0)
    }

    fn of(&mut self, day_us: i64) -> Result<&AdmittedKeys> {
        Ok(self.days.get(&day_us).unwrap_or(&self.no_keys))
    }
}

/// The first keys of some days and their least sequence numbers, from events in any order.
pub(super) struct Firsts<'a> {
    definition: &'a Definition,
    encoder: Encoder,
    max_keys: usize,
    days: BTreeMap<i64, HashMap<Box<[u8]>, u64>>,
}

impl<'a> Firsts<'a> {
    pub(super) fn new(definition: &'a Definition, max_keys: u64, days: &[Bucket]) -> Self {
        let days = days.iter().map(|day| (day.start_us, HashMap::new()));
        Self {
            definition,
            encoder: Encoder::new(definition),
            max_keys: usize::try_from(max_keys).unwrap_or(usize::MAX),
            days: days.collect(),
        }
    }

    pub(super) fn add(&mut self, events: &[RecordBatch]) -> Result<()> {
        let seqs = seqs(events)?;
        let times = times(events, seqs.len())?;
        let keys = self.definition.by().iter();
        let columns = keys
            .map(|key| KeyValues::of(events, seqs.len(), &key.value(), key.key_type))
            .collect::<Result<Vec<_>>>()?;
        let mut tuples = Tuples::of(columns.iter().collect(), seqs.len());
        let other = tuples.other();
        let all: Vec<u32> = (0..tuples.len() as u32).collect();
        let rows = self.encoder.rows(&tuples.arrays(&all)?)?;
        let (days, starts) = bucket_ranks(&times, self.definition.calendar(), Level::Day);
        for events in group(&days, &tuples.ids, starts.len(), tuples.len()).iter() {
            let first = events[0] as usize;
            let key = tuples.ids[first];
            let Some(firsts) = self.days.get_mut(&starts[days[first] as usize]) else {
                continue;
            };
            let least = events.iter().map(|event| seqs[*event as usize]).min();
            if let Some(seq) = least.filter(|_| key != other) {
                let row = rows.row(key as usize);
                let least_seq = firsts.entry_ref(row.as_ref()).or_insert(seq);
                *least_seq = seq.min(*least_seq);
            }
        }
        for firsts in self.days.values_mut() {
            // A key that is not among the first now needs an event of a later call to be one.
            if firsts.len() / 2 >= self.max_keys {
                keep_first(firsts, self.max_keys);
            }
        }
        Ok(())
    }

    pub(super) fn admitted(self) -> impl Iterator<Item = (i64, AdmittedKeys)> {
        self.days.into_iter().map(move |(day_us, mut firsts)| {
            keep_first(&mut firsts, self.max_keys);
            (day_us, firsts.into_keys().collect())
        })
    }
}

/// Keeps the `max_keys` keys of the least sequence numbers. (An event has one key, so no two
/// sequence numbers are equal.)
fn keep_first(firsts: &mut HashMap<Box<[u8]>, u64>, max_keys: usize) {
    if firsts.len() > max_keys {
        let mut seqs: Vec<u64> = firsts.values().copied().collect();
        let (_, limit, _) = seqs.select_nth_unstable(max_keys);
        let limit = *limit;
        firsts.retain(|_, seq| *seq < limit);
    }
}

fn seqs(events: &[RecordBatch]) -> Result<Vec<u64>> {
    let mut seqs = Vec::new();
    for batch in events {
        let column = batch.column_by_name(storage::SEQ);
        let column = column.and_then(|c| c.as_primitive_opt::<UInt64Type>());
        let column = column.ok_or_else(|| Error::invalid("raw events have no sequence numbers"))?;
        seqs.extend_from_slice(column.values());
    }
    Ok(seqs)
}
