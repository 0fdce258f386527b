//! The canonical JSON form of a definition, which the manifest stores.

use serde::Deserialize;
use serde_json::{Value, json};
use storage::{Name, RollupMeta};

use super::Definition;
use super::key::Key;
use super::measure::{Measure, MeasureKind, Number};
use crate::calendar::{Level, WeekStart};
use crate::error::{Error, Result};
use crate::expression::Condition;
use crate::state::Layout;

/// The newest version of the canonical form; a reader refuses a newer one. A definition has the
/// lowest version with all features that it uses: 2 added filters, the variance and expressions as
/// keys, 3 the key limit.
const FORM: u64 = 3;

/// The canonical form as serde reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CanonicalForm {
    version: u64,
    by: Vec<Key>,
    levels: Vec<Level>,
    timezone: String,
    week: WeekStart,
    max_keys: Option<u64>,
    measures: Vec<MeasureForm>,
}

/// A measure as serde reads it; its kind decides which members it has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureForm {
    name: String,
    kind: String,
    field: Option<String>,
    scaled: Option<bool>,
    digits: Option<u8>,
    max: Option<u64>,
    from: Level,
    filter: Option<Condition>,
}

impl MeasureForm {
    /// Returns the measure; fails if a member that its kind needs is missing.
    fn measure(self) -> Result<Measure, String> {
        let Self {
            name,
            kind,
            field,
            scaled,
            digits,
            max,
            from,
            filter,
        } = self;
        let incomplete =
            || format!("its stored form: measure {name} of kind {kind} is incomplete or unknown");
        let number = || {
            Some(Number {
                field: field.clone()?,
                scaled: scaled?,
            })
        };
        let kind = match &*kind {
            "count" => Some(MeasureKind::Count),
            "sum" => number().map(MeasureKind::Sum),
            "min" => number().map(MeasureKind::Min),
            "max" => number().map(MeasureKind::Max),
            "mean" => number().map(MeasureKind::Mean),
            "variance" => number().map(MeasureKind::Variance),
            "histogram" => match (number(), digits, max) {
                (Some(field), Some(digits), Some(max)) => {
                    let layout = Layout::new(digits, max).map_err(|e| e.to_string())?;
                    Some(MeasureKind::Histogram { field, layout })
                }
                _ => None,
            },
            "distinct" => field.clone().map(|field| MeasureKind::Distinct { field }),
            _ => None,
        };
        let kind = kind.ok_or_else(incomplete)?;
        Ok(Measure {
            name,
            kind,
            from,
            filter,
        })
    }
}

impl Definition {
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
        let form: CanonicalForm = serde_json::from_value(value.clone())
            .map_err(|e| fail(format!("its stored form: {e}")))?;
        if form.version > FORM {
            return Err(fail(format!(
                "its stored form has version {}; use a newer logmill",
                form.version
            )));
        }
        let timezone = form.timezone.parse().map_err(|_| {
            fail(format!(
                "unknown time zone {}; use a newer logmill",
                form.timezone
            ))
        })?;
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
        let measures: Vec<Value> = self.measures.iter().map(measure_value).collect();
        let mut value = json!({
            "version": version(self),
            "by": self.by,
            "levels": self.levels,
            "timezone": self.timezone.name(),
            "week": self.week,
            "measures": measures,
        });
        if let Some(max_keys) = self.max_keys {
            value["max_keys"] = max_keys.into();
        }
        value
    }

    /// Returns a 64-bit fingerprint of the canonical form; a tile records its definition's.
    pub(crate) fn fingerprint(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.to_value().to_string().as_bytes())
    }
}

/// Returns the lowest version with all features that a definition uses.
fn version(definition: &Definition) -> u64 {
    let is_new = |m: &Measure| m.filter.is_some() || matches!(m.kind, MeasureKind::Variance(_));
    let is_computed = |key: &Key| key.expr.is_some();
    if definition.max_keys.is_some() {
        FORM
    } else if definition.measures.iter().any(is_new) || definition.by.iter().any(is_computed) {
        2
    } else {
        1
    }
}

/// Returns a measure's canonical form.
fn measure_value(measure: &Measure) -> Value {
    let (name, kind, from) = (&measure.name, measure.kind.label().0, measure.from);
    let mut value = match &measure.kind {
        MeasureKind::Count => json!({ "name": name, "kind": kind, "from": from }),
        MeasureKind::Sum(f)
        | MeasureKind::Min(f)
        | MeasureKind::Max(f)
        | MeasureKind::Mean(f)
        | MeasureKind::Variance(f) => {
            json!({ "name": name, "kind": kind, "field": f.field, "scaled": f.scaled, "from": from })
        }
        MeasureKind::Histogram { field: f, layout } => json!({
            "name": name, "kind": kind, "field": f.field, "scaled": f.scaled,
            "digits": layout.digits(), "max": layout.max(), "from": from,
        }),
        MeasureKind::Distinct { field } => {
            json!({ "name": name, "kind": kind, "field": field, "from": from })
        }
    };
    if let Some(filter) = &measure.filter {
        value["filter"] = filter.to_string().into();
    }
    value
}
