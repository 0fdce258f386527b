//! Who has a name: in each day of a rollup the first keys, by the sequence number of their first
//! event. Events of that day with any other key count under `(other)`, at every level.
//!
//! # Invariants
//! * It is a pure function of the events that the rollup's generation covers. How they were cut into
//!   seals and chunks, compaction and the order in which parts are read do not show.
//! * The cells of the day level, `(other)` apart, are the list of the named keys: a limited rollup
//!   keeps that level for ever.
//! * `(other)` is a key like any other to whoever reads, merges or compares. Events whose own key
//!   looks the same count under it and take no name.
//! * Where no day can have too many keys nothing is read, and no event is looked at.

mod admitted;
mod before;
mod by_day;
mod cache;

pub(crate) use admitted::AdmittedKeys;
pub(crate) use before::AdmittedBefore;
pub(crate) use by_day::AdmittedByDay;

use arrow::array::{ArrayRef, StringArray, new_null_array};
use arrow::row::{RowConverter, Rows, SortField};
use std::sync::Arc;

use crate::calendar::Level;
use crate::definition::{Definition, KeyType};
use crate::error::Result;
use crate::group::group;
use crate::intern::{Tuples, bucket_ranks};

/// What text columns read in the key of all who have no name; integers are null.
pub const OTHER: &str = "(other)";

/// The keys of days that have a name before some events come.
pub(crate) trait KeyAdmission {
    /// No day that starts in this range, both ends included, has more names.
    fn at_most(&mut self, days_us: (i64, i64)) -> u64;

    /// The names of the day that starts then.
    fn of(&mut self, day_us: i64) -> Result<&AdmittedKeys>;
}

/// No names yet.
#[derive(Debug, Default)]
pub(crate) struct NothingAdmitted(AdmittedKeys);

impl KeyAdmission for NothingAdmitted {
    fn at_most(&mut self, _: (i64, i64)) -> u64 {
        0
    }
    fn of(&mut self, _: i64) -> Result<&AdmittedKeys> {
        Ok(&self.0)
    }
}

/// Keys as bytes, which are equal when the keys are.
#[derive(Debug)]
pub(crate) struct Encoder(RowConverter);

impl Encoder {
    pub(crate) fn new(definition: &Definition) -> Self {
        let keys = definition.by().iter();
        let fields = keys.map(|k| SortField::new(k.key_type.arrow())).collect();
        Self(RowConverter::new(fields).expect("BUG: key types have an order"))
    }

    pub(crate) fn rows(&self, columns: &[ArrayRef]) -> Result<Rows> {
        Ok(self.0.convert_columns(columns)?)
    }

    /// The key `(other)`.
    pub(crate) fn other(&self, definition: &Definition) -> Result<Box<[u8]>> {
        let column = |key_type: KeyType| match key_type {
            KeyType::Text => Arc::new(StringArray::from(vec![OTHER])) as ArrayRef,
            KeyType::Int16 | KeyType::Int64 => new_null_array(&key_type.arrow(), 1),
        };
        let columns: Vec<ArrayRef> = definition.by().iter().map(|k| column(k.key_type)).collect();
        Ok(self.rows(&columns)?.row(0).as_ref().into())
    }
}

/// Gives `(other)` to the events whose key has no name. Names that are still to be had in a day go to
/// its keys in the order of the events.
pub(crate) fn fold(
    tuples: &mut Tuples<'_>,
    times: &[i64],
    definition: &Definition,
    names: &mut impl KeyAdmission,
) -> Result<()> {
    let (Some(max_keys), Some(first), Some(last)) = (
        definition.max_keys(),
        times.iter().min(),
        times.iter().max(),
    ) else {
        return Ok(());
    };
    let calendar = definition.calendar();
    let days_us = (calendar.bucket(Level::Day, *first).start_us, *last);
    if names.at_most(days_us).saturating_add(tuples.len() as u64) <= max_keys {
        return Ok(());
    }
    let other = tuples.other();
    let (days, starts) = bucket_ranks(times, calendar, Level::Day);
    // The events of each key of each day, day by day.
    let groups = group(&days, &tuples.ids, starts.len(), tuples.len());
    let firsts: Vec<usize> = groups.firsts().collect();
    let all: Vec<usize> = (0..groups.len()).collect();
    let encoder = Encoder::new(definition);
    for same_day in all.chunk_by(|a, b| days[firsts[*a]] == days[firsts[*b]]) {
        let day_us = starts[days[firsts[same_day[0]]] as usize];
        let key = |group: &usize| tuples.ids[firsts[*group]];
        let mut own: Vec<usize> = same_day.to_vec();
        own.retain(|group| key(group) != other);
        let at_most = names.at_most((day_us, day_us));
        if at_most.saturating_add(own.len() as u64) <= max_keys {
            continue;
        }
        own.sort_unstable_by_key(|group| firsts[*group]);
        let keys: Vec<u32> = own.iter().map(key).collect();
        let rows = encoder.rows(&tuples.arrays(&keys)?)?;
        for nth in nameless(&rows, names.of(day_us)?, max_keys) {
            for event in groups.items(own[nth]) {
                tuples.ids[*event as usize] = other;
            }
        }
    }
    Ok(())
}

/// Which keys of a day have no name and get none: those that come when no name is left.
fn nameless<'a>(
    keys: &'a Rows,
    named: &'a AdmittedKeys,
    max_keys: u64,
) -> impl Iterator<Item = usize> + 'a {
    let left = max_keys.saturating_sub(named.len() as u64);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    let new = keys
        .iter()
        .enumerate()
        .filter(|(_, key)| !named.contains(key.as_ref()));
    new.skip(left).map(|(nth, _)| nth)
}

#[cfg(test)]
mod tests;
