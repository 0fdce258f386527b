//! Filters that name values of one key.

use aggregator::KeyValue;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// Returns the column and the values of `key = 1`, `key IN (…)`, `key IS NULL`, and of an `OR` of
/// these.
pub(crate) fn key_filter(filter: &Expr) -> Option<(&str, Vec<KeyValue>)> {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => match (&**left, &**right) {
            (Expr::Column(c), other) | (other, Expr::Column(c)) => {
                Some((&c.name, vec![key_value(other)?]))
            }
            _ => None,
        },
        Expr::InList(list) if !list.negated => match &*list.expr {
            Expr::Column(c) => Some((
                &c.name,
                list.list
                    .iter()
                    .map(key_value)
                    .collect::<Option<Vec<_>>>()?,
            )),
            _ => None,
        },
        Expr::IsNull(inner) => match &**inner {
            Expr::Column(c) => Some((&c.name, vec![KeyValue::Null])),
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => {
            let (column, mut all) = key_filter(left)?;
            let (other, more) = key_filter(right)?;
            all.extend(more);
            (column == other).then_some((column, all))
        }
        _ => None,
    }
}

fn key_value(expr: &Expr) -> Option<KeyValue> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    if let Some(text) = value.try_as_str().flatten() {
        return Some(KeyValue::Text(text.to_owned()));
    }
    match value {
        ScalarValue::Int16(Some(v)) => Some(KeyValue::Int(i64::from(*v))),
        ScalarValue::Int32(Some(v)) => Some(KeyValue::Int(i64::from(*v))),
        ScalarValue::Int64(Some(v)) => Some(KeyValue::Int(*v)),
        _ => None,
    }
}
