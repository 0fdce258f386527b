//! SQL over the levels of a rollup.

use aggregator::{KeyType, Level};
use chrono::{DateTime, SecondsFormat};
use promql_parser::label::{METRIC_NAME, MatchOp, Matcher};

use super::families::{Family, FamilyColumn, LE, LEVEL};
use crate::promql::KeptLabels;

/// The label of a key that is an empty text: an empty label would be none, which stands for null.
pub(super) const EMPTY: &str = "(empty)";

/// Starts of buckets, `[from, to)` in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets {
    pub(super) from_us: Option<i64>,
    pub(super) to_us: i64,
}

/// The choice of cells: conditions on the keys, and the keys that are distinguished.
#[derive(Debug)]
pub(super) struct CellChoice {
    conditions: Vec<String>,
    /// The distinguished keys: name of the label, name of the column.
    pub(super) keys: Vec<(String, String)>,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Returns a time as SQL; a time out of range is the end of the range.
fn time(at_us: i64) -> String {
    let at = DateTime::from_timestamp_micros(at_us).unwrap_or_default();
    format!("'{}'", at.to_rfc3339_opts(SecondsFormat::Micros, true))
}

impl CellChoice {
    /// Returns the choice of a family's cells; `None` if no series can pass the matchers.
    pub(super) fn new(
        family: &Family,
        matchers: &[Matcher],
        keep: Option<&KeptLabels>,
    ) -> Option<Self> {
        let keys = family.keys();
        let mut conditions = Vec::new();
        // The name is matched by the family, and these labels by its levels and bounds.
        let (is_gauge, has_bounds) = match family.column {
            FamilyColumn::Gauge(_) => (true, false),
            FamilyColumn::Histogram(_) => (false, true),
            FamilyColumn::Sum(_) => (false, false),
        };
        for matcher in matchers {
            match matcher.name.as_str() {
                METRIC_NAME => continue,
                LEVEL if is_gauge => continue,
                LE if has_bounds => continue,
                _ => {}
            }
            match keys.iter().find(|(label, _)| *label == matcher.name) {
                Some((_, key)) => conditions.push(condition(&key.name, key.key_type, matcher)),
                None if matcher.is_match("") => {}
                None => return None,
            }
        }
        let kept = keys.into_iter();
        let kept = kept.filter(|(label, _)| keep.is_none_or(|keep| keep.keeps(label)));
        let keys = kept.map(|(label, key)| (label, key.name.clone())).collect();
        Some(Self { conditions, keys })
    }

    fn wheres(&self, buckets: Buckets) -> String {
        let mut all = vec![format!("bucket < {}", time(buckets.to_us))];
        all.extend(
            buckets
                .from_us
                .map(|from| format!("bucket >= {}", time(from))),
        );
        all.extend(self.conditions.iter().cloned());
        all.join(" AND ")
    }

    /// Returns the columns of the distinguished keys, each followed by a comma.
    fn key_columns(&self, wrap: impl Fn(&str) -> String) -> String {
        let columns = self
            .keys
            .iter()
            .map(|(_, column)| wrap(&quoted(column)) + ", ");
        columns.collect()
    }

    fn group(&self) -> String {
        let columns: Vec<String> = self.keys.iter().map(|(_, column)| quoted(column)).collect();
        columns.join(", ")
    }

    /// Returns the statement of the cells of a level: `bucket_end`, the keys, the value.
    pub(super) fn cells(&self, family: &Family, level: Level, buckets: Buckets) -> String {
        let table = table(family, level);
        let keys = self.key_columns(|column| format!("CAST({column} AS VARCHAR)"));
        let wheres = self.wheres(buckets);
        let group = match self.group() {
            none if none.is_empty() => "bucket_end".to_owned(),
            some => format!("bucket_end, {some}"),
        };
        match &family.column {
            FamilyColumn::Gauge(column) => {
                let column = quoted(column);
                format!(
                    "SELECT bucket_end, {keys}CAST({column} AS DOUBLE) FROM {table} WHERE {wheres}"
                )
            }
            column => {
                let value = merged(column, None);
                format!(
                    "SELECT bucket_end, {keys}{value} FROM {table} WHERE {wheres} GROUP BY {group}"
                )
            }
        }
    }

    /// Returns the statement of the sums of all cells of levels: the keys, the value.
    pub(super) fn sums(&self, family: &Family, levels: &[(Level, Buckets)]) -> String {
        let (FamilyColumn::Sum(column)
        | FamilyColumn::Histogram(column)
        | FamilyColumn::Gauge(column)) = &family.column;
        let column = quoted(column);
        let keys = self.key_columns(str::to_owned);
        let each = levels.iter().map(|(level, buckets)| {
            let (table, wheres) = (table(family, *level), self.wheres(*buckets));
            format!("SELECT {keys}{column} AS cell_value FROM {table} WHERE {wheres}")
        });
        let all: Vec<String> = each.collect();
        let all = all.join(" UNION ALL ");
        let keys = self.key_columns(|column| format!("CAST({column} AS VARCHAR)"));
        let value = merged(&family.column, Some("cell_value"));
        let group = match self.group() {
            // Without a group there would be a row of no cells.
            none if none.is_empty() => " HAVING count(*) > 0".to_owned(),
            some => format!(" GROUP BY {some}"),
        };
        format!("SELECT {keys}{value} FROM ({all}) AS cells{group}")
    }

    /// Returns the statement of the distinct keys of a level.
    pub(super) fn distinct(&self, family: &Family, level: Level, buckets: Buckets) -> String {
        let keys = self.key_columns(|column| format!("CAST({column} AS VARCHAR)"));
        let keys = keys.trim_end_matches(", ");
        let keys = if keys.is_empty() { "1" } else { keys };
        let (table, wheres) = (table(family, level), self.wheres(buckets));
        format!("SELECT DISTINCT {keys} FROM {table} WHERE {wheres}")
    }
}

fn table(family: &Family, level: Level) -> String {
    format!(
        "{}.{}",
        quoted(family.rollup.name().as_str()),
        level.table()
    )
}

/// Returns the merge of a column over cells.
fn merged(column: &FamilyColumn, named: Option<&str>) -> String {
    let quote = |column: &str| named.map_or_else(|| quoted(column), str::to_owned);
    match column {
        // A cell without a value of the field adds nothing, and is there.
        FamilyColumn::Sum(column) | FamilyColumn::Gauge(column) => {
            format!("coalesce(CAST(sum({}) AS DOUBLE), 0)", quote(column))
        }
        FamilyColumn::Histogram(column) => format!("hist_merge({})", quote(column)),
    }
}

/// Returns the condition of a matcher on a key.
fn condition(key: &str, key_type: KeyType, matcher: &Matcher) -> String {
    let column = quoted(key);
    let label = match key_type {
        KeyType::Text => format!(
            "CASE WHEN {column} IS NULL THEN '' WHEN {column} = '' THEN '{EMPTY}' ELSE {column} END"
        ),
        _ => format!("coalesce(CAST({column} AS VARCHAR), '')"),
    };
    let value = matcher.value.as_str();
    match &matcher.op {
        // A comparison with the column itself is applied by the scan.
        MatchOp::Equal if value.is_empty() => format!("{column} IS NULL"),
        MatchOp::NotEqual if value.is_empty() => format!("{column} IS NOT NULL"),
        MatchOp::Equal if key_type != KeyType::Text => match value.parse::<i64>() {
            Ok(number) if number.to_string() == value => format!("{column} = {number}"),
            _ => "false".to_owned(),
        },
        MatchOp::Equal if value != EMPTY => format!("{column} = {}", text(value)),
        MatchOp::Equal => format!("({label}) = {}", text(value)),
        MatchOp::NotEqual => format!("({label}) <> {}", text(value)),
        MatchOp::Re(regex) => format!("({label}) ~ {}", text(regex.as_str())),
        MatchOp::NotRe(regex) => format!("({label}) !~ {}", text(regex.as_str())),
    }
}
