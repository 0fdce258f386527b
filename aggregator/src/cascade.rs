//! The cascade: events into cells of the finest level, and each coarser level from the one below.
//!
//! Every level is deltas of the events given, never totals. A measure that enters at a coarser
//! level is made from the events of that level's cells and cascades upward from there. Columns of
//! events that several rollups need are read once.

use arrow::array::RecordBatch;
use std::sync::Arc;

use crate::calendar::{Calendar, Cursor, Level};
use crate::cells::{CellSet, Cells};
use crate::column::{Column, EventValues};
use crate::definition::{Component, Definition, KeyType, Number};
use crate::error::Result;
use crate::group::{Grouping, group};
use crate::intern::{Identities, KeyValues, Numbers, bucket_ranks, coupons, keys, times};
use crate::state::Layout;

/// Cascades events through every level of each rollup, in one pass over the columns they share.
///
/// `events` need `time` (microseconds, without nulls); any other column that is missing reads as
/// null. The result is a pure function of the set of events: their order and division do not show.
///
/// # Errors
/// [`crate::Error::Invalid`] when `time` is missing or of another type.
pub fn cascade(definitions: &[&Definition], events: &[RecordBatch]) -> Result<Vec<CellSet>> {
    let shared = Shared::of(definitions, events)?;
    definitions
        .iter()
        .map(|definition| Run::new(definition, &shared)?.finish())
        .collect()
}

/// The cells of a memtable chunk, made once for each rollup (by its generation) and kept with the
/// chunk: what every reader of the chunk adds to the tiles.
pub fn chunk_cells(
    definition: &Definition,
    generation: u32,
    chunk: &storage::Chunk,
) -> Arc<Result<CellSet>> {
    chunk.derived(generation, |events| {
        let sets = cascade(&[definition], std::slice::from_ref(events));
        sets.map(|mut sets| {
            sets.pop()
                .expect("BUG: one definition gives one set of cells")
        })
    })
}

/// A small map by equality: there are a handful of columns.
type Assoc<K, V> = Vec<(K, V)>;

fn lookup<'a, K: PartialEq<Q>, Q: ?Sized, V>(assoc: &'a Assoc<K, V>, key: &Q) -> &'a V {
    &assoc
        .iter()
        .find(|(k, _)| k == key)
        .expect("BUG: every column a definition needs was read")
        .1
}

/// A dictionary of coupons, and per field the coupon of each event.
type Coupons = (Arc<Vec<u64>>, Vec<Vec<u32>>);

/// What the definitions need of the events, each thing once.
struct Shared {
    rows: usize,
    numbers: Assoc<Number, Numbers>,
    buckets: Assoc<(Number, Layout), Vec<u32>>,
    key_values: Assoc<(String, KeyType), KeyValues>,
    /// By list of fields.
    coupons: Assoc<Vec<String>, Coupons>,
    /// By calendar and level: the bucket of each event.
    ranks: Assoc<(Calendar, Level), (Vec<u32>, Vec<i64>)>,
}

impl Shared {
    fn of(definitions: &[&Definition], events: &[RecordBatch]) -> Result<Self> {
        let rows = events.iter().map(RecordBatch::num_rows).sum();
        let times = times(events, rows)?;
        let mut shared = Self {
            rows,
            numbers: Vec::new(),
            buckets: Vec::new(),
            key_values: Vec::new(),
            coupons: Vec::new(),
            ranks: Vec::new(),
        };
        let mut identities: Assoc<String, Identities> = Vec::new();
        for definition in definitions {
            for key in definition.by() {
                let name = (key.name.clone(), key.key_type);
                if !shared.key_values.iter().any(|(k, _)| *k == name) {
                    let values = KeyValues::of(events, rows, &key.name, key.key_type)?;
                    shared.key_values.push((name, values));
                }
            }
            for component in definition.components() {
                shared.read(definition, component, events)?;
            }
            let fields = distinct_fields(definition);
            for field in &fields {
                if !identities.iter().any(|(k, _)| k == field) {
                    identities.push((field.clone(), Identities::of(events, rows, field)?));
                }
            }
            if !shared.coupons.iter().any(|(k, _)| *k == fields) {
                let own: Vec<&Identities> = fields.iter().map(|f| lookup(&identities, f)).collect();
                let (dictionary, per_event) = coupons(&own);
                shared
                    .coupons
                    .push((fields, (Arc::new(dictionary), per_event)));
            }
            for level in definition
                .levels()
                .iter()
                .filter(|l| definition.source(**l).is_none())
            {
                let name = (definition.calendar(), *level);
                if !shared.ranks.iter().any(|(k, _)| *k == name) {
                    shared
                        .ranks
                        .push((name, bucket_ranks(&times, name.0, name.1)));
                }
            }
        }
        Ok(shared)
    }

    /// Reads what a component is made of. Numbers come before their histograms in a definition.
    fn read(
        &mut self,
        definition: &Definition,
        component: &Component,
        events: &[RecordBatch],
    ) -> Result<()> {
        match component {
            Component::Numeric { field, .. } if !self.numbers.iter().any(|(k, _)| k == field) => {
                self.numbers
                    .push((field.clone(), Numbers::of(events, self.rows, field)?));
            }
            Component::Histogram {
                layout, numeric, ..
            } => {
                let name = (number_of(definition, *numeric).clone(), *layout);
                if !self.buckets.iter().any(|(k, _)| *k == name) {
                    let index = lookup(&self.numbers, &name.0).buckets(*layout, name.0.scaled);
                    self.buckets.push((name, index));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn number_of(definition: &Definition, component: usize) -> &Number {
    match &definition.components()[component] {
        Component::Numeric { field, .. } => field,
        _ => unreachable!("BUG: a histogram refers to its numbers"),
    }
}

fn distinct_fields(definition: &Definition) -> Vec<String> {
    let field = |c: &Component| {
        if let Component::Distinct { field, .. } = c {
            Some(field.clone())
        } else {
            None
        }
    };
    definition.components().iter().filter_map(field).collect()
}

/// One level under way.
struct Made {
    level: Level,
    cells: Cells,
    /// Groups of events, or of the cells of `source`.
    groups: Grouping,
    source: Option<usize>,
    /// Groups of events once something needed them.
    event_groups: Option<Arc<Grouping>>,
}

/// The cascade of one rollup.
struct Run<'a> {
    definition: &'a Definition,
    shared: &'a Shared,
    key_ids: Vec<u32>,
    keys: Arc<crate::cells::Keys>,
    coupons: &'a Coupons,
    fields: Vec<String>,
    made: Vec<Made>,
}

impl<'a> Run<'a> {
    fn new(definition: &'a Definition, shared: &'a Shared) -> Result<Self> {
        let columns: Vec<&KeyValues> = definition
            .by()
            .iter()
            .map(|k| lookup(&shared.key_values, &(k.name.clone(), k.key_type)))
            .collect();
        let (key_ids, keys) = keys(&columns, shared.rows)?;
        let fields = distinct_fields(definition);
        let coupons = lookup(&shared.coupons, &fields);
        Ok(Self {
            definition,
            shared,
            key_ids,
            keys: Arc::new(keys),
            coupons,
            fields,
            made: Vec::new(),
        })
    }

    fn finish(mut self) -> Result<CellSet> {
        for level in self.definition.levels() {
            let source = self.definition.source(*level);
            let source = source.and_then(|s| self.made.iter().position(|m| m.level == s));
            let made = match source {
                None => self.level_of_events(*level),
                Some(source) => self.level_of_cells(*level, source),
            };
            self.made.push(made);
        }
        let levels = self.made.into_iter().map(|m| (m.level, m.cells)).collect();
        Ok(CellSet {
            levels,
            events: self.shared.rows as u64,
        })
    }

    /// A level that nothing finer is kept for.
    fn level_of_events(&self, level: Level) -> Made {
        let (ranks, starts) = lookup(&self.shared.ranks, &(self.definition.calendar(), level));
        let groups = group(ranks, &self.key_ids, starts.len(), self.keys.len);
        let bucket = groups.firsts().map(|e| starts[ranks[e] as usize]).collect();
        let key = groups.firsts().map(|e| self.key_ids[e]).collect();
        let count = groups
            .offsets
            .windows(2)
            .map(|w| u64::from(w[1] - w[0]))
            .collect();
        let columns = self
            .definition
            .components()
            .iter()
            .map(|component| {
                component
                    .at(level)
                    .then(|| self.of_events(component, level, &groups))
            })
            .collect();
        let cells = self.cells(bucket, key, count, columns);
        Made {
            level,
            cells,
            groups,
            source: None,
            event_groups: None,
        }
    }

    /// A level from a finer one.
    fn level_of_cells(&mut self, level: Level, source: usize) -> Made {
        let finer = &self.made[source];
        let mut cursor = Cursor::new(self.definition.calendar());
        let mut starts: Vec<i64> = Vec::new();
        let mut ranks = Vec::with_capacity(finer.cells.len());
        for bucket in &finer.cells.bucket {
            // Cells come by bucket, and buckets nest, so parents rise too.
            let start = cursor.bucket(level, *bucket).start_us;
            if starts.last() != Some(&start) {
                starts.push(start);
            }
            ranks.push(starts.len() as u32 - 1);
        }
        let groups = group(&ranks, &finer.cells.key, starts.len(), self.keys.len);
        let bucket = groups.firsts().map(|c| starts[ranks[c] as usize]).collect();
        let key = groups.firsts().map(|c| finer.cells.key[c]).collect();
        let count = groups
            .iter()
            .map(|cells| cells.iter().map(|c| finer.cells.count[*c as usize]).sum())
            .collect();
        let below = finer.level;
        let cells = self.cells(bucket, key, count, Vec::new());
        let mut made = Made {
            level,
            cells,
            groups,
            source: Some(source),
            event_groups: None,
        };
        let enters = |c: &Component| {
            c.at(level) && (!c.at(below) || (c.range_at(level) && !c.range_at(below)))
        };
        if self.definition.components().iter().any(enters) {
            let finer_groups = self.event_groups(source);
            made.event_groups = Some(Arc::new(made.groups.over(&finer_groups)));
        }
        let finer = &self.made[source];
        let components = self
            .definition
            .components()
            .iter()
            .zip(&finer.cells.columns);
        made.cells.columns = components
            .map(|(component, column)| {
                if !component.at(level) {
                    return None;
                }
                Some(match (column, &made.event_groups) {
                    (_, Some(events)) if enters(component) => {
                        self.of_events(component, level, events)
                    }
                    (Some(column), _) => {
                        column.reduce(&made.groups, component.range_at(level), &self.coupons.0)
                    }
                    _ => unreachable!("BUG: a component comes from below or from events"),
                })
            })
            .collect();
        made
    }

    /// The events of each cell of a level that was made before.
    fn event_groups(&mut self, nth: usize) -> Arc<Grouping> {
        if let Some(groups) = &self.made[nth].event_groups {
            return Arc::clone(groups);
        }
        let groups = match self.made[nth].source {
            None => Arc::new(self.made[nth].groups.clone()),
            Some(source) => {
                let finer = self.event_groups(source);
                Arc::new(self.made[nth].groups.over(&finer))
            }
        };
        self.made[nth].event_groups = Some(Arc::clone(&groups));
        groups
    }

    fn of_events(&self, component: &Component, level: Level, groups: &Grouping) -> Column {
        let values = match component {
            Component::Numeric { field, .. } => {
                EventValues::Numbers(lookup(&self.shared.numbers, field))
            }
            Component::Histogram {
                layout, numeric, ..
            } => {
                let name = (number_of(self.definition, *numeric).clone(), *layout);
                let index: &Vec<u32> = lookup(&self.shared.buckets, &name);
                EventValues::Buckets(index, *layout)
            }
            Component::Distinct { field, .. } => {
                let nth = self
                    .fields
                    .iter()
                    .position(|f| f == field)
                    .expect("BUG: each distinct field is listed");
                EventValues::Coupons(&self.coupons.1[nth])
            }
        };
        Column::of_events(&values, groups, component.range_at(level), &self.coupons.0)
    }

    fn cells(
        &self,
        bucket: Vec<i64>,
        key: Vec<u32>,
        count: Vec<u64>,
        columns: Vec<Option<Column>>,
    ) -> Cells {
        let (keys, coupons) = (Arc::clone(&self.keys), Arc::clone(&self.coupons.0));
        Cells {
            keys,
            coupons,
            bucket,
            key,
            count,
            columns,
        }
    }
}

#[cfg(test)]
mod tests;
