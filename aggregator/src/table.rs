//! A rollup as a user writes it in `logmill.toml`: the table `[rollup.NAME]`.
//!
//! The table is resolved into a [`Definition`] once the kind of its stream is known.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use storage::{Name, StreamKind};

use crate::calendar::{Level, WeekStart};
use crate::definition::{Definition, Key, MAX_KEYS, Measure, MeasureKind, Number};
use crate::error::{Error, Result};
use crate::expression::{Condition, Expression};
use crate::state::Layout;

const DIGITS_DEFAULT: u8 = 2;
/// One TiB: no response is larger.
const MAX_DEFAULT: u64 = 1 << 40;

/// The table `[rollup.NAME]` of the configuration.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollupTable {
    /// The stream it counts.
    pub stream: String,
    /// Key fields, and keys computed by an expression. Without keys, all events count together.
    #[serde(default)]
    pub by: Vec<Value>,
    /// Levels, every one by default. A rollup with keys always has `day`, which lists the admitted
    /// keys.
    #[serde(default)]
    pub levels: Option<Vec<Level>>,
    /// IANA name of the zone in which days begin, `UTC` by default.
    #[serde(default)]
    pub timezone: Option<String>,
    /// First day of a week, Sunday by default.
    #[serde(default)]
    pub week: WeekStart,
    /// Ages up to which levels keep their buckets, such as `minute = "7d"`; for ever by default.
    /// Retention is no part of the definition and may be changed, but dropped buckets do not come
    /// back. The days of a rollup with keys are kept for ever.
    #[serde(default)]
    pub retention: BTreeMap<Level, String>,
    /// Key limit: admitted keys of a day, 100,000 by default. The first keys are admitted, by the
    /// sequence number of their first event. Events of that day with another key count under
    /// `(other)`.
    #[serde(default)]
    pub max_keys: Option<u64>,
    /// Measures by name.
    pub measures: Map<String, Value>,
}

/// A key written as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyTable {
    name: String,
    expr: String,
}

/// A measure written as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasureTable {
    of: Option<String>,
    histogram: Option<String>,
    distinct: Option<String>,
    from: Option<Level>,
    digits: Option<u8>,
    max: Option<Value>,
    filter: Option<String>,
}

impl RollupTable {
    /// Returns the retention of levels, microseconds, by name.
    pub(crate) fn ages_us(&self) -> BTreeMap<String, i64> {
        let ages = self.retention.iter();
        ages.filter_map(|(level, age)| Some((level.to_string(), age_us(age).ok()?)))
            .collect()
    }

    /// Resolves the table for a stream of this kind.
    ///
    /// # Errors
    /// [`Error::Definition`] naming the member that is wrong, unknown or not supported yet.
    pub fn resolve(&self, name: &Name, kind: StreamKind) -> Result<Definition> {
        let default = (!self.by.is_empty()).then_some(MAX_KEYS);
        self.limited(name, kind, self.max_keys.or(default))
    }

    /// Resolves the table for a rollup that the store has in this form. A rollup from before there
    /// was a key limit stays without one as long as the table sets none.
    ///
    /// # Errors
    /// As [`RollupTable::resolve`].
    pub(crate) fn resolve_as(
        &self,
        name: &Name,
        kind: StreamKind,
        stored: &Value,
    ) -> Result<Definition> {
        if self.max_keys.is_none() && stored.get("max_keys").is_none() {
            return self.limited(name, kind, None);
        }
        self.resolve(name, kind)
    }

    fn limited(&self, name: &Name, kind: StreamKind, max_keys: Option<u64>) -> Result<Definition> {
        let fail = |what: String| Error::definition(name.as_str(), what);
        for (level, age) in &self.retention {
            age_us(age).map_err(|e| fail(format!("retention of level {level}: {e}")))?;
        }
        if !self.by.is_empty() && self.retention.contains_key(&Level::Day) {
            let what = "retention of level day: the days of a rollup with keys are the list of \
                        admitted keys and must be kept; omit this retention";
            return Err(fail(what.to_owned()));
        }
        let stream = Name::new(&self.stream).map_err(|e| fail(format!("stream: {e}")))?;
        let by = self
            .by
            .iter()
            .map(|key| key_of(key, kind).map_err(&fail))
            .collect::<Result<Vec<_>>>()?;
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        let timezone = zone.parse().map_err(|_| {
            fail(format!(
                "timezone {zone:?} is not an IANA name such as Europe/Berlin"
            ))
        })?;
        let mut levels = self.levels.clone().unwrap_or_else(|| Level::ALL.to_vec());
        if max_keys.is_some() && !levels.is_empty() {
            levels.push(Level::Day);
        }
        let finest = levels.iter().min().copied().unwrap_or(Level::Minute);
        let measures = self
            .measures
            .iter()
            .map(|(measure, value)| {
                measure_of(measure, value, kind, finest)
                    .map_err(|what| fail(format!("measure {measure}: {what}")))
            })
            .collect::<Result<Vec<_>>>()?;
        let definition = Definition::new(
            name.clone(),
            stream,
            by,
            levels,
            timezone,
            self.week,
            measures,
        )?;
        match max_keys {
            Some(max_keys) => definition.with_max_keys(max_keys),
            None => Ok(definition),
        }
    }
}

/// Parses an age such as `7d`, `400d` or `36h` into microseconds.
fn age_us(text: &str) -> Result<i64, String> {
    let fail = || format!("{text:?} is not an age; write one such as \"36h\", \"7d\" or \"13w\"");
    let at = text.len() - text.chars().next_back().map_or(0, char::len_utf8);
    let (amount, unit) = text.split_at(at);
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(fail()),
    };
    let amount: u32 = amount.trim().parse().map_err(|_| fail())?;
    let age_us = i64::from(amount).checked_mul(seconds * 1_000_000);
    age_us.ok_or_else(|| {
        format!("{text:?} is beyond all time; leave it out to keep buckets for ever")
    })
}

fn key_of(value: &Value, kind: StreamKind) -> Result<Key, String> {
    match value {
        Value::String(field) => Key::of_field(field, kind),
        Value::Object(_) => {
            let table: KeyTable = serde_json::from_value(value.clone())
                .map_err(|e| format!("a key is a field or {{ name, expr }}: {e}"))?;
            Expression::parse(&table.expr)
                .and_then(|expr| Key::made(&table.name, expr, kind))
                .map_err(|e| format!("key {}: {e}", table.name))
        }
        other => Err(format!(
            "by lists field names and {{ name, expr }}, not {other}"
        )),
    }
}

fn measure_of(
    name: &str,
    value: &Value,
    kind: StreamKind,
    finest: Level,
) -> Result<Measure, String> {
    let (what, from, filter) = match value {
        Value::String(text) => (function(text, kind)?, None, None),
        Value::Object(_) => {
            let table: MeasureTable =
                serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
            (
                table_measure(&table, kind)?,
                table.from,
                filter_of(&table, kind)?,
            )
        }
        other => {
            return Err(format!(
                "{other} is not a measure; write \"count\", \"sum(field)\" or a table"
            ));
        }
    };
    Ok(Measure {
        name: name.to_owned(),
        kind: what,
        from: from.unwrap_or(finest).max(finest),
        filter,
    })
}

fn filter_of(table: &MeasureTable, kind: StreamKind) -> Result<Option<Condition>, String> {
    let Some(text) = &table.filter else {
        return Ok(None);
    };
    let read = Condition::parse(text).and_then(|filter| filter.check(kind).map(|()| filter));
    read.map(Some).map_err(|e| format!("filter: {e}"))
}

fn table_measure(table: &MeasureTable, kind: StreamKind) -> Result<MeasureKind, String> {
    if table.histogram.is_none() && (table.digits.is_some() || table.max.is_some()) {
        return Err("digits and max belong to a histogram".to_owned());
    }
    Ok(match (&table.of, &table.histogram, &table.distinct) {
        (Some(of), None, None) => function(of, kind)?,
        (None, Some(field), None) => {
            let digits = table.digits.unwrap_or(DIGITS_DEFAULT);
            let max = table.max.as_ref().map_or(Ok(MAX_DEFAULT), size)?;
            let layout = Layout::new(digits, max).map_err(|e| e.to_string())?;
            MeasureKind::Histogram {
                field: number(field, kind)?,
                layout,
            }
        }
        (None, None, Some(field)) => MeasureKind::Distinct {
            field: field.clone(),
        },
        _ => return Err("a table has one of \"of\", \"histogram\" and \"distinct\"".to_owned()),
    })
}

/// Parses `count`, `sum(f)`, `min(f)`, `max(f)`, `mean(f)` and `variance(f)`.
fn function(text: &str, kind: StreamKind) -> Result<MeasureKind, String> {
    if text == "count" {
        return Ok(MeasureKind::Count);
    }
    let known = "write count, sum(f), min(f), max(f), mean(f), variance(f), { histogram = f } or { distinct = f }";
    let Some((function, field)) = text.strip_suffix(')').and_then(|t| t.split_once('(')) else {
        return Err(format!("{text:?} is not a measure; {known}"));
    };
    let field = number(field.trim(), kind)?;
    match function.trim() {
        "sum" => Ok(MeasureKind::Sum(field)),
        "min" => Ok(MeasureKind::Min(field)),
        "max" => Ok(MeasureKind::Max(field)),
        "mean" => Ok(MeasureKind::Mean(field)),
        "variance" => Ok(MeasureKind::Variance(field)),
        other => Err(format!("{other:?} is not a function of measures; {known}")),
    }
}

fn number(field: &str, kind: StreamKind) -> Result<Number, String> {
    if field.is_empty() {
        return Err("a field is missing".to_owned());
    }
    Number::of(field, kind)
}

/// Parses a size: a number, or text such as `1TiB`, `64 kB`.
fn size(value: &Value) -> Result<u64, String> {
    let fail = || {
        format!(
            "{value} is not a size; write a number or one with kB, MB, GB, TB, KiB, MiB, GiB or TiB"
        )
    };
    let Value::String(text) = value else {
        return value.as_u64().ok_or_else(fail);
    };
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let amount: u64 = text[..digits].parse().map_err(|_| fail())?;
    let unit: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(fail()),
    };
    amount.checked_mul(unit).ok_or_else(fail)
}
