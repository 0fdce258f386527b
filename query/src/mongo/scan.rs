//! The scan of a stream for a filter: every event that may match it, and not many others.
//!
//! A filter is exact on documents ([`Filter`]); here its conditions on single fields become
//! conditions on columns, by which parts and indexes leave out most events.
//!
//! # Invariants
//! * Each event whose document matches the filter is scanned, once. A field at the top of a
//!   document is in the column of its name, or else in the overflow column, and never in both. So
//!   a condition on columns holds for each event that matches and has nothing in the overflow
//!   column; of the others it holds where the column has a value. Fields inside of documents,
//!   `_id` and a time that is not the document's may be in the overflow column beside a value of
//!   the column.

use std::ops::Not;

use arrow::datatypes::{DataType, TimeUnit};
use bson::Bson;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, ident, lit};
use storage::{ID, Name, REST, SEQ, TIME, TIME_SOURCE, fits_float};

use super::filter::{Conjunct, ConjunctTest, Filter};
use crate::question::{Question, Tables};

/// Maximum conditions on columns, and maximum values of one of them that are ranges. Plans are
/// trees, whose depth must be bounded; the filter itself has all conditions.
const TESTS_MAX: usize = 64;
/// Maximum values of a list.
const VALUES_MAX: usize = 10_000;

/// Returns the question for the events of a stream that may match a filter, from a sequence number
/// on.
pub fn scan(stream: &Name, filter: &Filter, from_seq: u64) -> Question {
    let table = stream.to_string();
    let conditions = column_tests(filter);
    Question::Plan {
        text: format!("documents of {stream}"),
        build: Box::new(move |tables| build(&tables, &table, &conditions, from_seq)?.build()),
    }
}

/// Returns the tests that a filter implies, as many as a plan may have.
pub(super) fn column_tests(filter: &Filter) -> Vec<ColumnTest> {
    let conjuncts = filter.conjuncts();
    conjuncts.iter().take(TESTS_MAX).map(owned).collect()
}

/// A test of a field, if it is a column.
#[derive(Debug)]
pub(super) struct ColumnTest {
    path: String,
    operation: Operation,
    values: Vec<Bson>,
}

/// A comparison of a column with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// Equal to one of them.
    In,
    Greater {
        or_equal: bool,
    },
    Less {
        or_equal: bool,
    },
}

fn owned(conjunct: &Conjunct<'_>) -> ColumnTest {
    let one = |operation, value: &Bson| (operation, vec![value.clone()]);
    let (operation, values) = match conjunct.test {
        ConjunctTest::Eq(value) => one(Operation::In, value),
        ConjunctTest::In(values) => (Operation::In, values.to_vec()),
        ConjunctTest::Gt(value) => one(Operation::Greater { or_equal: false }, value),
        ConjunctTest::Gte(value) => one(Operation::Greater { or_equal: true }, value),
        ConjunctTest::Lt(value) => one(Operation::Less { or_equal: false }, value),
        ConjunctTest::Lte(value) => one(Operation::Less { or_equal: true }, value),
    };
    ColumnTest {
        path: conjunct.path.to_owned(),
        operation,
        values,
    }
}

fn build(
    tables: &Tables<'_>,
    table: &str,
    conditions: &[ColumnTest],
    from_seq: u64,
) -> Result<LogicalPlanBuilder> {
    let scan = || match from_seq {
        0 => tables.scan(table),
        from => tables.scan(table)?.filter(ident(SEQ).gt_eq(lit(from))),
    };
    let rows = scan()?;
    let schema = rows.schema().as_arrow().clone();
    let has = |name: &str| schema.column_with_name(name).is_some();
    let on_columns: Vec<(&str, Expr)> = conditions
        .iter()
        .filter_map(|test| {
            let (_, field) = schema.column_with_name(&test.path)?;
            let is_own = [REST, SEQ, TIME_SOURCE].contains(&test.path.as_str());
            let condition = test.condition(&ident(&test.path), field.data_type());
            Some((test.path.as_str(), condition.filter(|_| !is_own)?))
        })
        .collect();
    let all = on_columns.iter().map(|(_, condition)| condition.clone());
    let Some(all) = all.reduce(Expr::and) else {
        return Ok(rows);
    };
    if !has(REST) {
        return rows.filter(all);
    }
    let elsewhere = on_columns.iter().map(|(path, _)| {
        let from_elsewhere = |other: Expr| match has(TIME_SOURCE) && *path == TIME {
            true => other.or(ident(TIME_SOURCE).is_not_null()),
            false => other,
        };
        let is_inside = path.contains('.') || *path == ID;
        (!is_inside).then(|| from_elsewhere(ident(*path).is_null()))
    });
    let elsewhere: Vec<Option<Expr>> = elsewhere.collect();
    let mut others = ident(REST).is_not_null().and(all.clone().is_true().not());
    for ((_, condition), elsewhere) in on_columns.iter().zip(&elsewhere) {
        if let Some(elsewhere) = elsewhere {
            others = others.and(condition.clone().or(elsewhere.clone()));
        }
    }
    // The same once more, by which parts without such rows are left out.
    if let Some(elsewhere) = elsewhere.into_iter().collect::<Option<Vec<Expr>>>() {
        others = others.and(elsewhere.into_iter().reduce(Expr::or).unwrap_or(lit(true)));
    }
    let others = scan()?.filter(others)?;
    rows.filter(all)?.union(others.build()?)
}

impl ColumnTest {
    /// Creates the test that a field is equal to a value.
    pub(super) fn equal(path: String, value: Bson) -> Self {
        Self {
            path,
            operation: Operation::In,
            values: vec![value],
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the values of which the field must have one; none if the test is another.
    pub(super) fn equal_values(&self) -> &[Bson] {
        match self.operation {
            Operation::In => &self.values,
            Operation::Greater { .. } | Operation::Less { .. } => &[],
        }
    }

    /// Returns the condition on a column that holds for each value which passes the test; `None` if
    /// there is none.
    pub(super) fn condition(&self, column: &Expr, data_type: &DataType) -> Option<Expr> {
        let is_id = self.path == ID;
        let bounds = |value: &Bson| EqualValues::of(is_id, data_type, value);
        let column = || column.clone();
        match self.operation {
            Operation::In => {
                let all = self.values.iter().take(VALUES_MAX + 1).map(bounds);
                // One value that the column cannot be compared with may still be found.
                any_of(&column(), all.collect::<Option<Vec<EqualValues>>>()?)
            }
            Operation::Greater { or_equal } => {
                let bounds = bounds(self.values.first()?)?;
                Some(match (or_equal, bounds.is_range) {
                    (false, false) => column().gt(bounds.low),
                    (false, true) => column().gt_eq(bounds.high),
                    (true, _) => column().gt_eq(bounds.low),
                })
            }
            Operation::Less { or_equal } => {
                let bounds = bounds(self.values.first()?)?;
                Some(match (or_equal, bounds.is_range) {
                    (false, _) => column().lt(bounds.low),
                    (true, false) => column().lt_eq(bounds.high),
                    (true, true) => column().lt(bounds.high),
                })
            }
        }
    }
}

/// Returns the condition that a column has one of some values; `None` for too many.
fn any_of(column: &Expr, values: Vec<EqualValues>) -> Option<Expr> {
    if values.len() > VALUES_MAX {
        return None;
    }
    let (points, ranges): (Vec<_>, Vec<_>) = values
        .into_iter()
        .partition(|values| values.low == values.high);
    if ranges.len() > TESTS_MAX {
        return None;
    }
    let column = || column.clone();
    let mut points: Vec<Expr> = points.into_iter().map(|values| values.low).collect();
    let listed = match points.len() {
        0 => None,
        1 => points.pop().map(|point| column().eq(point)),
        _ => Some(column().in_list(points, false)),
    };
    let between = ranges.into_iter().map(|values| match values.is_range {
        true => column().gt_eq(values.low).and(column().lt(values.high)),
        false => column().between(values.low, values.high),
    });
    let any = listed.into_iter().chain(between).reduce(Expr::or);
    // No value is in an empty list.
    Some(any.unwrap_or_else(|| lit(false)))
}

/// The values of a column that are equal to one of BSON: from `low` up to `high`.
struct EqualValues {
    low: Expr,
    high: Expr,
    /// `high` itself is not one of them.
    is_range: bool,
}

impl EqualValues {
    fn of(is_id: bool, data_type: &DataType, value: &Bson) -> Option<Self> {
        let same = |literal: Expr| Self {
            low: literal.clone(),
            high: literal,
            is_range: false,
        };
        Some(match (data_type, value) {
            (DataType::Utf8View | DataType::Utf8, Bson::ObjectId(id)) if is_id => {
                same(lit(id.to_hex()))
            }
            // A text of 24 hexadecimal digits is another value than the ObjectId.
            (DataType::Utf8View | DataType::Utf8, Bson::String(text))
                if !is_id || bson::oid::ObjectId::parse_str(text).is_err() =>
            {
                same(lit(text.clone()))
            }
            (DataType::Boolean, Bson::Boolean(truth)) => same(lit(*truth)),
            (DataType::Int16 | DataType::Int64, value) => same(lit(integer(value)?)),
            (DataType::Float64, value) => {
                let number = match value {
                    Bson::Double(number) if number.is_finite() => *number,
                    value => integer(value).filter(|number| fits_float(*number))? as f64,
                };
                // Both zeros are equal, and columns order them.
                match number == 0.0 {
                    true => Self {
                        low: lit(-0.0),
                        high: lit(0.0),
                        is_range: false,
                    },
                    false => same(lit(number)),
                }
            }
            (DataType::Timestamp(TimeUnit::Microsecond, zone), Bson::DateTime(time)) => {
                // A date has whole milliseconds: those of the column are cut to them.
                let us = time.timestamp_millis().checked_mul(1000)?;
                let literal =
                    |us: i64| lit(ScalarValue::TimestampMicrosecond(Some(us), zone.clone()));
                Self {
                    low: literal(us),
                    high: literal(us.checked_add(1000)?),
                    is_range: true,
                }
            }
            _ => return None,
        })
    }
}

/// Returns the integer that a number is, whatever its type.
fn integer(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        Bson::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Some(*number as i64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
