//! What the levels of one rollup must show: cells made of events, by time partition, and floors below
//! which a level shows nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::naive::{self, Value};
use super::rollups::{MAX_KEYS, Rollup};
use crate::calendar::Level;
use crate::cells::KeyValue;
use crate::testing::Event;

pub(super) type Key = Vec<KeyValue>;
/// Bucket, key, and the columns from the bucket's end on but for the keys.
pub(super) type Row = (i64, Key, Rc<Vec<Value>>);

#[derive(Debug, Clone, Default)]
struct Cell {
    events: Vec<Rc<Event>>,
    /// Once it was asked for.
    row: Option<Rc<Vec<Value>>>,
}

/// One level.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    pub(super) level: Level,
    /// Buckets that begin before this are not shown.
    pub(super) floor_us: i64,
    /// Events that were sealed when their bucket was below already.
    pub(super) late: u64,
    /// By time partition.
    places: BTreeMap<i64, BTreeMap<(i64, Key), Cell>>,
    /// The time partition of each event.
    place_of: BTreeMap<u64, i64>,
    /// Time partitions that may show something else than when they were compared last.
    pub(super) changed: BTreeSet<i64>,
}

/// One rollup.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub(super) rollup: Rollup,
    pub(super) levels: Vec<Counts>,
    /// The keys that keep their names, by local day.
    named: BTreeMap<i64, BTreeSet<Key>>,
}

impl Counts {
    fn new(level: Level) -> Self {
        Self {
            level,
            floor_us: i64::MIN,
            late: 0,
            places: BTreeMap::new(),
            place_of: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Where events of these sequence numbers lie.
    pub(super) fn places_of(
        &self,
        seqs: impl std::ops::RangeBounds<u64>,
    ) -> impl Iterator<Item = (u64, i64)> {
        self.place_of.range(seqs).map(|(seq, place)| (*seq, *place))
    }

    /// Everything is to be compared again.
    pub(super) fn all_changed(&mut self) {
        self.changed.extend(self.places.keys());
    }

    /// The level ends here from now on.
    pub(super) fn cut(&mut self, floor_us: i64) {
        self.floor_us = floor_us;
        self.all_changed();
    }

    fn forget(&mut self) {
        self.all_changed();
        self.places.clear();
        self.place_of.clear();
    }
}

impl Counted {
    pub(super) fn new(rollup: Rollup) -> Self {
        let levels = rollup.levels.iter().map(|l| Counts::new(*l)).collect();
        Self {
            rollup,
            levels,
            named: BTreeMap::new(),
        }
    }

    /// Forgets every event.
    pub(super) fn forget(&mut self) {
        self.levels.iter_mut().for_each(Counts::forget);
        self.named.clear();
    }

    /// Counts an event; they come in the order of their sequence numbers.
    pub(super) fn add(&mut self, seq: u64, event: &Rc<Event>) {
        let calendar = self.rollup.calendar;
        let key = self.key_of(event);
        for counts in &mut self.levels {
            let bucket_us = calendar.bucket(counts.level, event.time).start_us;
            let place = calendar.place(counts.level, bucket_us);
            let cells = counts.places.entry(place).or_default();
            let cell = cells.entry((bucket_us, key.clone())).or_default();
            cell.events.push(Rc::clone(event));
            cell.row = None;
            counts.place_of.insert(seq, place);
            counts.changed.insert(place);
        }
    }

    /// An event's key, or the one for those that came after so many others of its day.
    fn key_of(&mut self, event: &Event) -> Key {
        let key = self.rollup.key_of(event);
        let Some(max_keys) = MAX_KEYS.filter(|_| !key.is_empty()) else {
            return key;
        };
        let other: Key = self.rollup.other();
        let day = self.rollup.calendar.bucket(Level::Day, event.time).start_us;
        let named = self.named.entry(day).or_default();
        if key == other || named.contains(&key) {
            return key;
        }
        if named.len() < max_keys {
            named.insert(key.clone());
            return key;
        }
        other
    }

    /// What a level shows of its time partitions that have changed.
    pub(super) fn changed_rows(&mut self, nth: usize) -> Vec<Row> {
        let Self { rollup, levels, .. } = self;
        let counts = &mut levels[nth];
        let mut rows = Vec::new();
        for place in counts.changed.range(counts.floor_us..) {
            if let Some(cells) = counts.places.get_mut(place) {
                rows.extend(rows_of(rollup, counts.level, cells));
            }
        }
        rows
    }

    /// What a level shows.
    pub(super) fn all_rows(&mut self, nth: usize) -> Vec<Row> {
        let Self { rollup, levels, .. } = self;
        let counts = &mut levels[nth];
        let above = counts.places.range_mut(counts.floor_us..);
        above
            .flat_map(|(_, cells)| rows_of(rollup, counts.level, cells))
            .collect()
    }
}

fn rows_of(rollup: &Rollup, level: Level, cells: &mut BTreeMap<(i64, Key), Cell>) -> Vec<Row> {
    let row = |((bucket_us, key), cell): (&(i64, Key), &mut Cell)| {
        let Cell { events, row } = cell;
        let row = row.get_or_insert_with(|| Rc::new(row_of(rollup, level, *bucket_us, events)));
        (*bucket_us, key.clone(), Rc::clone(row))
    };
    cells.iter_mut().map(row).collect()
}

fn row_of(rollup: &Rollup, level: Level, bucket_us: i64, events: &[Rc<Event>]) -> Vec<Value> {
    let end_us = rollup.calendar.bucket(level, bucket_us).end_us;
    let mut values = vec![Value::Int(end_us)];
    for measure in rollup.measures_at(level) {
        naive::columns(measure, events.iter().map(Rc::as_ref), &mut values);
    }
    values
}
