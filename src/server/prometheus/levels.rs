//! The choice of the level that a selector reads.

use aggregator::{Calendar, Level};

use super::families::Family;
use super::statement::Buckets;
use crate::promql::{Need, Reads, Steps};

/// Most instants whose alignment is looked at; beyond it the finest level is read.
const STEPS_MAX: u64 = 20_000;
/// The earliest and latest instant that a query reads, milliseconds: the beginnings of 1678 and
/// 2262. SQL compares a time in a text by nanoseconds, which 64 bits hold from 1677 to 2262.
const TIMES_MS: (i64, i64) = (-9_214_560_000_000, 9_214_646_400_000);

/// Returns an instant in microseconds.
pub(super) fn us(t_ms: i64) -> i64 {
    t_ms.clamp(TIMES_MS.0, TIMES_MS.1) * 1_000
}

/// Returns whether each edge of each window begins a bucket.
fn is_aligned(calendar: Calendar, level: Level, steps: Steps, range: i64) -> bool {
    let begins = |t: i64| calendar.bucket(level, us(t)).start_us == us(t);
    let edges = |t: i64| begins(t) && (range == 0 || begins(t.saturating_sub(range)));
    steps.count() <= STEPS_MAX && steps.iter().all(edges)
}

/// Returns the levels that a selector reads of a family. Of a counter it is the coarsest whose
/// buckets align with all windows and are all known (of instants not weeks), or the finest; of a
/// gauge those that it names, or the finest.
pub(super) fn levels(family: &Family, need: &Need) -> Vec<Level> {
    let finest: Vec<Level> = family.levels().take(1).collect();
    if family.is_gauge() {
        return family.levels_of(&need.matchers).unwrap_or(finest);
    }
    let range = match need.reads {
        Reads::Instants => 0,
        Reads::Increase(range) => range,
        Reads::Samples(_) | Reads::LastIncrease(_) => return finest,
    };
    let calendar = family.calendar();
    let from_us = us(need.steps.start.saturating_sub(range));
    let mut aligned: Vec<Level> = family.levels().rev().collect();
    aligned.retain(|level| is_aligned(calendar, *level, need.steps, range));
    if let Reads::Instants = need.reads {
        // An instant is the sum of all time before, and months do not add up to it at a week.
        aligned.retain(|level| *level != Level::Week);
    }
    let is_known = |level: &&Level| family.complete_from_us(**level) <= from_us;
    match aligned.iter().find(is_known).or(aligned.first()) {
        Some(level) => vec![*level],
        None => finest,
    }
}

/// Returns the buckets that a selector reads of a level; with `has_base` only those that are known,
/// since the ones before are added up. `None` if there is no such bucket.
pub(super) fn buckets(
    family: &Family,
    level: Level,
    need: &Need,
    has_base: bool,
) -> Option<Buckets> {
    let calendar = family.calendar();
    let start = |t_us: i64| calendar.bucket(level, t_us).start_us;
    let (from, to_us) = (
        us(need.steps.start.saturating_sub(need.reads.range())),
        start(us(need.steps.end)),
    );
    let mut first = match (family.is_gauge(), need.reads) {
        // The sample of an instant is that of the bucket that ended last.
        (true, Reads::Instants) => start(start(from) - 1),
        _ => start(from),
    };
    if has_base {
        first = first.max(family.complete_from_us(level));
    }
    (first <= to_us).then_some(Buckets {
        from_us: Some(first),
        to_us,
    })
}

/// Divides all time before `to_us`, the start of a bucket of `level`, into buckets of the coarsest
/// levels that end there or before. The time before the first known bucket of the coarsest one is
/// left out: a counter may begin anywhere.
pub(super) fn before(family: &Family, level: Level, to_us: i64) -> Vec<(Level, Buckets)> {
    let calendar = family.calendar();
    let mut pieces = Vec::new();
    let mut from_us = None;
    // Weeks begin within months and years.
    let levels = family.levels();
    let levels = levels.filter(|l| *l > level && *l != Level::Week && level != Level::Week);
    for coarse in levels.rev() {
        let until_us = calendar.bucket(coarse, to_us).start_us;
        let is_known = from_us.is_none_or(|from| family.complete_from_us(coarse) <= from);
        if is_known && from_us.is_none_or(|from| from < until_us) {
            let to_us = until_us;
            pieces.push((coarse, Buckets { from_us, to_us }));
            from_us = Some(until_us);
        }
    }
    if from_us.is_none_or(|from| from < to_us) {
        pieces.push((level, Buckets { from_us, to_us }));
    }
    pieces
}

#[cfg(test)]
mod tests;
