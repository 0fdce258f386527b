//! What a rollup counts: its key fields, levels, zone and measures.
//!
//! A definition has one canonical JSON form ([`Definition::to_value`]): members in a fixed order,
//! levels finest first, measures by kind and name, every default written out, types resolved. Two
//! definitions are equal when these forms are equal byte for byte; that is what the manifest keeps.
//!
//! Measures are made of *components*, which is what cells hold: `sum(f)`, `mean(f)` and the sum of
//! `f`'s histogram are one component, stored once.

mod component;
mod defaults;
mod form;
mod key;

pub(crate) use component::Component;
pub use defaults::defaults;
pub(crate) use key::column_type;
pub use key::{Key, KeyType};

use std::collections::HashSet;

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::{ColumnType, Name, RollupMeta, StreamKind};

use crate::calendar::{Calendar, Level, WeekStart};
use crate::error::{Error, Result};
use crate::expression::Condition;
use crate::seeded::{self, Bug};
use crate::state::Layout;
use component::components_of;
use form::{FORM, Form};

/// Keys of a day that keep their name, when nothing else is said.
pub(crate) const MAX_KEYS: u64 = 100_000;

/// A field that is counted as a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Number {
    /// The field.
    pub field: String,
    /// False: an integer, exact. True: a decimal, kept as an integer number of millionths.
    pub scaled: bool,
}

impl Number {
    pub(crate) fn of(field: &str, kind: StreamKind) -> Result<Self, String> {
        let scaled = match column_type(field, kind) {
            Some(ColumnType::Int16 | ColumnType::Int64) => false,
            None => true,
            Some(_) => return Err(format!("{field} is not a number")),
        };
        Ok(Self {
            field: field.to_owned(),
            scaled,
        })
    }
}

/// What a measure computes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MeasureKind {
    /// Events.
    Count,
    /// Exact sum.
    Sum(Number),
    /// Smallest value.
    Min(Number),
    /// Largest value.
    Max(Number),
    /// Sum by number of values.
    Mean(Number),
    /// The sample variance, SQL's `variance` and `var_samp`: the squares of the distances from the
    /// mean, by one less than their number. Null below two values. It is kept as exact integers
    /// (number, sum, sum of squares) and becomes a double when it is read.
    Variance(Number),
    /// Count, sum, mean, smallest, largest and quantiles.
    Histogram {
        /// The field.
        field: Number,
        /// Its buckets of values.
        layout: Layout,
    },
    /// Number of different values.
    Distinct {
        /// The field.
        field: String,
    },
}

impl MeasureKind {
    /// Name in the canonical form, and rank of the kind among the columns of a level.
    fn label(&self) -> (&'static str, u8) {
        match self {
            Self::Count => ("count", 0),
            Self::Sum(_) => ("sum", 1),
            Self::Min(_) => ("min", 2),
            Self::Max(_) => ("max", 3),
            Self::Mean(_) => ("mean", 4),
            Self::Variance(_) => ("variance", 5),
            Self::Histogram { .. } => ("histogram", 6),
            Self::Distinct { .. } => ("distinct", 7),
        }
    }
}

/// A measure of a rollup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// Its name, from which its columns are named.
    pub name: String,
    /// What it computes.
    pub kind: MeasureKind,
    /// The finest level that has it.
    pub from: Level,
    /// The events that it counts, every one by default.
    pub filter: Option<Condition>,
}

impl Measure {
    /// The number that it computes something of.
    fn number(&self) -> Option<&Number> {
        match &self.kind {
            MeasureKind::Sum(field)
            | MeasureKind::Min(field)
            | MeasureKind::Max(field)
            | MeasureKind::Mean(field)
            | MeasureKind::Variance(field)
            | MeasureKind::Histogram { field, .. } => Some(field),
            MeasureKind::Count | MeasureKind::Distinct { .. } => None,
        }
    }
}

/// A rollup's definition, resolved and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    name: Name,
    stream: Name,
    by: Vec<Key>,
    levels: Vec<Level>,
    timezone: Tz,
    week: WeekStart,
    max_keys: Option<u64>,
    measures: Vec<Measure>,
    components: Vec<Component>,
}

impl Definition {
    /// Checks and normalises.
    ///
    /// # Errors
    /// [`Error::Definition`] naming what is wrong.
    pub fn new(
        name: Name,
        stream: Name,
        by: Vec<Key>,
        mut levels: Vec<Level>,
        timezone: Tz,
        week: WeekStart,
        mut measures: Vec<Measure>,
    ) -> Result<Self> {
        let fail = |what: String| Error::definition(name.as_str(), what);
        levels.sort_unstable();
        levels.dedup();
        let Some(coarsest) = levels.last().copied() else {
            return Err(fail(
                "levels is empty; leave it out for all of them".to_owned(),
            ));
        };
        if measures.is_empty() {
            return Err(fail(
                "it needs a measure, for example hits = \"count\"".to_owned(),
            ));
        }
        for measure in &measures {
            Name::new(&measure.name).map_err(|e| fail(format!("measure {}: {e}", measure.name)))?;
            if measure.from > coarsest {
                let what = format!(
                    "measure {} enters at {}, above every level",
                    measure.name, measure.from
                );
                return Err(fail(what));
            }
        }
        measures.sort_by(|a, b| (a.kind.label().1, &a.name).cmp(&(b.kind.label().1, &b.name)));
        let components = components_of(&measures);
        let definition = Self {
            name,
            stream,
            by,
            levels,
            timezone,
            week,
            max_keys: None,
            measures,
            components,
        };
        let mut seen = HashSet::new();
        for field in crate::read::columns(&definition, coarsest) {
            if !seen.insert(field.name().clone()) {
                let what = format!(
                    "two columns would be named {}; rename a measure or a key",
                    field.name()
                );
                return Err(Error::definition(definition.name.as_str(), what));
            }
        }
        Ok(definition)
    }

    /// The same, but in each day only so many keys keep their name: the first ones, by the sequence
    /// number of their first event. Events of that day with any other key count under `(other)`.
    ///
    /// # Errors
    /// [`Error::Definition`] without keys, without the level `day`, which is the list of the names,
    /// and below one.
    pub fn with_max_keys(mut self, max_keys: u64) -> Result<Self> {
        let wrong = if self.by.is_empty() {
            "max_keys limits keys, and it has none; leave it out"
        } else if !self.levels.contains(&Level::Day) {
            "max_keys needs the level day, which is the list of named keys"
        } else if max_keys == 0 {
            "max_keys is 0; let one key a day keep its name at least"
        } else {
            self.max_keys = Some(max_keys);
            return Ok(self);
        };
        Err(Error::definition(self.name.as_str(), wrong))
    }

    /// The definition that a manifest entry holds.
    ///
    /// # Errors
    /// [`Error::Definition`] when the entry is not in canonical form.
    pub fn from_meta(meta: &RollupMeta) -> Result<Self> {
        Self::from_value(&meta.name, &meta.stream, &meta.definition)
    }

    /// Reads the canonical form.
    ///
    /// # Errors
    /// [`Error::Definition`] when `value` is not one.
    pub fn from_value(name: &Name, stream: &Name, value: &Value) -> Result<Self> {
        let fail = |what: String| Error::definition(name.as_str(), what);
        let form: Form = serde_json::from_value(value.clone())
            .map_err(|e| fail(format!("its stored form: {e}")))?;
        if form.version > FORM {
            return Err(fail(format!(
                "its stored form has version {}; use a newer logmill",
                form.version
            )));
        }
        let timezone = form
            .timezone
            .parse()
            .map_err(|_| fail(format!("the zone {} is not known here", form.timezone)))?;
        let measures = form
            .measures
            .into_iter()
            .map(|m| m.measure().map_err(&fail))
            .collect::<Result<Vec<_>>>()?;
        let definition = Self::new(
            name.clone(),
            stream.clone(),
            form.by,
            form.levels,
            timezone,
            form.week,
            measures,
        )?;
        match form.max_keys {
            Some(max_keys) => definition.with_max_keys(max_keys),
            None => Ok(definition),
        }
    }

    /// The canonical form.
    pub fn to_value(&self) -> Value {
        form::value(self)
    }

    /// The rollup's name, the schema of its level tables.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The stream it counts.
    pub fn stream(&self) -> &Name {
        &self.stream
    }

    /// Its key columns.
    pub fn by(&self) -> &[Key] {
        &self.by
    }

    /// Its levels, finest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Its measures in the order of their columns.
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// The zone in which its buckets begin.
    pub fn timezone(&self) -> Tz {
        self.timezone
    }

    /// The first day of its weeks.
    pub fn week(&self) -> WeekStart {
        self.week
    }

    /// How many keys of a day keep their name; `None` when all of them do.
    pub fn max_keys(&self) -> Option<u64> {
        self.max_keys
    }

    /// Its calendar.
    pub fn calendar(&self) -> Calendar {
        let local = seeded::is(Bug::ServerLocal).then_some(Tz::Asia__Tokyo);
        Calendar::new(local.unwrap_or(self.timezone), self.week)
    }

    /// The level that `level` is built from; `None` when it is built from events.
    pub fn source(&self, level: Level) -> Option<Level> {
        level
            .chain()
            .iter()
            .copied()
            .find(|l| self.levels.contains(l))
    }

    /// The fields of an event that it reads, `time` apart.
    pub fn fields(&self) -> Vec<String> {
        let keys = self.by.iter().map(|key| key.value().field().to_owned());
        let mut fields: Vec<String> = keys.collect();
        for measure in &self.measures {
            fields.extend(measure.number().map(|number| number.field.clone()));
            if let MeasureKind::Distinct { field } = &measure.kind {
                fields.push(field.clone());
            }
            if let Some(filter) = &measure.filter {
                filter.add_fields(&mut fields);
            }
        }
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    pub(crate) fn components(&self) -> &[Component] {
        &self.components
    }

    /// A 64-bit fingerprint of the canonical form, by which a tile knows its definition.
    pub(crate) fn fingerprint(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.to_value().to_string().as_bytes())
    }

    /// The components that a measure is made of: its numbers, then what is its own.
    pub(crate) fn components_for(&self, measure: &Measure) -> Vec<usize> {
        component::of_measure(&self.components, measure)
    }

    /// The events that a component is made of.
    pub(crate) fn filter_of<'a>(&'a self, component: &'a Component) -> Option<&'a Condition> {
        match component {
            Component::Count { filter, .. } => Some(filter),
            Component::Numeric { filter, .. } | Component::Distinct { filter, .. } => {
                filter.as_ref()
            }
            Component::Squares { numeric, .. } | Component::Histogram { numeric, .. } => {
                self.filter_of(&self.components[*numeric])
            }
        }
    }
}

#[cfg(test)]
mod tests;
