//! The columns of a stream as labels, structured metadata and line.
//!
//! | of a stream's columns | is |
//! |---|---|
//! | its name, `host`, `level`, `site` | labels of the stream |
//! | the hundreds of `status`, as `2xx` | the label `status_class` |
//! | `raw_line`, else `line` | the line; without either, the event as JSON |
//! | all others | structured metadata, with `detected_level` |

use arrow::datatypes::{DataType, Schema};
use datafusion::common::Column;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::{Expr, cast, lit, when};
use datafusion::prelude::{coalesce, concat};
use storage::{REST, SEQ, TIME};

/// Labels of streams, those of them that a stream has columns for.
pub const LABELS: [&str; 5] = [STREAM, "host", "level", "site", STATUS_CLASS];
/// The label with the name of the stream.
pub(super) const STREAM: &str = "stream";
/// The label of the hundreds of a status.
pub(super) const STATUS_CLASS: &str = "status_class";
/// The metadata with the level of an event, or `unknown`.
pub(super) const DETECTED_LEVEL: &str = "detected_level";
/// Columns that hold the line as it came, the best one first.
const LINES: [&str; 2] = ["raw_line", "line"];
const STATUS: &str = "status";
const LEVEL: &str = "level";
const ID: &str = "_id";
const UNKNOWN: &str = "unknown";

/// The columns of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Columns {
    /// Name of the stream.
    pub(super) stream: String,
    /// All columns with their types, in the order of the table.
    pub(super) columns: Vec<(String, DataType)>,
}

/// The kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Label,
    Metadata,
    /// It is part of the rendered line alone.
    Hidden,
}

impl Columns {
    pub(super) fn new(stream: &str, schema: &Schema) -> Self {
        let columns = schema.fields().iter();
        let columns = columns.map(|field| (field.name().clone(), field.data_type().clone()));
        Self {
            stream: stream.to_owned(),
            columns: columns.collect(),
        }
    }

    pub(super) fn type_of(&self, name: &str) -> Option<&DataType> {
        let mut columns = self.columns.iter();
        columns.find_map(|(column, data_type)| (column == name).then_some(data_type))
    }

    /// Returns the column that holds the line; `None` if the event is rendered.
    pub(super) fn line(&self) -> Option<&'static str> {
        LINES
            .into_iter()
            .find(|line| self.type_of(line).is_some_and(DataType::is_string))
    }

    pub(super) fn has_status(&self) -> bool {
        self.type_of(STATUS).is_some_and(DataType::is_integer)
    }

    fn has_level(&self) -> bool {
        self.kind_of(LEVEL) == ColumnKind::Label
    }

    /// Returns the label of a column: its name, with `_` for what a label cannot have. The column
    /// whose name is the label comes first.
    pub(super) fn label_of(&self, column: &str) -> Option<String> {
        let label = sanitized(column);
        (self.column_of(&label) == Some(column)).then_some(label)
    }

    /// Returns the column of a label; `None` for labels that no column has or that are made.
    pub(super) fn column_of(&self, label: &str) -> Option<&str> {
        if [STREAM, STATUS_CLASS, DETECTED_LEVEL].contains(&label) {
            return None;
        }
        let names = || self.columns.iter().map(|(name, _)| name.as_str());
        let same = names().find(|name| *name == label);
        same.or_else(|| names().find(|name| sanitized(name) == label))
    }

    /// Returns whether the text of a label is the same in a plan as in an [`super::LogEntry`].
    pub(super) fn is_exact(&self, label: &str) -> bool {
        match label {
            STREAM | STATUS_CLASS => true,
            DETECTED_LEVEL => !self.has_level() || self.is_exact(LEVEL),
            label => self
                .column_of(label)
                .and_then(|name| self.type_of(name))
                .is_none_or(|known| {
                    known.is_string() || known.is_integer() || *known == DataType::Boolean
                }),
        }
    }

    /// Returns the labels that events of the stream can have.
    pub(super) fn labels(&self) -> Vec<&'static str> {
        let has = |label: &&str| match *label {
            STREAM => true,
            STATUS_CLASS => self.has_status(),
            name => self.type_of(name).is_some_and(is_scalar),
        };
        LABELS.into_iter().filter(has).collect()
    }

    /// Returns the kind of a column.
    pub(super) fn kind_of(&self, column: &str) -> ColumnKind {
        let is_line = self.line() == Some(column);
        match column {
            ID | TIME | SEQ | REST | STREAM | STATUS_CLASS | DETECTED_LEVEL => ColumnKind::Hidden,
            _ if is_line || !self.type_of(column).is_some_and(is_scalar) => ColumnKind::Hidden,
            name if LABELS.contains(&name) => ColumnKind::Label,
            _ => ColumnKind::Metadata,
        }
    }

    /// Returns an expression for the text of a label or of metadata, null or empty where an event
    /// has none; `None` if no event of the stream has it.
    pub(super) fn text(&self, name: &str) -> Option<Expr> {
        match name {
            STREAM => Some(lit(self.stream.clone())),
            STATUS_CLASS if self.has_status() => {
                let hundreds = cast(named(STATUS) / lit(100_i16), DataType::Utf8);
                let class = concat(vec![hundreds, lit("xx")]);
                when(named(STATUS).is_not_null(), class).end().ok()
            }
            DETECTED_LEVEL => Some(match self.has_level() {
                true => {
                    let level = nullif(cast(named(LEVEL), DataType::Utf8), lit(""));
                    coalesce(vec![level, lit(UNKNOWN)])
                }
                false => lit(UNKNOWN),
            }),
            label => {
                let name = self.column_of(label)?;
                match self.kind_of(name) {
                    ColumnKind::Hidden => None,
                    _ => Some(cast(named(name), DataType::Utf8)),
                }
            }
        }
    }
}

/// Returns a name with `_` for every character that a label cannot have.
pub(super) fn sanitized(name: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut clean: String = name
        .chars()
        .map(|c| if is_part(c) { c } else { '_' })
        .collect();
    if clean.starts_with(|c: char| c.is_ascii_digit()) {
        clean.insert(0, '_');
    }
    clean
}

/// Returns whether a column of this type is one text of an event.
fn is_scalar(data_type: &DataType) -> bool {
    use DataType::{Boolean, Timestamp};
    data_type.is_string() || data_type.is_numeric() || matches!(data_type, Boolean | Timestamp(..))
}

/// Returns a column by its exact name.
pub(super) fn named(column: &str) -> Expr {
    Expr::Column(Column::new_unqualified(column))
}

/// Returns the value of `status_class` for a status.
pub(super) fn class_of(status: &str) -> Option<String> {
    let status: i64 = status.parse().ok()?;
    Some(format!("{}xx", status / 100))
}

/// Returns the value of `detected_level`.
pub(super) fn detected(level: Option<&str>) -> &str {
    level.unwrap_or(UNKNOWN)
}
