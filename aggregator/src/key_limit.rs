//! The key limit: in each day of a rollup the first keys are admitted, by the sequence number of
//! their first event. Events of that day with any other key count under `(other)`, at every level.
//!
//! # Invariants
//! * The admitted keys are a pure function of the events that the rollup's generation covers. They
//!   do not depend on the division into seals and chunks, on compaction or on the order in which
//!   parts are read.
//! * The cells of the day level, except `(other)`, are the list of the admitted keys: a rollup with
//!   a limit keeps that level for ever.
//! * Reads, merges and comparisons treat `(other)` as any other key. Events whose own key equals it
//!   count under it, and that key does not count towards the limit.
//! * If no day can exceed the limit, no file is read and no event is examined.

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
use crate::keys::OTHER;

/// The keys that each day has admitted before some events.
pub(crate) trait KeyAdmission {
    /// Returns an upper bound of the admitted keys of any day that starts in this closed range.
    fn at_most(&mut self, days_us: (i64, i64)) -> u64;

    /// Returns the admitted keys of the day that starts at `day_us`.
    fn of(&mut self, day_us: i64) -> Result<&AdmittedKeys>;
}

/// The admission before the first event: no keys.
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

/// An encoder of keys as bytes, which are equal if and only if the keys are.
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

    /// Returns the encoded key `(other)`.
    pub(crate) fn other(&self, definition: &Definition) -> Result<Box<[u8]>> {
        let column = |key_type: KeyType| match key_type {
            KeyType::Text => Arc::new(StringArray::from(vec![OTHER])) as ArrayRef,
            KeyType::Int16 | KeyType::Int64 => new_null_array(&key_type.arrow(), 1),
        };
        let columns: Vec<ArrayRef> = definition.by().iter().map(|k| column(k.key_type)).collect();
        Ok(self.rows(&columns)?.row(0).as_ref().into())
    }
}

/// Replaces the key of every event whose key is not admitted by `(other)`. Until a day has reached
/// the limit, its keys are admitted in the order of the events.
pub(crate) fn fold(
    tuples: &mut Tuples<'_>,
    times: &[i64],
    definition: &Definition,
    admission: &mut impl KeyAdmission,
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
    let admitted_max = admission.at_most(days_us);
    if admitted_max.saturating_add(tuples.len() as u64) <= max_keys {
        return Ok(());
    }
    let other = tuples.other();
    let (days, starts) = bucket_ranks(times, calendar, Level::Day);
    // Events grouped by day and key, in the order of days.
    let groups = group(&days, &tuples.ids, starts.len(), tuples.len());
    let firsts: Vec<usize> = groups.firsts().collect();
    let all: Vec<usize> = (0..groups.len()).collect();
    let encoder = Encoder::new(definition);
    for same_day in all.chunk_by(|a, b| days[firsts[*a]] == days[firsts[*b]]) {
        let day_us = starts[days[firsts[same_day[0]]] as usize];
        let key = |group: &usize| tuples.ids[firsts[*group]];
        let mut own: Vec<usize> = same_day.to_vec();
        own.retain(|group| key(group) != other);
        let admitted_max = admission.at_most((day_us, day_us));
        if admitted_max.saturating_add(own.len() as u64) <= max_keys {
            continue;
        }
        own.sort_unstable_by_key(|group| firsts[*group]);
        let keys: Vec<u32> = own.iter().map(key).collect();
        let rows = encoder.rows(&tuples.arrays(&keys)?)?;
        for nth in not_admitted(&rows, admission.of(day_us)?, max_keys) {
            for event in groups.items(own[nth]) {
                tuples.ids[*event as usize] = other;
            }
        }
    }
    Ok(())
}

/// Returns the positions of the keys of a day that are not admitted: the new keys beyond the limit.
fn not_admitted<'a>(
    keys: &'a Rows,
    admitted: &'a AdmittedKeys,
    max_keys: u64,
) -> impl Iterator<Item = usize> + 'a {
    let free = max_keys.saturating_sub(admitted.len() as u64);
    let free = usize::try_from(free).unwrap_or(usize::MAX);
    let new = keys
        .iter()
        .enumerate()
        .filter(|(_, key)| !admitted.contains(key.as_ref()));
    new.skip(free).map(|(nth, _)| nth)
}

#[cfg(test)]
mod tests;
