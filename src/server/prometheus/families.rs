//! The families of metrics of the rollups that a client sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use aggregator::{Calendar, Definition, Key, Level, Measure, MeasureKind};
use promql_parser::label::{METRIC_NAME, Matcher};
use storage::{RollupMeta, Snapshot};

use crate::access::{Action, Target};
use crate::promql::PromqlError;
use crate::serve::Client;

/// The label of a gauge with the level of its buckets.
pub(super) const LEVEL: &str = "level";
/// The label of a histogram's bucket with its upper bound.
pub(super) const LE: &str = "le";

/// The column that a family reads, and its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FamilyColumn {
    /// Numbers to add up.
    Sum(String),
    /// States of histograms: the numbers of values up to bounds.
    Histogram(String),
    /// One number for each bucket and key.
    Gauge(String),
}

/// One family of metrics.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) column: FamilyColumn,
    /// The finest level that has the column.
    from: Level,
    pub(super) rollup: Arc<Definition>,
    /// The start of the first bucket of each level that is known and complete, microseconds.
    known: Arc<BTreeMap<Level, i64>>,
}

impl Family {
    /// Returns the type in Prometheus' words.
    pub(super) fn kind(&self) -> &'static str {
        match self.column {
            FamilyColumn::Sum(_) => "counter",
            FamilyColumn::Histogram(_) => "histogram",
            FamilyColumn::Gauge(_) => "gauge",
        }
    }

    /// Returns whether each cell is a sample.
    pub(super) fn is_gauge(&self) -> bool {
        matches!(self.column, FamilyColumn::Gauge(_))
    }

    /// Returns the start of the first bucket of a level that retention has kept and that counts all
    /// events of its time, microseconds since 1970.
    pub(super) fn complete_from_us(&self, level: Level) -> i64 {
        self.known.get(&level).copied().unwrap_or(i64::MIN)
    }

    /// Returns the levels that pass the matchers of the label `level`; `None` without such a
    /// matcher.
    pub(super) fn levels_of(&self, matchers: &[Matcher]) -> Option<Vec<Level>> {
        let named: Vec<&Matcher> = matchers.iter().filter(|m| m.name == LEVEL).collect();
        let passes = |level: &Level| named.iter().all(|matcher| matcher.is_match(level.as_str()));
        (!named.is_empty()).then(|| self.levels().filter(passes).collect())
    }

    /// Returns the levels that have the column, finest first.
    pub(super) fn levels(&self) -> impl DoubleEndedIterator<Item = Level> {
        let levels = self.rollup.levels().iter().copied();
        levels.filter(|level| *level >= self.from)
    }

    /// Returns the calendar of the buckets.
    pub(super) fn calendar(&self) -> Calendar {
        self.rollup.calendar()
    }

    /// Returns the keys of the rollup with the names of their labels.
    pub(super) fn keys(&self) -> Vec<(String, &Key)> {
        let mut keys: Vec<(String, &Key)> = Vec::new();
        for key in self.rollup.by() {
            let mut label = label_of(&key.name);
            while keys.iter().any(|(known, _)| *known == label) {
                label.push('_');
            }
            keys.push((label, key));
        }
        keys
    }

    /// Returns the names of all labels.
    pub(super) fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = self.keys().into_iter().map(|(label, _)| label).collect();
        labels.push(METRIC_NAME.to_owned());
        match self.column {
            FamilyColumn::Sum(_) => {}
            FamilyColumn::Histogram(_) => labels.push(LE.to_owned()),
            FamilyColumn::Gauge(_) => labels.push(LEVEL.to_owned()),
        }
        labels
    }
}

/// Returns the label of a key.
fn label_of(key: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let label: String = key.chars().map(valid).collect();
    let is_reserved = [METRIC_NAME, LEVEL, LE].contains(&label.as_str());
    match is_reserved || label.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("exported_{label}"),
        false => label,
    }
}

/// Returns the families that a client sees, by name. Of two families of one name, the one of the
/// rollup with the shorter name is there.
///
/// # Errors
/// If a definition cannot be read.
pub(super) fn families(snapshot: &Snapshot, who: &Client) -> Result<Vec<Family>, PromqlError> {
    let mut rollups = BTreeMap::new();
    for meta in &snapshot.manifest().rollups {
        if who.may(Action::Read, Target::Stream(meta.stream.as_str())) {
            rollups.insert((meta.name.as_str().len(), meta.name.as_str()), meta);
        }
    }
    let mut families = BTreeMap::new();
    for meta in rollups.into_values() {
        let rollup = Definition::from_meta(meta);
        let rollup = rollup.map_err(|e| PromqlError::execution(e.to_string()))?;
        let rollup = Arc::new(rollup);
        let known = Arc::new(known(snapshot, meta, &rollup));
        for measure in rollup.measures() {
            for family in of_measure(&rollup, &known, measure) {
                families.entry(family.name.clone()).or_insert(family);
            }
        }
    }
    Ok(families.into_values().collect())
}

/// Returns the start of the first bucket of each level that retention has kept and that counts all
/// events of its time. A rollup counts no events that were sealed before it began, nor those of a
/// history that it has not reached yet.
fn known(snapshot: &Snapshot, meta: &RollupMeta, rollup: &Definition) -> BTreeMap<Level, i64> {
    let manifest = snapshot.manifest();
    let detached = manifest.detached_of(&meta.stream);
    let parts = manifest.parts_of(&meta.stream);
    let parts = parts.chain(detached.flat_map(|detached| &detached.parts));
    let older = parts.filter(|part| part.seq.0 < meta.first_seq);
    let counted = older.map(|part| part.time.1.saturating_add(1)).max();
    let counted = counted.max(meta.complete_from_us());
    let calendar = rollup.calendar();
    let first = |level: Level| {
        let counted = counted.map_or(i64::MIN, |from_us| {
            let bucket = calendar.bucket(level, from_us);
            match bucket.start_us == from_us {
                true => from_us,
                false => bucket.end_us,
            }
        });
        counted.max(meta.floor_us(level.as_str()))
    };
    let levels = rollup.levels().iter();
    levels.map(|level| (*level, first(*level))).collect()
}

/// The columns of a histogram that have one number for each bucket.
const OF_HISTOGRAMS: [&str; 8] = [
    "_mean",
    "_min",
    "_max",
    "_p50",
    "_p90",
    "_p95",
    "_p99",
    "_overflow",
];

/// Returns the families of one measure.
fn of_measure(
    rollup: &Arc<Definition>,
    known: &Arc<BTreeMap<Level, i64>>,
    measure: &Measure,
) -> Vec<Family> {
    let name = &measure.name;
    let family = |suffix: &str, column: FamilyColumn, what: &str| {
        let stream = rollup.stream();
        Family {
            name: format!("logmill_{}_{name}{suffix}", rollup.name()),
            help: format!(
                "{what} (measure {name} of rollup {} of stream {stream})",
                rollup.name()
            ),
            column,
            from: measure.from,
            rollup: Arc::clone(rollup),
            known: Arc::clone(known),
        }
    };
    let own = |suffix: &str| format!("{name}{suffix}");
    let gauge = |suffix: &str, what: &str| family(suffix, FamilyColumn::Gauge(own(suffix)), what);
    match &measure.kind {
        MeasureKind::Count => vec![
            family("_total", FamilyColumn::Sum(own("")), "Events"),
            gauge("", "Events in a bucket"),
        ],
        MeasureKind::Sum(field) => vec![
            family(
                "_total",
                FamilyColumn::Sum(own("")),
                &format!("Sum of {}", field.field),
            ),
            gauge("", &format!("Sum of {} in a bucket", field.field)),
        ],
        MeasureKind::Histogram { field, .. } => {
            let field = &field.field;
            let own = |suffix: &str| FamilyColumn::Sum(own(suffix));
            let states = FamilyColumn::Histogram(name.clone());
            let mut families = vec![
                family("_bucket", states, &format!("Histogram of {field}")),
                family("_count", own("_count"), &format!("Values of {field}")),
                family("_sum", own("_sum"), &format!("Sum of {field}")),
            ];
            families.extend(OF_HISTOGRAMS.map(|suffix| {
                let of = suffix.trim_start_matches('_');
                gauge(suffix, &format!("{of} of {field} in a bucket"))
            }));
            families
        }
        kind => {
            let what = match kind {
                MeasureKind::Min(field) => format!("Least {} in a bucket", field.field),
                MeasureKind::Max(field) => format!("Greatest {} in a bucket", field.field),
                MeasureKind::Mean(field) => format!("Mean of {} in a bucket", field.field),
                MeasureKind::Variance(field) => format!("Variance of {} in a bucket", field.field),
                MeasureKind::Distinct { field } => format!("Distinct {field} in a bucket"),
                _ => "Value in a bucket".to_owned(),
            };
            vec![gauge("", &what)]
        }
    }
}

/// Returns the families of a rollup whose levels are known from these times on.
#[cfg(test)]
pub(super) fn of_rollup(rollup: Definition, known: &[(Level, i64)]) -> Vec<Family> {
    let (rollup, known) = (Arc::new(rollup), Arc::new(known.iter().copied().collect()));
    let measures = rollup.measures().iter();
    let each = measures.flat_map(|measure| of_measure(&rollup, &known, measure));
    each.collect()
}
