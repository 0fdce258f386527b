//! Cells: the states of one level in columns, and what a reader may ask of them.
//!
//! # Invariants
//! * No two cells of one [`Cells`] have the same bucket and key.
//! * `key` are rows of `keys`, and coupon ids of distinct counts are ranks in `coupons`; both
//!   dictionaries hold no value twice. They may hold values that no cell refers to.
//! * The cascade's cells are sorted by (bucket, key id); cells read from a tile need not be.

mod keys;

pub(crate) use keys::{Keys, Passing, int_column};

use std::sync::Arc;

use crate::calendar::Level;
use crate::column::Column;
use crate::definition::{Definition, MeasureKind};
use crate::error::{Error, Result};
use crate::read::{column_entry_level, columns_of};

/// The value of one key column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyValue {
    /// Null, a key like any other.
    Null,
    /// A value of an integer column.
    Int(i64),
    /// A value of a text column.
    Text(String),
}

impl std::fmt::Display for KeyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

/// Which cells a reader wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Buckets that start at or after this, microseconds since 1970.
    pub from_us: i64,
    /// Buckets that start before this.
    pub to_us: i64,
    /// Per key column, in the definition's order: `None`, or the values it may have. An empty
    /// outer list asks nothing of the keys.
    pub keys: Vec<Option<Vec<KeyValue>>>,
}

impl Filter {
    /// Everything.
    pub const ALL: Self = Self {
        from_us: i64::MIN,
        to_us: i64::MAX,
        keys: Vec::new(),
    };
}

impl Default for Filter {
    fn default() -> Self {
        Self::ALL
    }
}

/// Which states a reader wants; what is not wanted is not decoded. Counts of events always come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// Per component of the definition.
    pub(crate) components: Vec<bool>,
}

impl Projection {
    /// Every state.
    pub fn all(definition: &Definition) -> Self {
        Self {
            components: vec![true; definition.components().len()],
        }
    }

    /// The states that these columns of a level table are computed from.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a column that the level does not have.
    pub fn of_columns(definition: &Definition, level: Level, names: &[&str]) -> Result<Self> {
        let mut components = vec![false; definition.components().len()];
        for name in names {
            let name = &crate::read::sum_of_exact(definition, name).unwrap_or(name);
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
                    "{name} enters {rollup} at a coarser level; ask {rollup}.{table} or above"
                )));
            }
            let needed = definition.components_for(measure);
            // The numbers of a histogram need none of its counts.
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
}

/// What tells the cells of a merge apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grain {
    /// Whether their buckets do; otherwise all are merged into the first one.
    pub buckets: bool,
    /// Which key columns do, in the definition's order; the others are null.
    pub keys: Vec<bool>,
}

impl Grain {
    /// Buckets and all keys, as a level has them.
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
    /// Events.
    pub(crate) count: Vec<u64>,
    /// Per component of the definition; `None` where the level lacks it or it was not asked for.
    pub(crate) columns: Vec<Option<Column>>,
}

impl Cells {
    /// No cells; has every state that `projection` asks for and `level` has.
    pub fn empty(definition: &Definition, level: Level, projection: &Projection) -> Self {
        let columns = definition
            .components()
            .iter()
            .zip(&projection.components)
            .map(|(component, wanted)| {
                (*wanted && component.at(level)).then(|| Column::empty(component, level))
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

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.count.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count.is_empty()
    }

    /// Events counted in them.
    pub fn events(&self) -> u64 {
        self.count.iter().fold(0, |a, b| a.wrapping_add(*b))
    }

    /// Start of the first and of the last bucket, microseconds since 1970.
    pub fn bucket_range(&self) -> Option<(i64, i64)> {
        Some((*self.bucket.iter().min()?, *self.bucket.iter().max()?))
    }

    /// Start of the bucket of each, microseconds since 1970.
    pub fn buckets(&self) -> &[i64] {
        &self.bucket
    }

    /// Bytes in memory, dictionaries included.
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self
            .columns
            .iter()
            .flatten()
            .map(Column::memory_bytes)
            .sum();
        self.keys.memory_bytes() + self.coupons.len() * 8 + self.len() * 20 + columns
    }

    /// The cells that pass, with the states asked for.
    pub fn filter(&self, filter: &Filter, projection: &Projection) -> Self {
        let passing = self.keys.passing(filter);
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
    /// Events counted, the same at every level.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The cells of a level, `None` when the rollup does not have it.
    pub fn level(&self, level: Level) -> Option<&Cells> {
        self.levels
            .iter()
            .find(|(l, _)| *l == level)
            .map(|(_, cells)| cells)
    }

    /// Bytes in memory; dictionaries are shared and counted once.
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
