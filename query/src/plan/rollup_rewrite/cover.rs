//! Divides a range of time into pieces, each answered by one level or by raw events. Pure.
//!
//! # Invariants
//! * The pieces are the range, in order: no gap, no overlap.
//! * A piece of a level begins and ends at the edges of its buckets, and not below the level's
//!   floor.
//! * No piece of a level meets a range that only raw events may answer.
//! * No bucket of a piece of a level holds both sides of a cut.

use aggregator::{Calendar, Level};

use crate::tables::stream::prune::TimeRange;

/// A piece of a range, and the level that answers it: `None` for raw events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) range: TimeRange,
    pub(super) level: Option<Level>,
}

/// A level that may answer, and the start of the first bucket that it still holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usable {
    pub(super) level: Level,
    pub(super) floor_us: i64,
}

/// Covers a range, with `levels` from the coarsest to the finest: each takes the whole buckets
/// that the levels before it left. Ranges in `raw`, which are in order and disjoint, are for raw
/// events. `cuts` are instants in order, each the first one after the cut.
pub(super) fn cover(
    calendar: Calendar,
    range: TimeRange,
    levels: &[Usable],
    (raw, cuts): (&[TimeRange], &[i64]),
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut first = Some(range.first);
    for barred in raw.iter().filter(|r| r.meets((range.first, range.last))) {
        let Some(from) = first else { break };
        if from < barred.first {
            let before = TimeRange {
                first: from,
                last: barred.first - 1,
            };
            fill_between(calendar, before, levels, cuts, &mut pieces);
        }
        let barred = TimeRange {
            first: from.max(barred.first),
            last: barred.last.min(range.last),
        };
        push(&mut pieces, barred, None);
        first = barred.last.checked_add(1).filter(|f| *f <= range.last);
    }
    if let Some(first) = first {
        let rest = TimeRange {
            first,
            last: range.last,
        };
        fill_between(calendar, rest, levels, cuts, &mut pieces);
    }
    pieces
}

/// Fills the ranges between cuts, each by itself: a bucket with a cut within lies whole in none
/// of them.
fn fill_between(
    calendar: Calendar,
    range: TimeRange,
    levels: &[Usable],
    cuts: &[i64],
    pieces: &mut Vec<Piece>,
) {
    let mut first = range.first;
    for cut in cuts.iter().filter(|cut| range.contains(**cut)) {
        if first < *cut {
            let before = TimeRange {
                first,
                last: *cut - 1,
            };
            fill(calendar, before, levels, pieces);
            first = *cut;
        }
    }
    let rest = TimeRange {
        first,
        last: range.last,
    };
    fill(calendar, rest, levels, pieces);
}

fn fill(calendar: Calendar, range: TimeRange, levels: &[Usable], pieces: &mut Vec<Piece>) {
    if range.first > range.last {
        return;
    }
    let Some((coarsest, finer)) = levels.split_first() else {
        return push(pieces, range, None);
    };
    match whole_buckets(calendar, *coarsest, range) {
        None => fill(calendar, range, finer, pieces),
        Some(inner) => {
            if range.first < inner.first {
                let before = TimeRange {
                    first: range.first,
                    last: inner.first - 1,
                };
                fill(calendar, before, finer, pieces);
            }
            push(pieces, inner, Some(coarsest.level));
            if inner.last < range.last {
                let after = TimeRange {
                    first: inner.last + 1,
                    last: range.last,
                };
                fill(calendar, after, finer, pieces);
            }
        }
    }
}

/// Returns the range of the level's buckets that lie whole in `range`. An unbounded end counts as
/// the end of a bucket.
fn whole_buckets(calendar: Calendar, usable: Usable, range: TimeRange) -> Option<TimeRange> {
    let bucket = |at_us| calendar.bucket(usable.level, at_us);
    // A floor is the start of a bucket.
    let first = match range.first.max(usable.floor_us) {
        i64::MIN => i64::MIN,
        at => {
            let bucket = bucket(at);
            match bucket.start_us == at {
                true => at,
                false => bucket.end_us,
            }
        }
    };
    let last = match range.last {
        i64::MAX => i64::MAX,
        at => {
            let bucket = bucket(at);
            match bucket.end_us - 1 == at {
                true => at,
                false => bucket.start_us.saturating_sub(1),
            }
        }
    };
    (first <= last).then_some(TimeRange { first, last })
}

fn push(pieces: &mut Vec<Piece>, range: TimeRange, level: Option<Level>) {
    match pieces.last_mut() {
        Some(before) if before.level == level => before.range.last = range.last,
        _ => pieces.push(Piece { range, level }),
    }
}

#[cfg(test)]
mod tests;
