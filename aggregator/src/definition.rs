//! What a rollup counts: its key fields, levels, zone and measures.
//!
//! A definition has one canonical JSON form ([`Definition::to_value`]): members in a fixed order,
//! levels finest first, measures by kind and name, every default written out, types resolved. Two
//! definitions are equal when these forms are equal byte for byte; that is what the manifest keeps.
//!
//! Measures are made of *components*, which is what cells hold: `sum(f)`, `mean(f)` and the sum of
//! `f`'s histogram are one component, stored once.

use std::collections::HashSet;

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use storage::{ColumnType, Name, RollupMeta, StreamKind, access_fields};

use crate::calendar::{Calendar, Level, WeekStart};
use crate::error::{Error, Result};
use crate::state::Layout;

/// The version of the canonical form; a reader refuses a newer one.
const FORM: u64 = 1;

/// The type of a key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyType {
    /// Text; any other type is rendered as text.
    Text,
    /// 16-bit integer (an access log's `status`).
    Int16,
    /// 64-bit integer.
    Int64,
}

impl KeyType {
    /// The type a field has as a key: that of its column in an access log, text anywhere else.
    pub(crate) fn of(field: &str, kind: StreamKind) -> Result<Self, String> {
        match column_type(field, kind) {
            None | Some(ColumnType::Text) => Ok(Self::Text),
            Some(ColumnType::Int16) => Ok(Self::Int16),
            Some(ColumnType::Int64) => Ok(Self::Int64),
            Some(_) => Err(format!(
                "{field} cannot be a key: buckets already divide by time"
            )),
        }
    }

    /// The Arrow type of its column.
    pub fn arrow(self) -> arrow::datatypes::DataType {
        match self {
            Self::Text => ColumnType::Text.arrow(),
            Self::Int16 => ColumnType::Int16.arrow(),
            Self::Int64 => ColumnType::Int64.arrow(),
        }
    }
}

fn column_type(field: &str, kind: StreamKind) -> Option<ColumnType> {
    if field == storage::TIME {
        return Some(ColumnType::Time);
    }
    if kind != StreamKind::Access {
        return None;
    }
    access_fields()
        .into_iter()
        .find(|c| &*c.name == field)
        .map(|c| c.column_type)
}

/// A key column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The field it takes its value from, and its name as a column.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub key_type: KeyType,
}

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
            Self::Histogram { .. } => ("histogram", 5),
            Self::Distinct { .. } => ("distinct", 6),
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
}

/// One kind of state that cells hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Component {
    /// Number of values, exact sum and, from `range_from`, the extremes.
    Numeric {
        field: Number,
        from: Level,
        range_from: Option<Level>,
    },
    /// Counts by bucket of values; `numeric` is the component with the field's sum and extremes.
    Histogram {
        layout: Layout,
        from: Level,
        numeric: usize,
    },
    /// A set of hashes.
    Distinct { field: String, from: Level },
}

impl Component {
    /// The finest level that has it.
    pub(crate) fn from(&self) -> Level {
        match self {
            Self::Numeric { from, .. }
            | Self::Histogram { from, .. }
            | Self::Distinct { from, .. } => *from,
        }
    }

    /// Whether cells of `level` hold it.
    pub(crate) fn at(&self, level: Level) -> bool {
        level >= self.from()
    }

    /// Whether cells of `level` hold extremes in it.
    pub(crate) fn range_at(&self, level: Level) -> bool {
        matches!(self, Self::Numeric { range_from: Some(from), .. } if level >= *from)
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
        Self::new(
            name.clone(),
            stream.clone(),
            form.by,
            form.levels,
            timezone,
            form.week,
            measures,
        )
    }

    /// The canonical form.
    pub fn to_value(&self) -> Value {
        let measures: Vec<Value> = self.measures.iter().map(measure_value).collect();
        json!({
            "version": FORM,
            "by": self.by,
            "levels": self.levels,
            "timezone": self.timezone.name(),
            "week": self.week,
            "measures": measures,
        })
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

    /// Its calendar.
    pub fn calendar(&self) -> Calendar {
        Calendar::new(self.timezone, self.week)
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
        let mut fields: Vec<String> = self.by.iter().map(|key| key.name.clone()).collect();
        for measure in &self.measures {
            match &measure.kind {
                MeasureKind::Count => {}
                MeasureKind::Sum(f)
                | MeasureKind::Min(f)
                | MeasureKind::Max(f)
                | MeasureKind::Mean(f) => {
                    fields.push(f.field.clone());
                }
                MeasureKind::Histogram { field, .. } => fields.push(field.field.clone()),
                MeasureKind::Distinct { field } => fields.push(field.clone()),
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

    /// The components that a measure is made of.
    pub(crate) fn components_for(&self, measure: &Measure) -> Vec<usize> {
        let numeric = |number: &Number| {
            let found = self
                .components
                .iter()
                .position(|c| matches!(c, Component::Numeric { field, .. } if field == number));
            found.expect("BUG: every number has its component")
        };
        match &measure.kind {
            MeasureKind::Count => Vec::new(),
            MeasureKind::Sum(f)
            | MeasureKind::Min(f)
            | MeasureKind::Max(f)
            | MeasureKind::Mean(f) => vec![numeric(f)],
            MeasureKind::Histogram {
                field: f,
                layout: l,
            } => {
                let base = numeric(f);
                let own = self.components.iter().position(
                    |c| matches!(c, Component::Histogram { layout, numeric, .. } if layout == l && *numeric == base),
                );
                vec![base, own.expect("BUG: every histogram has its component")]
            }
            MeasureKind::Distinct { field: f } => {
                let own = self
                    .components
                    .iter()
                    .position(|c| matches!(c, Component::Distinct { field, .. } if field == f));
                vec![own.expect("BUG: every distinct count has its component")]
            }
        }
    }
}

/// The components of some measures, each once, entering where the first measure needs it.
fn components_of(measures: &[Measure]) -> Vec<Component> {
    let mut components: Vec<Component> = Vec::new();
    let numbers = measures.iter().filter_map(|m| match &m.kind {
        MeasureKind::Sum(f) | MeasureKind::Mean(f) => Some((f, m.from, None)),
        MeasureKind::Min(f) | MeasureKind::Max(f) | MeasureKind::Histogram { field: f, .. } => {
            Some((f, m.from, Some(m.from)))
        }
        MeasureKind::Count | MeasureKind::Distinct { .. } => None,
    });
    for (number, level, range) in numbers {
        let known = components.iter_mut().find_map(|c| match c {
            Component::Numeric {
                field,
                from,
                range_from,
            } if field == number => Some((from, range_from)),
            _ => None,
        });
        match known {
            Some((from, range_from)) => {
                *from = level.min(*from);
                *range_from = match (*range_from, range) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            None => components.push(Component::Numeric {
                field: number.clone(),
                from: level,
                range_from: range,
            }),
        }
    }
    for measure in measures {
        let level = measure.from;
        match &measure.kind {
            MeasureKind::Histogram {
                field: number,
                layout: wanted,
            } => {
                let base = components
                    .iter()
                    .position(|c| matches!(c, Component::Numeric { field, .. } if field == number))
                    .expect("BUG: numbers come first");
                let known = components.iter_mut().find_map(|c| match c {
                    Component::Histogram {
                        layout,
                        from,
                        numeric,
                    } if layout == wanted && *numeric == base => Some(from),
                    _ => None,
                });
                match known {
                    Some(from) => *from = level.min(*from),
                    None => components.push(Component::Histogram {
                        layout: *wanted,
                        from: level,
                        numeric: base,
                    }),
                }
            }
            MeasureKind::Distinct { field: wanted } => {
                let known = components.iter_mut().find_map(|c| match c {
                    Component::Distinct { field, from } if field == wanted => Some(from),
                    _ => None,
                });
                match known {
                    Some(from) => *from = level.min(*from),
                    None => components.push(Component::Distinct {
                        field: wanted.clone(),
                        from: level,
                    }),
                }
            }
            _ => {}
        }
    }
    components
}

/// The canonical form as serde reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    version: u64,
    by: Vec<Key>,
    levels: Vec<Level>,
    timezone: String,
    week: WeekStart,
    measures: Vec<MeasureForm>,
}

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
}

impl MeasureForm {
    fn measure(self) -> Result<Measure, String> {
        let Self {
            name,
            kind,
            field,
            scaled,
            digits,
            max,
            from,
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
        Ok(Measure { name, kind, from })
    }
}

fn measure_value(measure: &Measure) -> Value {
    let (name, kind, from) = (&measure.name, measure.kind.label().0, measure.from);
    match &measure.kind {
        MeasureKind::Count => json!({ "name": name, "kind": kind, "from": from }),
        MeasureKind::Sum(f) | MeasureKind::Min(f) | MeasureKind::Max(f) | MeasureKind::Mean(f) => {
            json!({ "name": name, "kind": kind, "field": f.field, "scaled": f.scaled, "from": from })
        }
        MeasureKind::Histogram { field: f, layout } => json!({
            "name": name, "kind": kind, "field": f.field, "scaled": f.scaled,
            "digits": layout.digits(), "max": layout.max(), "from": from,
        }),
        MeasureKind::Distinct { field } => {
            json!({ "name": name, "kind": kind, "field": field, "from": from })
        }
    }
}

/// The rollups that a stream gets when nothing else is configured, without those that `existing`
/// (every rollup of the store) already has.
///
/// The store's first access-log stream has `stats` and `traffic`; the rollups of any other stream
/// carry its name in front.
///
/// # Errors
/// [`Error::Definition`] when such a name would be too long.
pub fn defaults(
    stream: &Name,
    kind: StreamKind,
    existing: &[RollupMeta],
) -> Result<Vec<Definition>> {
    let short = ["stats", "traffic"];
    let plain = kind == StreamKind::Access
        && !existing
            .iter()
            .any(|r| short.contains(&r.name.as_str()) && r.stream != *stream)
        && !existing.iter().any(|r| {
            r.stream == *stream
                && short
                    .iter()
                    .any(|s| r.name.as_str() == format!("{stream}_{s}"))
        });
    let named = |short: &str| {
        let name = if plain {
            short.to_owned()
        } else {
            format!("{stream}_{short}")
        };
        Name::new(&name).map_err(|e| {
            Error::definition(&name, format!("{e}; define a rollup for {stream} yourself"))
        })
    };
    let bytes = Number {
        field: "response_size".to_owned(),
        scaled: false,
    };
    let measures = |histogram_from: Level| {
        let count = Measure {
            name: "hits".to_owned(),
            kind: MeasureKind::Count,
            from: Level::Minute,
        };
        let sum = Measure {
            name: "bytes".to_owned(),
            kind: MeasureKind::Sum(bytes.clone()),
            from: Level::Minute,
        };
        let size = MeasureKind::Histogram {
            field: bytes.clone(),
            layout: Layout::DEFAULT,
        };
        let visitors = MeasureKind::Distinct {
            field: "host".to_owned(),
        };
        vec![
            count,
            sum,
            Measure {
                name: "size".to_owned(),
                kind: size,
                from: histogram_from,
            },
            Measure {
                name: "visitors".to_owned(),
                kind: visitors,
                from: Level::Hour,
            },
        ]
    };
    let make = |short: &str, by: &[&str], measures: Vec<Measure>| -> Result<Definition> {
        let name = named(short)?;
        let keys = by
            .iter()
            .map(|field| {
                KeyType::of(field, kind).map(|key_type| Key {
                    name: (*field).to_owned(),
                    key_type,
                })
            })
            .collect::<Result<Vec<_>, String>>()
            .map_err(|what| Error::definition(name.as_str(), what))?;
        Definition::new(
            name,
            stream.clone(),
            keys,
            Level::ALL.to_vec(),
            Tz::UTC,
            WeekStart::Sunday,
            measures,
        )
    };
    let all = match kind {
        StreamKind::Access => vec![
            make("stats", &["site", "path"], measures(Level::Hour))?,
            make(
                "traffic",
                &["site", "status", "method"],
                measures(Level::Minute),
            )?,
        ],
        StreamKind::Quarantine => Vec::new(),
        _ => {
            let hits = Measure {
                name: "hits".to_owned(),
                kind: MeasureKind::Count,
                from: Level::Minute,
            };
            vec![make("traffic", &[], vec![hits])?]
        }
    };
    Ok(all
        .into_iter()
        .filter(|d| !existing.iter().any(|r| r.name == *d.name()))
        .collect())
}

#[cfg(test)]
mod tests;
