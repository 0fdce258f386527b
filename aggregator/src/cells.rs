//! Cells: the states of one level in columns, and the filters and projections of readers.
//!
//! # Invariants
//! * No two cells of one [`Cells`] have the same bucket and key.
//! * `key` holds rows of `keys`, and the coupon ids of distinct counts are ranks in `coupons`.
//!   Neither dictionary holds a value twice; both may hold values that no cell refers to.
//! * The cascade's cells are sorted by (bucket, key id); cells read from a tile need not be.

mod filter;

pub use filter::Filter;
pub(crate) use filter::Passing;

use std::sync::Arc;

use crate::calendar::Level;
use crate::column::StateColumn;
use crate::definition::{Definition, MeasureKind, columns_of};
use crate::error::{Error, Result};
use crate::group::Grouping;
use crate::keys::Keys;
use crate::level_columns::{column_entry_level, sum_of_exact};

/// The states that a reader requests; others are not decoded. Counts of events are always read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// Per component of the definition: true if it is requested.
    pub(crate) components: Vec<bool>,
}

impl Projection {
    /// Requests every state.
    pub fn all(definition: &Definition) -> Self {
        Self {
            components: vec![true; definition.components().len()],
        }
    }

    /// Requests the states that these columns of a level table are computed from.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a column that the level does not have.
    pub fn of_columns(definition: &Definition, level: Level, names: &[&str]) -> Result<Self> {
        let mut components = vec![false; definition.components().len()];
        for name in names {
            let name = &sum_of_exact(definition, name).unwrap_or(name);
            if matches!(*name, "bucket" | "bucket_end")
                || definition.by().iter().any(|k| k.name == **name)
            {
                continue;
            }
            let owner = definition
                .measures()
                .iter()
                .find(|m| columns_of(m).iter().any(|f| f.name() == *name));
            let Some(measure) = owner else {
                return Err(Error::invalid(format!(
                    "rollup {} has no column {name}",
                    definition.name()
                )));
            };
            if level < measure.from {
                let entry = column_entry_level(definition, name).unwrap_or(measure.from);
                let (rollup, table) = (definition.name(), entry.table());
                return Err(Error::invalid(format!(
                    "{rollup} has {name} only at coarser levels; query {rollup}.{table} or a coarser level"
                )));
            }
            let needed = definition.components_for(measure);
            // The count, sum, mean, min and max of a histogram need none of its bucket counts.
            let whole = !matches!(measure.kind, MeasureKind::Histogram { .. })
                || !["_count", "_sum", "_mean", "_min", "_max"]
                    .iter()
                    .any(|suffix| name.strip_prefix(&*measure.name) == Some(suffix));
            for component in if whole { &needed[..] } else { &needed[..1] } {
                components[*component] = true;
            }
        }
        Ok(Self { components })
    }

    /// Adds the states without which the requested ones cannot be encoded: all of each measure that
    /// is requested in part.
    #[must_use]
    pub fn of_whole_measures(mut self, definition: &Definition) -> Self {
        let measures = definition.measures().iter();
        let measures: Vec<Vec<usize>> = measures.map(|m| definition.components_for(m)).collect();
        loop {
            let before = self.components.clone();
            for components in &measures {
                if components.iter().any(|c| self.components[*c]) {
                    components.iter().for_each(|c| self.components[*c] = true);
                }
            }
            if self.components == before {
                return self;
            }
        }
    }
}

/// The granularity of a merge: cells that do not differ in it become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grain {
    /// True if cells of different buckets stay apart; otherwise all merge into the first bucket.
    pub buckets: bool,
    /// Per key column, in the definition's order: true if cells of different values stay apart;
    /// otherwise the column becomes null.
    pub keys: Vec<bool>,
}

impl Grain {
    /// Returns the granularity of a level: buckets and all keys.
    pub fn whole(definition: &Definition) -> Self {
        Self {
            buckets: true,
            keys: vec![true; definition.by().len()],
        }
    }
}

/// The states of one level.
#[derive(Debug, Clone)]
pub struct Cells {
    pub(crate) keys: Arc<Keys>,
    pub(crate) coupons: Arc<Vec<u64>>,
    /// Start of each cell's bucket, microseconds since 1970.
    pub(crate) bucket: Vec<i64>,
    pub(crate) key: Vec<u32>,
    /// Number of events of each cell.
    pub(crate) count: Vec<u64>,
    /// Per component of the definition; `None` if the level lacks it or it was not requested.
    pub(crate) columns: Vec<Option<StateColumn>>,
}

impl Cells {
    /// Returns no cells, with a column for every state that `projection` requests and `level` has.
    pub fn empty(definition: &Definition, level: Level, projection: &Projection) -> Self {
        let columns = definition
            .components()
            .iter()
            .zip(&projection.components)
            .map(|(component, wanted)| {
                (*wanted && component.at(level)).then(|| StateColumn::empty(component, level))
            })
            .collect();
        Self {
            keys: Arc::new(Keys::empty(definition)),
            coupons: Arc::default(),
            bucket: Vec::new(),
            key: Vec::new(),
            count: Vec::new(),
            columns,
        }
    }

    /// Gives the cells the states that they were read without, as if no event had a value, so that
    /// they can be encoded. Nobody may read these states.
    #[must_use]
    pub fn completed(mut self, definition: &Definition, level: Level) -> Self {
        let nothing = Grouping {
            order: Vec::new(),
            offsets: vec![0; self.len() + 1],
        };
        for (column, component) in self.columns.iter_mut().zip(definition.components()) {
            if column.is_none() && component.at(level) {
                let empty = StateColumn::empty(component, level);
                *column = Some(empty.reduce(&nothing, component.range_at(level), &[]));
            }
        }
        self
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.count.len()
    }

    /// Checks whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.count.is_empty()
    }

    /// Returns the number of events counted in the cells.
    pub fn events(&self) -> u64 {
        self.count.iter().fold(0, |a, b| a.wrapping_add(*b))
    }

    /// Returns the start of the first and of the last bucket, microseconds since 1970.
    pub fn bucket_range(&self) -> Option<(i64, i64)> {
        Some((*self.bucket.iter().min()?, *self.bucket.iter().max()?))
    }

    /// Returns the start of each cell's bucket, microseconds since 1970.
    pub fn buckets(&self) -> &[i64] {
        &self.bucket
    }

    /// Returns the bytes in memory, dictionaries included.
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self
            .columns
            .iter()
            .flatten()
            .map(StateColumn::memory_bytes)
            .sum();
        self.keys.memory_bytes() + self.coupons.len() * 8 + self.len() * 20 + columns
    }

    /// Returns the cells that pass `filter`, with the states of `projection`.
    pub fn filter(&self, filter: &Filter, projection: &Projection) -> Self {
        let passing = filter.passing(&self.keys);
        let kept: Vec<u32> = (0..self.len())
            .filter(|c| {
                let bucket = self.bucket[*c];
                filter.from_us <= bucket
                    && bucket < filter.to_us
                    && passing.as_ref().is_none_or(|p| p.has(self.key[*c]))
            })
            .map(|c| c as u32)
            .collect();
        let columns = self
            .columns
            .iter()
            .zip(&projection.components)
            .map(|(column, wanted)| column.as_ref().filter(|_| *wanted).map(|c| c.take(&kept)))
            .collect();
        Self {
            keys: Arc::clone(&self.keys),
            coupons: Arc::clone(&self.coupons),
            bucket: kept.iter().map(|c| self.bucket[*c as usize]).collect(),
            key: kept.iter().map(|c| self.key[*c as usize]).collect(),
            count: kept.iter().map(|c| self.count[*c as usize]).collect(),
            columns,
        }
    }
}

/// The cells of some events at every level of one rollup.
#[derive(Debug, Clone)]
pub struct CellSet {
    pub(crate) levels: Vec<(Level, Cells)>,
    pub(crate) events: u64,
}

impl CellSet {
    /// Returns the number of events counted, the same at every level.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the cells of a level, `None` if the rollup does not have it.
    pub fn level(&self, level: Level) -> Option<&Cells> {
        self.levels
            .iter()
            .find(|(l, _)| *l == level)
            .map(|(_, cells)| cells)
    }

    /// Returns the bytes in memory; dictionaries are shared by all levels and counted once.
    pub fn memory_bytes(&self) -> usize {
        let shared = |c: &Cells| c.keys.memory_bytes() + c.coupons.len() * 8;
        let all: usize = self
            .levels
            .iter()
            .map(|(_, c)| c.memory_bytes() - shared(c))
            .sum();
        all + self.levels.first().map_or(0, |(_, c)| shared(c))
    }
}

#[cfg(test)]
mod tests;
