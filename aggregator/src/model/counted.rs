//! The expected contents of a rollup's levels: cells made of events, by time partition, and floors
//! below which a level shows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::naive::{self, ColumnValue};
use super::rollups::{MAX_KEYS, Rollup};
use crate::calendar::Level;
use crate::keys::KeyValue;
use crate::testing::AccessEvent;

pub(super) type KeyTuple = Vec<KeyValue>;
/// Bucket, key, and the other columns, of which the bucket's end is the first.
pub(super) type ExpectedRow = (i64, KeyTuple, Rc<Vec<ColumnValue>>);

#[derive(Debug, Clone, Default)]
struct ExpectedCell {
    events: Vec<Rc<AccessEvent>>,
    /// The columns, computed when they are first read after the last event was added.
    row: Option<Rc<Vec<ColumnValue>>>,
}

/// The expected cells of one level.
#[derive(Debug, Clone)]
pub(super) struct ExpectedLevel {
    pub(super) level: Level,
    /// Buckets that begin before this are not shown.
    pub(super) floor_us: i64,
    /// Events that were sealed when their bucket was below the floor already.
    pub(super) late: u64,
    /// Cells by time partition.
    partitions: BTreeMap<i64, BTreeMap<(i64, KeyTuple), ExpectedCell>>,
    /// The time partition of each event, by sequence number.
    partition_of: BTreeMap<u64, i64>,
    /// Time partitions that may have changed since they were last compared.
    pub(super) changed: BTreeSet<i64>,
}

/// The expected cells of one rollup.
#[derive(Debug, Clone)]
pub(super) struct ExpectedRollup {
    pub(super) rollup: Rollup,
    pub(super) levels: Vec<ExpectedLevel>,
    /// The admitted keys, by local day.
    admitted: BTreeMap<i64, BTreeSet<KeyTuple>>,
}

impl ExpectedLevel {
    fn new(level: Level) -> Self {
        Self {
            level,
            floor_us: i64::MIN,
            late: 0,
            partitions: BTreeMap::new(),
            partition_of: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Returns the time partitions of the events with these sequence numbers.
    pub(super) fn partitions_of(
        &self,
        seqs: impl std::ops::RangeBounds<u64>,
    ) -> impl Iterator<Item = (u64, i64)> {
        self.partition_of
            .range(seqs)
            .map(|(seq, partition_us)| (*seq, *partition_us))
    }

    /// Marks every time partition as changed.
    pub(super) fn all_changed(&mut self) {
        self.changed.extend(self.partitions.keys());
    }

    /// Moves the floor.
    pub(super) fn cut(&mut self, floor_us: i64) {
        self.floor_us = floor_us;
        self.all_changed();
    }

    fn forget(&mut self) {
        self.all_changed();
        self.partitions.clear();
        self.partition_of.clear();
    }
}

impl ExpectedRollup {
    pub(super) fn new(rollup: Rollup) -> Self {
        let levels = rollup
            .levels
            .iter()
            .map(|l| ExpectedLevel::new(*l))
            .collect();
        Self {
            rollup,
            levels,
            admitted: BTreeMap::new(),
        }
    }

    /// Forgets every event.
    pub(super) fn forget(&mut self) {
        self.levels.iter_mut().for_each(ExpectedLevel::forget);
        self.admitted.clear();
    }

    /// Counts an event. Events come in the order of their sequence numbers.
    pub(super) fn add(&mut self, seq: u64, event: &Rc<AccessEvent>) {
        let calendar = self.rollup.calendar;
        let key = self.key_of(event);
        for counts in &mut self.levels {
            let bucket_us = calendar.bucket(counts.level, event.time).start_us;
            let partition_us = calendar.partition(counts.level, bucket_us);
            let cells = counts.partitions.entry(partition_us).or_default();
            let cell = cells.entry((bucket_us, key.clone())).or_default();
            cell.events.push(Rc::clone(event));
            cell.row = None;
            counts.partition_of.insert(seq, partition_us);
            counts.changed.insert(partition_us);
        }
    }

    /// Returns the event's own key, or `(other)` when its day has no more keys to admit.
    fn key_of(&mut self, event: &AccessEvent) -> KeyTuple {
        let key = self.rollup.key_of(event);
        let Some(max_keys) = MAX_KEYS.filter(|_| !key.is_empty()) else {
            return key;
        };
        let other: KeyTuple = self.rollup.other();
        let day = self.rollup.calendar.bucket(Level::Day, event.time).start_us;
        let admitted = self.admitted.entry(day).or_default();
        if key == other || admitted.contains(&key) {
            return key;
        }
        if admitted.len() < max_keys {
            admitted.insert(key.clone());
            return key;
        }
        other
    }

    /// Returns the rows that a level must show in the time partitions that have changed.
    pub(super) fn changed_rows(&mut self, nth: usize) -> Vec<ExpectedRow> {
        let Self { rollup, levels, .. } = self;
        let counts = &mut levels[nth];
        let mut rows = Vec::new();
        for partition_us in counts.changed.range(counts.floor_us..) {
            if let Some(cells) = counts.partitions.get_mut(partition_us) {
                rows.extend(rows_of(rollup, counts.level, cells));
            }
        }
        rows
    }

    /// Returns all rows that a level must show.
    pub(super) fn all_rows(&mut self, nth: usize) -> Vec<ExpectedRow> {
        let Self { rollup, levels, .. } = self;
        let counts = &mut levels[nth];
        let above = counts.partitions.range_mut(counts.floor_us..);
        above
            .flat_map(|(_, cells)| rows_of(rollup, counts.level, cells))
            .collect()
    }
}

fn rows_of(
    rollup: &Rollup,
    level: Level,
    cells: &mut BTreeMap<(i64, KeyTuple), ExpectedCell>,
) -> Vec<ExpectedRow> {
    let row = |((bucket_us, key), cell): (&(i64, KeyTuple), &mut ExpectedCell)| {
        let ExpectedCell { events, row } = cell;
        let row = row.get_or_insert_with(|| Rc::new(row_of(rollup, level, *bucket_us, events)));
        (*bucket_us, key.clone(), Rc::clone(row))
    };
    cells.iter_mut().map(row).collect()
}

fn row_of(
    rollup: &Rollup,
    level: Level,
    bucket_us: i64,
    events: &[Rc<AccessEvent>],
) -> Vec<ColumnValue> {
    let end_us = rollup.calendar.bucket(level, bucket_us).end_us;
    let mut values = vec![ColumnValue::Int(end_us)];
    for measure in rollup.measures_at(level) {
        naive::columns(measure, events.iter().map(Rc::as_ref), &mut values);
    }
    values
}
