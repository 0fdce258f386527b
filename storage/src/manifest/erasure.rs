//! Erasures: edits that take events out of parts and rollups alike, and the record of each.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Manifest, SectionKey, StreamMeta, TileFile};
use crate::model::Name;

/// Erasures of a stream that are recorded one by one; the oldest of more are added up.
const ERASURES_MAX: usize = 1000;

/// The record of one erasure: when and how much, and not what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erasure {
    /// Time of the erasure, microseconds since 1970.
    pub at_us: i64,
    /// Events erased from the parts.
    pub events: u64,
    /// Erased events that the rollups still count, because other raw events of their days no longer
    /// exist. They are among the stream's dropped events.
    pub still_counted: u64,
}

/// The change of one rollup by an erasure.
#[derive(Debug)]
pub(crate) struct Recount {
    pub(crate) rollup: u32,
    /// Erased events that the tiles counted.
    pub(crate) counted: u64,
    /// Erased events that the history had not counted yet.
    pub(crate) waiting: u64,
    /// Erased events below the floor of a level, by level.
    pub(crate) below: BTreeMap<String, u64>,
    /// Sections to be replaced.
    pub(crate) gone: BTreeSet<SectionKey>,
    /// Files that replace them.
    pub(crate) files: Vec<TileFile>,
}

impl StreamMeta {
    /// Returns the number of events that erasures took out of parts and rollups alike.
    pub fn erased_events(&self) -> u64 {
        let erased = |e: &Erasure| e.events - e.still_counted.min(e.events);
        self.erasures.iter().map(erased).sum()
    }

    fn record(&mut self, erasure: Erasure) {
        self.erasures.push(erasure);
        if self.erasures.len() > ERASURES_MAX {
            let oldest = self.erasures.remove(0);
            let next = &mut self.erasures[0];
            next.events += oldest.events;
            next.still_counted += oldest.still_counted;
        }
    }
}

impl Manifest {
    /// Records that events of a stream were erased from its parts at `at_us`. `kept` are those that
    /// its rollups still count, by the start of their partition.
    pub(crate) fn erase(
        &mut self,
        stream: &Name,
        at_us: i64,
        events: u64,
        kept: &BTreeMap<i64, u64>,
    ) {
        let complete_from = self.sealed_seq;
        let Some(meta) = self.streams.get_mut(stream) else {
            return;
        };
        let still_counted = kept.values().sum();
        meta.sealed_events = meta.sealed_events.saturating_sub(events - still_counted);
        for (partition_us, events) in kept {
            meta.lose(*partition_us, complete_from, *events);
        }
        meta.record(Erasure {
            at_us,
            events,
            still_counted,
        });
    }

    /// Replaces the sections of a rollup that counted erased events. Its tiles become one, since it
    /// is not known which of them counted the events. The rollup becomes a new generation: readers
    /// remember the admitted keys of the former one, and some may have come with erased events.
    pub(crate) fn recount(&mut self, recount: Recount) {
        let id = recount.rollup;
        let Some(nth) = self.rollups.iter().position(|r| r.id == id) else {
            return;
        };
        let mut meta = self.rollups.remove(nth);
        meta.id = self.next_rollup;
        self.next_rollup += 1;
        if let Some(history) = &mut meta.history {
            history.missing = history.missing.saturating_sub(recount.waiting);
            if history.until_us.is_none() && history.missing == 0 {
                meta.history = None;
            }
        }
        if let Some(mut joined) = self.join_all(id) {
            let is_gone = |path: &str, s: &_| recount.gone.contains(&SectionKey::of(path, s));
            let (paths, _) = joined.remove_sections(is_gone);
            self.add_pending(paths);
            joined.files.extend(recount.files);
            joined.rollup = meta.id;
            joined.events = joined.events.saturating_sub(recount.counted);
            for (level, events) in &recount.below {
                if let Some(dropped) = joined.dropped.get_mut(level) {
                    *dropped = dropped.saturating_sub(*events);
                }
            }
            joined.dropped.retain(|_, events| *events > 0);
            self.tiles.push(joined);
        }
        self.rollups.push(meta);
    }
}
