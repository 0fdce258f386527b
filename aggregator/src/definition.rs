//! Definitions of rollups: key columns, levels, zone, key limit and measures.
//!
//! A definition has one canonical JSON form ([`Definition::to_value`]): members in a fixed order,
//! levels finest first, measures by kind and name, every default written out, types resolved. Two
//! definitions are equal when these forms are equal byte for byte. The manifest holds this form.
//!
//! Measures are computed from *components*, the states that cells hold: `sum(f)`, `mean(f)` and the
//! sum of `f`'s histogram are one component, stored once.

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

/// Default key limit: admitted keys of a day.
pub(crate) const MAX_KEYS: u64 = 100_000;

/// A field that is read as a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Number {
    /// Name of the field.
    pub field: String,
    /// False for an exact integer, true for a decimal, stored as an integer number of millionths.
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

/// The computation of a measure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MeasureKind {
    /// Number of events.
    Count,
    /// Exact sum.
    Sum(Number),
    /// Smallest value.
    Min(Number),
    /// Largest value.
    Max(Number),
    /// Sum divided by the number of values.
    Mean(Number),
    /// The sample variance, SQL's `variance` and `var_samp`: the sum of the squared distances from
    /// the mean, divided by one less than the number of values; null for fewer than two. The state
    /// is exact integers (number, sum, sum of squares), from which a read computes a double.
    Variance(Number),
    /// Count, sum, mean, smallest, largest and quantiles.
    Histogram {
        /// The field.
        field: Number,
        /// Layout of the buckets of values.
        layout: Layout,
    },
    /// Number of distinct values.
    Distinct {
        /// The field.
        field: String,
    },
}

impl MeasureKind {
    /// Returns the name in the canonical form, and the kind's rank among the columns of a level.
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
    /// Name of the measure, with which the names of its columns begin.
    pub name: String,
    /// Computation and fields.
    pub kind: MeasureKind,
    /// Finest level that has the measure.
    pub from: Level,
    /// Condition on the events that it counts; `None` for all events.
    pub filter: Option<Condition>,
}

impl Measure {
    /// Returns the number field that the measure reads.
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
    /// Creates a definition: checks it and sorts levels and measures.
    ///
    /// # Errors
    /// [`Error::Definition`] with the first fault.
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

    /// Sets the key limit: in each day the first `max_keys` keys are admitted, by the sequence
    /// number of their first event. Events of that day with any other key count under `(other)`.
    ///
    /// # Errors
    /// [`Error::Definition`] without keys, without the level `day`, whose cells are the list of the
    /// admitted keys, and for a limit of 0.
    pub fn with_max_keys(mut self, max_keys: u64) -> Result<Self> {
        let fault = if self.by.is_empty() {
            "max_keys limits keys, and it has none; leave it out"
        } else if !self.levels.contains(&Level::Day) {
            "max_keys needs the level day, which is the list of named keys"
        } else if max_keys == 0 {
            "max_keys is 0; let one key a day keep its name at least"
        } else {
            self.max_keys = Some(max_keys);
            return Ok(self);
        };
        Err(Error::definition(self.name.as_str(), fault))
    }

    /// Reads the definition of a manifest entry.
    ///
    /// # Errors
    /// [`Error::Definition`] if the entry is not in canonical form.
    pub fn from_meta(meta: &RollupMeta) -> Result<Self> {
        Self::from_value(&meta.name, &meta.stream, &meta.definition)
    }

    /// Reads the canonical form.
    ///
    /// # Errors
    /// [`Error::Definition`] if `value` is not in canonical form.
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

    /// Returns the canonical form.
    pub fn to_value(&self) -> Value {
        form::value(self)
    }

    /// Returns the rollup's name, the schema of its level tables.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the stream that the rollup counts.
    pub fn stream(&self) -> &Name {
        &self.stream
    }

    /// Returns the key columns.
    pub fn by(&self) -> &[Key] {
        &self.by
    }

    /// Returns the levels, finest first.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Returns the measures in the order of their columns.
    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    /// Returns the time zone of the buckets.
    pub fn timezone(&self) -> Tz {
        self.timezone
    }

    /// Returns the first day of weeks.
    pub fn week(&self) -> WeekStart {
        self.week
    }

    /// Returns the key limit, admitted keys per day; `None` if all keys are admitted.
    pub fn max_keys(&self) -> Option<u64> {
        self.max_keys
    }

    /// Returns the calendar of the buckets.
    pub fn calendar(&self) -> Calendar {
        let local = seeded::is(Bug::ServerLocal).then_some(Tz::Asia__Tokyo);
        Calendar::new(local.unwrap_or(self.timezone), self.week)
    }

    /// Returns the level that `level` is built from; `None` if it is built from events.
    pub fn source(&self, level: Level) -> Option<Level> {
        level
            .chain()
            .iter()
            .copied()
            .find(|l| self.levels.contains(l))
    }

    /// Returns the fields of an event that the rollup reads, except `time`.
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

    /// Returns a 64-bit fingerprint of the canonical form; a tile records its definition's.
    pub(crate) fn fingerprint(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.to_value().to_string().as_bytes())
    }

    /// Returns the components of a measure: its numbers, then the component of its own.
    pub(crate) fn components_for(&self, measure: &Measure) -> Vec<usize> {
        component::of_measure(&self.components, measure)
    }

    /// Returns the condition on the events of a component; `None` for all events.
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
