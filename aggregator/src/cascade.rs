//! The cascade computes the cells of the finest level from events, and those of each coarser level
//! from the nearest finer one.
//!
//! Every level holds deltas of the given events, never totals. A measure that enters at a coarser
//! level is computed from the events of that level's cells and cascades upward from there. A column
//! that several rollups need is read once. A filtered measure is computed from the events of each
//! group that pass; the cells, their keys and their own counts do not depend on filters. The key
//! limit is applied before any grouping, so every level has the same admitted keys.

mod chunks;
mod shared;

pub use chunks::chunk_cells;

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::calendar::{Cursor, Level};
use crate::cells::{CellSet, Cells};
use crate::column::{EventValues, StateColumn};
use crate::definition::{Component, Definition};
use crate::error::Result;
use crate::group::{Grouping, group};
use crate::intern::{KeyValues, Tuples};
use crate::key_limit::{self, KeyAdmission, NothingAdmitted};
use crate::keys::Keys;
#[cfg(test)]
use crate::seeded::{self, Bug};
use shared::{Coupons, SharedColumns, distinct_fields, lookup, number_of};

/// Cascades events through every level of each rollup, in one pass over the columns they share.
///
/// `events` need `time` (microseconds, without nulls); any other missing column is read as null.
/// The events are in the order of their sequence numbers, and no events precede them: the first
/// keys of a day are admitted. As long as no day has more keys than the key limit, the result is a
/// pure function of the set of events and does not depend on their order or division into batches.
///
/// # Errors
/// [`crate::Error::Invalid`] when `time` is missing or of another type.
pub fn cascade(definitions: &[&Definition], events: &[RecordBatch]) -> Result<Vec<CellSet>> {
    let mut admissions: Vec<NothingAdmitted> = definitions
        .iter()
        .map(|_| NothingAdmitted::default())
        .collect();
    cascade_after(definitions, &mut admissions, events)
}

/// Cascades as [`cascade()`] does, with the keys that each rollup admitted before these events.
pub(crate) fn cascade_after(
    definitions: &[&Definition],
    admissions: &mut [impl KeyAdmission],
    events: &[RecordBatch],
) -> Result<Vec<CellSet>> {
    #[cfg(test)]
    let events = &*with_open_ends(events)?;
    let shared = SharedColumns::of(definitions, events)?;
    definitions
        .iter()
        .zip(admissions)
        .map(|(definition, admission)| Run::new(definition, &shared, admission)?.finish())
        .collect()
}

/// Applies [`Bug::OpenEnds`]: drops the events exactly at the start of a minute.
#[cfg(test)]
fn with_open_ends(events: &[RecordBatch]) -> Result<Cow<'_, [RecordBatch]>> {
    use arrow::array::AsArray;
    use arrow::compute::filter_record_batch;
    use arrow::datatypes::TimestampMicrosecondType;

    if !seeded::is(Bug::OpenEnds) {
        return Ok(Cow::Borrowed(events));
    }
    let inside = |batch: &RecordBatch| {
        let times = batch[storage::TIME].as_primitive::<TimestampMicrosecondType>();
        let inside = times.values().iter().map(|t| Some(t % 60_000_000 != 0));
        Ok(filter_record_batch(batch, &inside.collect())?)
    };
    let kept: Result<Vec<RecordBatch>> = events.iter().map(inside).collect();
    Ok(Cow::Owned(kept?))
}

/// One level of a running cascade.
struct ComputedLevel {
    level: Level,
    cells: Cells,
    /// Groups of events, or of the cells of `source`.
    groups: Grouping,
    source: Option<usize>,
    /// Groups of events, computed when first needed.
    event_groups: Option<Arc<Grouping>>,
}

/// The cascade of one rollup.
struct Run<'a> {
    definition: &'a Definition,
    shared: &'a SharedColumns,
    key_ids: Vec<u32>,
    keys: Arc<Keys>,
    coupons: &'a Coupons,
    fields: Vec<String>,
    computed: Vec<ComputedLevel>,
}

impl<'a> Run<'a> {
    fn new(
        definition: &'a Definition,
        shared: &'a SharedColumns,
        admission: &mut impl KeyAdmission,
    ) -> Result<Self> {
        let columns: Vec<&KeyValues> = definition
            .by()
            .iter()
            .map(|k| lookup(&shared.key_values, &(k.value(), k.key_type)))
            .collect();
        let mut tuples = Tuples::of(columns, shared.rows);
        key_limit::fold(&mut tuples, &shared.times, definition, admission)?;
        let (key_ids, keys) = tuples.dictionary()?;
        let fields = distinct_fields(definition);
        let coupons = lookup(&shared.coupons, &fields);
        Ok(Self {
            definition,
            shared,
            key_ids,
            keys: Arc::new(keys),
            coupons,
            fields,
            computed: Vec::new(),
        })
    }

    fn finish(mut self) -> Result<CellSet> {
        for level in self.definition.levels() {
            let source = self.definition.source(*level);
            let source = source.and_then(|s| self.computed.iter().position(|m| m.level == s));
            let computed = match source {
                None => self.level_of_events(*level),
                Some(source) => self.level_of_cells(*level, source),
            };
            self.computed.push(computed);
        }
        let levels = self.computed.into_iter();
        let levels = levels.map(|c| (c.level, c.cells)).collect();
        Ok(CellSet {
            levels,
            events: self.shared.rows as u64,
        })
    }

    /// Computes a level that has no finer level to be built from.
    fn level_of_events(&self, level: Level) -> ComputedLevel {
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
        ComputedLevel {
            level,
            cells,
            groups,
            source: None,
            event_groups: None,
        }
    }

    /// Computes a level from the cells of a finer one.
    fn level_of_cells(&mut self, level: Level, source: usize) -> ComputedLevel {
        let finer = &self.computed[source];
        let mut cursor = Cursor::new(self.definition.calendar());
        let mut starts: Vec<i64> = Vec::new();
        let mut ranks = Vec::with_capacity(finer.cells.len());
        for bucket in &finer.cells.bucket {
            // Cells are sorted by bucket, and buckets nest, so their parents ascend too.
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
        let mut computed = ComputedLevel {
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
            computed.event_groups = Some(Arc::new(computed.groups.over(&finer_groups)));
        }
        let finer = &self.computed[source];
        let components = self
            .definition
            .components()
            .iter()
            .zip(&finer.cells.columns);
        computed.cells.columns = components
            .map(|(component, column)| {
                if !component.at(level) {
                    return None;
                }
                Some(match (column, &computed.event_groups) {
                    (_, Some(events)) if enters(component) => {
                        self.of_events(component, level, events)
                    }
                    (Some(column), _) => {
                        column.reduce(&computed.groups, component.range_at(level), &self.coupons.0)
                    }
                    _ => unreachable!("BUG: a component comes from below or from events"),
                })
            })
            .collect();
        computed
    }

    /// Returns the events of each cell of a computed level.
    fn event_groups(&mut self, nth: usize) -> Arc<Grouping> {
        if let Some(groups) = &self.computed[nth].event_groups {
            return Arc::clone(groups);
        }
        let groups = match self.computed[nth].source {
            None => Arc::new(self.computed[nth].groups.clone()),
            Some(source) => {
                let finer = self.event_groups(source);
                Arc::new(self.computed[nth].groups.over(&finer))
            }
        };
        self.computed[nth].event_groups = Some(Arc::clone(&groups));
        groups
    }

    fn of_events(&self, component: &Component, level: Level, groups: &Grouping) -> StateColumn {
        let groups = match self.definition.filter_of(component) {
            None => Cow::Borrowed(groups),
            Some(filter) => {
                let passing: &Vec<bool> = lookup(&self.shared.passing, filter);
                Cow::Owned(groups.passing(passing))
            }
        };
        let values = match component {
            Component::Count { .. } => EventValues::Events,
            Component::Numeric { field, .. } => {
                EventValues::Numbers(lookup(&self.shared.numbers, field))
            }
            Component::Squares { numeric, .. } => {
                let field = number_of(self.definition, *numeric);
                EventValues::Squares(lookup(&self.shared.numbers, field))
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
        StateColumn::of_events(&values, &groups, component.range_at(level), &self.coupons.0)
    }

    fn cells(
        &self,
        bucket: Vec<i64>,
        key: Vec<u32>,
        count: Vec<u64>,
        columns: Vec<Option<StateColumn>>,
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
