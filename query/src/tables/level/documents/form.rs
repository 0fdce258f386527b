//! The two forms of documents: the levels behind them, and the names of their members.

use aggregator::{Definition, Level, MeasureKind};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};

use super::DATE;
use crate::error::{Error, Fault, Result};

const HOURS: usize = 24;
/// Minutes of an hour.
pub(super) const MINUTES: usize = 60;
/// Days of the longest month. Days that a shorter month lacks are 0.
const DAYS: usize = 31;

/// Form of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One document for each key and local day.
    Daily,
    /// One document for each key and local month.
    Monthly,
}

impl Form {
    pub(crate) const ALL: [Self; 2] = [Self::Daily, Self::Monthly];

    /// Returns the form of a table.
    pub(crate) fn from_table(table: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.table() == table)
    }

    /// Returns the table name inside the rollup's schema.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Self::Daily => "daily_documents",
            Self::Monthly => "monthly_documents",
        }
    }

    /// Returns the calendar interval of one document.
    pub(super) fn document(self) -> Level {
        match self {
            Self::Daily => Level::Day,
            Self::Monthly => Level::Month,
        }
    }

    /// Returns the interval in which the coarsest level is read at once: the time partition of
    /// its tiles.
    pub(super) fn window(self) -> Level {
        match self {
            Self::Daily => Level::Month,
            Self::Monthly => Level::Year,
        }
    }

    /// Returns the levels whose buckets are members, the coarsest first.
    pub(super) fn levels(self) -> &'static [Level] {
        match self {
            Self::Daily => &[Level::Hour, Level::Minute],
            Self::Monthly => &[Level::Day],
        }
    }

    /// Returns the name of the column with all hits of a document.
    pub(super) fn total(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::Monthly => "monthly",
        }
    }

    /// Returns the strftime format of the date in an `_id`.
    pub(super) fn date_format(self) -> &'static str {
        match self {
            Self::Daily => "%Y%m%d",
            Self::Monthly => "%Y%m",
        }
    }

    /// Returns the measure that documents show.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the requirement that the rollup lacks.
    pub(crate) fn counter(self, definition: &Definition) -> Result<&str> {
        let (rollup, table) = (definition.name(), self.table());
        let lacks = |what: String, hint: String| Error::Invalid {
            message: format!("there is no {rollup}.{table}: rollup {rollup} {what}"),
            hint: Some(hint),
            fault: Fault::NoTable,
        };
        let missing: Vec<&str> = self
            .levels()
            .iter()
            .filter(|level| !definition.levels().contains(level))
            .map(|level| level.as_str())
            .collect();
        if !missing.is_empty() {
            let missing = missing.join(" and no ");
            let needed: Vec<String> = self.levels().iter().map(|l| format!("\"{l}\"")).collect();
            let needed = needed.join(", ");
            return Err(lacks(
                format!("has no {missing} level"),
                format!("such documents need a [rollup.NAME] whose levels have {needed}"),
            ));
        }
        if definition.by().iter().any(|key| key.name == DATE) {
            return Err(lacks(
                format!("has a key named {DATE}, which is also the name of the documents' date"),
                "give the key another name".to_owned(),
            ));
        }
        let finest = self.levels()[self.levels().len() - 1];
        let counts = definition
            .measures()
            .iter()
            .filter(|m| m.kind == MeasureKind::Count && m.filter.is_none());
        let Some(counter) = counts.min_by_key(|measure| measure.from) else {
            return Err(lacks(
                "has no count without a filter".to_owned(),
                "such documents need a [rollup.NAME] with a measure like hits = \"count\""
                    .to_owned(),
            ));
        };
        if counter.from > finest {
            return Err(lacks(
                format!("has {} only from level {} on", counter.name, counter.from),
                format!("such documents need it from level {finest} on"),
            ));
        }
        Ok(&counter.name)
    }
}

/// Shape of the result: form of the documents, measure, and columns.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) counter: String,
    pub(super) schema: SchemaRef,
}

/// Returns the name of the column whose members are the buckets of a level.
pub(super) fn column_of(level: Level) -> &'static str {
    match level {
        Level::Minute => "minute",
        other => other.table(),
    }
}

/// Returns the field of a level's column: a struct of numbers, or for minutes a struct of hours.
pub(super) fn members_of(level: Level) -> Field {
    let hours = || (0..HOURS).map(|hour| hour.to_string());
    let members: Fields = match level {
        Level::Minute => {
            let minutes: Fields = (0..MINUTES).map(|m| number(m.to_string())).collect();
            hours()
                .map(|hour| Field::new(hour, DataType::Struct(minutes.clone()), false))
                .collect()
        }
        Level::Hour => hours().map(number).collect(),
        _ => (1..=DAYS).map(|day| number(day.to_string())).collect(),
    };
    Field::new(column_of(level), DataType::Struct(members), false)
}

/// Returns the field of one number. Null marks a bucket that retention has dropped.
fn number(name: String) -> Field {
    Field::new(name, DataType::Int64, true)
}

/// Returns the number of members of a level in one document.
pub(super) fn members(level: Level) -> usize {
    match level {
        Level::Minute => HOURS * MINUTES,
        Level::Hour => HOURS,
        _ => DAYS,
    }
}
