//! The windows of time in which a rollup is verified: no wider than the comparison needs.

use std::collections::BTreeSet;

use storage::{RollupMeta, Snapshot, partition_end};

use crate::calendar::{Bucket, Calendar, Level};
use crate::definition::Definition;

/// Returns the coarsest level with a state that comes from events. All coarser levels are merged
/// from finer ones.
pub(super) fn entry_level(definition: &Definition) -> Level {
    let all = definition.levels().iter().copied();
    let components = definition.components();
    let enters = |level: &Level| {
        components.iter().any(|c| {
            let below = definition.source(*level);
            c.at(*level) && below.is_none_or(|b| !c.at(b) || (c.range_at(*level) && !c.range_at(b)))
        })
    };
    all.filter(enters)
        .max()
        .unwrap_or_else(|| definition.levels()[0])
}

/// The times at which a rollup has events or cells.
#[derive(Debug)]
pub(super) struct Windows {
    calendar: Calendar,
    days: Vec<Bucket>,
    /// Partitions whose raw events were dropped or are detached, and times not counted yet.
    incomplete: Vec<(i64, i64)>,
}

impl Windows {
    pub(super) fn of(snapshot: &Snapshot, meta: &RollupMeta, definition: &Definition) -> Self {
        let calendar = definition.calendar();
        let mut buckets = BTreeSet::new();
        let mut add = |from_us: i64, to_us: i64| {
            let mut at = calendar.bucket(Level::Day, from_us);
            while at.start_us <= to_us {
                buckets.insert(at);
                at = calendar.bucket(Level::Day, at.end_us);
            }
        };
        let manifest = snapshot.manifest();
        for part in manifest.parts_of(&meta.stream) {
            add(part.time.0, part.time.1);
        }
        for chunk in snapshot.chunks(meta.stream.as_str()) {
            add(chunk.time.0, chunk.time.1);
        }
        let finest = definition.levels()[0];
        let files = manifest.tiles_of(meta.id).flat_map(|t| &t.files);
        for section in files.flat_map(|f| &f.sections) {
            if section.level == finest.as_str() {
                add(section.bucket_min_us, section.bucket_max_us);
            }
        }
        let width = manifest.streams.get(&meta.stream).map(|s| s.partition);
        let end_us = |start_us| partition_end(width.unwrap_or_default(), start_us);
        let passed = meta.history.iter().flat_map(|h| h.detached.iter().copied());
        let incomplete = manifest.incomplete(&meta.stream).chain(passed);
        let incomplete = incomplete.map(|start| (start, end_us(start)));
        // Events that wait to be counted are missing from the cells.
        let waiting = meta.counts_from_us().map(|until_us| (i64::MIN, until_us));
        Self {
            calendar,
            days: buckets.into_iter().collect(),
            incomplete: incomplete.chain(waiting).collect(),
        }
    }

    /// Returns the days with events or cells.
    pub(super) fn days(&self) -> &[Bucket] {
        &self.days
    }

    /// Returns whether all raw events of a window are there and counted.
    pub(super) fn is_complete(&self, window: &Bucket) -> bool {
        let lacks = |(start, end): &(i64, i64)| *start < window.end_us && *end > window.start_us;
        !self.incomplete.iter().any(lacks)
    }

    /// Returns the windows in which a coarser level is compared: runs of adjacent buckets, about a
    /// month of days or a year of months each.
    pub(super) fn of_level(&self, level: Level) -> Vec<Bucket> {
        let together = match level {
            Level::Minute | Level::Hour => 24,
            Level::Day => 31,
            Level::Week => 5,
            Level::Month => 12,
            Level::Year => 1,
        };
        let mut windows: Vec<(Bucket, u32)> = Vec::new();
        for day in &self.days {
            let mut at = self.calendar.bucket(level, day.start_us);
            while at.start_us < day.end_us {
                match windows.last_mut() {
                    Some((last, _)) if last.end_us > at.start_us => {}
                    Some((last, count)) if last.end_us == at.start_us && *count < together => {
                        last.end_us = at.end_us;
                        *count += 1;
                    }
                    _ => windows.push((at, 1)),
                }
                at = self.calendar.bucket(level, at.end_us);
            }
        }
        windows.into_iter().map(|(window, _)| window).collect()
    }
}
