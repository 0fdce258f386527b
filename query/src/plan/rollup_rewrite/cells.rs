//! Maps expressions over a stream to the columns of a rollup's cells: to the keys, and to the
//! bucket for `time`.

use std::collections::HashMap;

use aggregator::{Calendar, Definition, Expression, Level};
use arrow::array::{ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, cast};
use storage::TIME;

use super::constant::values_at;
use crate::functions::texts::{PATH_PREFIX, URL_PARAMETER, text_function};
use crate::tables::stream::prune::TimeRange;
use crate::tables::stream::source::{is_comparison, plain};

/// Maximum buckets for which the rule checks that each has a group of its own. With more buckets,
/// groups are merged even if they all differ.
const BUCKETS_MAX: usize = 50_000;

/// The keys of a rollup that a query can name: columns of its stream, and calls of functions that
/// mean the same in SQL.
pub(super) struct KeyColumns {
    keys: HashMap<Expression, KeyColumn>,
}

struct KeyColumn {
    name: String,
    /// Type of the expression in the stream.
    in_stream: DataType,
    /// Type of the rollup's key.
    own: DataType,
}

impl KeyColumns {
    /// Returns the keys of a definition that hold exactly the values of an expression over the
    /// stream's columns.
    pub(super) fn of(definition: &Definition, stream: &Schema) -> Self {
        let keys = definition.by().iter().filter_map(|key| {
            let value = key.value();
            let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::Utf8View);
            let stored = stream.field_with_name(value.field()).ok()?.data_type();
            let in_stream = match &value {
                Expression::Field(_) => stored.clone(),
                // Of another type a rollup makes texts otherwise than a cast does.
                _ if is_text(stored) => DataType::Utf8,
                _ => return None,
            };
            let own = key.key_type.arrow();
            let same = in_stream == own || (is_text(&in_stream) && is_text(&own));
            let name = key.name.clone();
            let column = KeyColumn {
                name,
                in_stream,
                own,
            };
            same.then_some((value, column))
        });
        Self {
            keys: keys.collect(),
        }
    }

    /// Returns the key that holds the values of an expression.
    fn key(&self, expr: &Expr) -> Option<&KeyColumn> {
        self.keys.get(&key_expression(expr)?)
    }

    /// Returns whether an expression over the stream's columns needs no columns but keys and
    /// `time`.
    pub(super) fn are_enough_for(&self, expr: &Expr) -> bool {
        let mut enough = true;
        let walked = expr.apply(|e| {
            if self.key(e).is_some() {
                return Ok(TreeNodeRecursion::Jump);
            }
            enough &= !matches!(e, Expr::Column(column) if column.name != TIME);
            Ok(TreeNodeRecursion::Continue)
        });
        walked.is_ok() && enough
    }

    /// Returns whether an expression needs some key.
    pub(super) fn are_needed_for(&self, expr: &Expr) -> bool {
        expr.column_refs().iter().any(|c| c.name != TIME)
    }

    /// Returns whether an expression is a key that holds integers.
    pub(super) fn is_integer(&self, expr: &Expr) -> bool {
        self.key(expr).is_some_and(|key| key.in_stream.is_integer())
    }

    /// Returns the same expression over the columns of a level.
    pub(super) fn over_level(&self, expr: &Expr) -> datafusion::common::Result<Expr> {
        let over = expr.clone().transform_down(|e| {
            // Constants that are compared with a key take the key's type, so that the comparison
            // can be pushed down into the scan of the level.
            if let Some(compared) = self.compared(&e) {
                return Ok(Transformed::new(compared, true, TreeNodeRecursion::Jump));
            }
            if let Some(key) = self.key(&e) {
                let column = match key.in_stream == key.own {
                    true => plain(&key.name),
                    false => cast(plain(&key.name), key.in_stream.clone()),
                };
                return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
            }
            Ok(match e {
                Expr::Column(column) if column.name == TIME => Transformed::yes(plain("bucket")),
                other => Transformed::no(other),
            })
        });
        Ok(over?.data)
    }

    fn compared(&self, expr: &Expr) -> Option<Expr> {
        let key = |expr: &Expr| {
            let key = self.key(expr)?;
            Some((plain(&key.name), key.own.clone()))
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

/// Returns the expression of a rollup that has the values of an SQL expression; `None` for those
/// that no key can have.
fn key_expression(expr: &Expr) -> Option<Expression> {
    let call = match expr {
        Expr::Column(column) => return Some(Expression::Field(column.name.clone())),
        Expr::ScalarFunction(call) => call,
        _ => return None,
    };
    let (text, arguments) = call.args.split_first()?;
    // The planner casts a text column to the type of the function's argument.
    let text = match text {
        Expr::Cast(cast) if cast.field.data_type().is_string() => &*cast.expr,
        other => other,
    };
    let of = || Some(Box::new(key_expression(text)?));
    match (call.func.name(), arguments) {
        (PATH_PREFIX, [Expr::Literal(ScalarValue::Int64(Some(n)), _)]) => {
            Some(Expression::PathPrefix(of()?, u16::try_from(*n).ok()?))
        }
        (URL_PARAMETER, [Expr::Literal(ScalarValue::Utf8(Some(name)), _)]) => {
            Some(Expression::UrlParameter(of()?, name.clone()))
        }
        (name, []) => Some(Expression::Text(text_function(name)?, of()?)),
        _ => None,
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
