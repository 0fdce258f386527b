//! Maps expressions over a stream to the columns of a rollup's cells: to the keys, and to the
//! bucket for `time`.

use std::collections::HashMap;

use aggregator::{Calendar, Definition, Level};
use arrow::array::{ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, cast};
use storage::TIME;

use super::constant::values_at;
use crate::tables::stream::prune::TimeRange;
use crate::tables::stream::source::{is_comparison, plain};

/// Maximum buckets for which the rule checks that each has a group of its own. With more buckets,
/// groups are merged even if they all differ.
const BUCKETS_MAX: usize = 50_000;

/// The keys of a rollup that are columns of its stream.
pub(super) struct KeyColumns {
    /// Types of the stream's column and of the rollup's key, by name.
    types: HashMap<String, (DataType, DataType)>,
}

impl KeyColumns {
    /// Returns the keys of a definition that hold exactly the values of the stream's column.
    pub(super) fn of(definition: &Definition, stream: &Schema) -> Self {
        let keys = definition.by().iter().filter(|key| key.expr.is_none());
        let types = keys.filter_map(|key| {
            let stored = stream.field_with_name(&key.name).ok()?.data_type();
            let own = key.key_type.arrow();
            let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::Utf8View);
            let same = *stored == own || (is_text(stored) && is_text(&own));
            same.then(|| (key.name.clone(), (stored.clone(), own)))
        });
        Self {
            types: types.collect(),
        }
    }

    /// Returns whether an expression over the stream's columns needs no columns but keys and
    /// `time`.
    pub(super) fn are_enough_for(&self, expr: &Expr) -> bool {
        let columns = expr.column_refs();
        columns
            .iter()
            .all(|c| c.name == TIME || self.types.contains_key(&c.name))
    }

    /// Returns whether an expression needs some key.
    pub(super) fn are_needed_for(&self, expr: &Expr) -> bool {
        expr.column_refs().iter().any(|c| c.name != TIME)
    }

    /// Returns whether a key holds integers.
    pub(super) fn is_integer(&self, key: &str) -> bool {
        let types = self.types.get(key);
        types.is_some_and(|(stored, _)| stored.is_integer())
    }

    /// Returns the same expression over the columns of a level.
    pub(super) fn over_level(&self, expr: &Expr) -> datafusion::common::Result<Expr> {
        let over = expr.clone().transform_down(|e| {
            // Constants that are compared with a key take the key's type, so that the comparison
            // can be pushed down into the scan of the level.
            if let Some(compared) = self.compared(&e) {
                return Ok(Transformed::new(compared, true, TreeNodeRecursion::Jump));
            }
            Ok(match e {
                Expr::Column(column) if column.name == TIME => Transformed::yes(plain("bucket")),
                Expr::Column(column) => {
                    let (stored, own) = &self.types[&column.name];
                    let key = plain(&column.name);
                    Transformed::new(
                        if stored == own {
                            key
                        } else {
                            cast(key, stored.clone())
                        },
                        true,
                        TreeNodeRecursion::Jump,
                    )
                }
                other => Transformed::no(other),
            })
        });
        Ok(over?.data)
    }

    fn compared(&self, expr: &Expr) -> Option<Expr> {
        let key = |expr: &Expr| match expr {
            Expr::Column(column) => {
                let (_, own) = self.types.get(&column.name)?;
                Some((plain(&column.name), own.clone()))
            }
            _ => None,
        };
        let constant = |expr: &Expr, own: &DataType| match expr {
            Expr::Literal(value, _) => {
                let text = value.try_as_str().flatten()?;
                (*own == DataType::Utf8)
                    .then(|| Expr::Literal(ScalarValue::Utf8(Some(text.to_owned())), None))
            }
            _ => None,
        };
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
                let (left, right) = if let Some((column, own)) = key(left) {
                    (column, constant(right, &own)?)
                } else {
                    let (column, own) = key(right)?;
                    (constant(left, &own)?, column)
                };
                Some(Expr::BinaryExpr(BinaryExpr::new(
                    Box::new(left),
                    *op,
                    Box::new(right),
                )))
            }
            Expr::InList(list) => {
                let (column, own) = key(&list.expr)?;
                let values = list.list.iter().map(|value| constant(value, &own));
                Some(Expr::InList(InList::new(
                    Box::new(column),
                    values.collect::<Option<_>>()?,
                    list.negated,
                )))
            }
            Expr::IsNull(inner) => Some(Expr::IsNull(Box::new(key(inner)?.0))),
            Expr::IsNotNull(inner) => Some(Expr::IsNotNull(Box::new(key(inner)?.0))),
            _ => None,
        }
    }
}

/// Returns whether an expression over `time` has a different value in each bucket of a level that
/// meets the range. The expression is known to have one value in each bucket, so its values at
/// the starts of these buckets are all of its values.
pub(super) fn tells_apart(
    expr: &Expr,
    definition: &Definition,
    level: Level,
    range: TimeRange,
) -> bool {
    let columns = expr.column_refs();
    if columns.is_empty() || columns.iter().any(|c| c.name != TIME) {
        return false;
    }
    match truncated_to(expr, definition) {
        Some(to) => to == level,
        None => starts(definition.calendar(), level, range)
            .and_then(|starts| values_at(expr, starts).ok())
            .is_some_and(|values| rise(&values)),
    }
}

/// Returns the level to which `date_trunc` in UTC truncates, for a rollup in UTC.
fn truncated_to(expr: &Expr, definition: &Definition) -> Option<Level> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    let [Expr::Literal(unit, _), Expr::Column(_)] = call.args.as_slice() else {
        return None;
    };
    if call.func.name() != "date_trunc" || definition.timezone() != chrono_tz::UTC {
        return None;
    }
    match unit.try_as_str().flatten()?.to_ascii_lowercase().as_str() {
        "minute" => Some(Level::Minute),
        "hour" => Some(Level::Hour),
        "day" => Some(Level::Day),
        "month" => Some(Level::Month),
        "year" => Some(Level::Year),
        _ => None,
    }
}

/// Returns the starts of all buckets of a level that meet a range, in order; `None` when there
/// are too many.
fn starts(calendar: Calendar, level: Level, range: TimeRange) -> Option<Vec<i64>> {
    let mut starts = Vec::new();
    let mut at_us = range.first;
    while at_us <= range.last {
        let bucket = calendar.bucket(level, at_us);
        if bucket.end_us <= at_us || starts.len() == BUCKETS_MAX {
            return None;
        }
        starts.push(bucket.start_us);
        at_us = bucket.end_us;
    }
    Some(starts)
}

/// Returns whether each value is greater than the one before it, so that all differ. A null comes
/// before every value. Floats return false: two that compare as different may be one group, as 0
/// and -0.
fn rise(values: &ArrayRef) -> bool {
    let is_exact = values.data_type().is_integer()
        || values.data_type().is_temporal()
        || values.data_type().is_string();
    let compare = make_comparator(values, values, SortOptions::default());
    is_exact
        && compare.is_ok_and(|compare| (1..values.len()).all(|nth| compare(nth - 1, nth).is_lt()))
}
