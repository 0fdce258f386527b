//! Definitions of rollups: key columns, levels, zone, key limit and measures.
//!
//! A definition has one canonical JSON form ([`Definition::to_value`]): members in a fixed order,
//! levels finest first, measures by kind and name, every default written out, types resolved. Two
//! definitions are equal when these forms are equal byte for byte. The manifest holds this form.
//!
//! Measures are computed from *components*, the states that cells hold: `sum(f)`, `mean(f)` and the
//! sum of `f`'s histogram are one component, stored once.

mod columns;
mod component;
mod defaults;
mod form;
mod key;
mod measure;

pub(crate) use columns::{QUANTILES, columns_at, columns_of};
pub(crate) use component::Component;
pub use defaults::defaults;
pub use key::{Key, KeyType};
pub use measure::{Measure, MeasureKind, Number};

use std::collections::HashSet;

use chrono_tz::Tz;
use storage::Name;

use crate::calendar::{Calendar, Level, WeekStart};
use crate::error::{Error, Result};
use crate::expression::Condition;
use crate::seeded::{self, Bug};
use component::components_of;

/// Default key limit: admitted keys of a day.
pub(crate) const MAX_KEYS: u64 = 100_000;

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
                "levels is empty; omit it to get every level".to_owned(),
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
                    "measure {} starts at level {}, which is coarser than every level of the rollup",
                    measure.name, measure.from
                );
                return Err(fail(what));
            }
        }
        measures.sort_by(|a, b| (a.kind.label().1, &a.name).cmp(&(b.kind.label().1, &b.name)));
        let mut seen = HashSet::new();
        for field in columns_at(&by, &measures, coarsest) {
            if !seen.insert(field.name().clone()) {
                let what = format!(
                    "two columns would be named {}; rename a measure or a key",
                    field.name()
                );
                return Err(fail(what));
            }
        }
        let components = components_of(&measures);
        Ok(Self {
            name,
            stream,
            by,
            levels,
            timezone,
            week,
            max_keys: None,
            measures,
            components,
        })
    }

    /// Sets the key limit: in each day the first `max_keys` keys are admitted, by the sequence
    /// number of their first event. Events of that day with any other key count under `(other)`.
    ///
    /// # Errors
    /// [`Error::Definition`] without keys, without the level `day`, whose cells are the list of the
    /// admitted keys, and for a limit of 0.
    pub fn with_max_keys(mut self, max_keys: u64) -> Result<Self> {
        let fault = if self.by.is_empty() {
            "max_keys limits keys, but the rollup has none; remove max_keys"
        } else if !self.levels.contains(&Level::Day) {
            "max_keys needs the level day, whose cells are the list of admitted keys"
        } else if max_keys == 0 {
            "max_keys is 0; the least is 1"
        } else {
            self.max_keys = Some(max_keys);
            return Ok(self);
        };
        Err(Error::definition(self.name.as_str(), fault))
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
        let local = seeded::is(Bug::ServerLocal).then_some(Tz::named("Asia/Tokyo"));
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

    /// Checks whether the field of a component holds decimals.
    pub(crate) fn is_scaled(&self, component: &Component) -> bool {
        match component {
            Component::Numeric { field, .. } => field.scaled,
            Component::Squares { numeric, .. } | Component::Histogram { numeric, .. } => {
                self.is_scaled(&self.components[*numeric])
            }
            Component::Count { .. } | Component::Distinct { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
