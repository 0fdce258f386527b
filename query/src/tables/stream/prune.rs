//! Pure functions that derive bounds on parts from filters, before a part is opened.

use std::any::Any;

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use storage::{ID, IndexValue, PartMeta, SEQ, TIME};

use super::derive::{ObjectIdOf, seq_of};

/// Event times, microseconds since 1970. Both ends are included, unlike those of other ranges:
///
/// * Queries say `time <= t` and `BETWEEN`, and parts, chunks and Parquet's statistics have the
///   first and the last time. So nothing has to be converted, and no `+ 1` can overflow.
/// * A scan applies its range exactly, in place of the filter, and storage accepts every time. The
///   end of a half-open range of all times would be beyond `i64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl TimeRange {
    /// The range of all times.
    pub(crate) const ALL: Self = Self {
        first: i64::MIN,
        last: i64::MAX,
    };

    pub(crate) fn contains(self, time_us: i64) -> bool {
        self.first <= time_us && time_us <= self.last
    }

    pub(crate) fn intersect(self, other: Self) -> Self {
        Self {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
        }
    }

    /// Returns the range as comparisons with a column of times; none for an unbounded end.
    pub(crate) fn filter(self, column: &Column) -> Vec<Expr> {
        let stamp = |at_us: i64| {
            let value = ScalarValue::TimestampMicrosecond(Some(at_us), Some("UTC".into()));
            Expr::Literal(value, None)
        };
        let column = || Expr::Column(column.clone());
        let first = (self.first > i64::MIN).then(|| column().gt_eq(stamp(self.first)));
        let last = (self.last < i64::MAX).then(|| column().lt_eq(stamp(self.last)));
        first.into_iter().chain(last).collect()
    }

    /// Checks whether every time of a part or chunk lies inside.
    pub(crate) fn covers(self, time: (i64, i64)) -> bool {
        self.first <= time.0 && time.1 <= self.last
    }

    /// Checks whether some time of a part or chunk may lie inside.
    pub(crate) fn meets(self, time: (i64, i64)) -> bool {
        self.first <= time.1 && time.0 <= self.last
    }
}

/// Largest number of values that are looked for by themselves: each has its own place in a sorted
/// file, and takes a walk over the rows of a chunk.
const FEW_VALUES: usize = 16;

/// Bounds of a scan's filters, in terms of the manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    /// Requested times. They are exact: the scan applies them itself.
    pub(crate) time: TimeRange,
    /// Superset of the requested sequence numbers, both ends included.
    pub(crate) seq: (u64, u64),
    /// Columns with a superset of their requested values.
    pub(crate) values: Vec<(String, Vec<IndexValue>)>,
}

impl Bounds {
    /// Returns the bounds of filters that all have to hold.
    pub(crate) fn of<'a>(filters: impl IntoIterator<Item = &'a Expr>) -> Self {
        let mut bounds = Self {
            time: TimeRange::ALL,
            seq: (0, u64::MAX),
            values: Vec::new(),
        };
        for filter in filters {
            if let Some(range) = time_range(filter, TIME) {
                bounds.time = bounds.time.intersect(range);
            } else if let Some((least, most)) = seq_range(filter) {
                bounds.seq = (bounds.seq.0.max(least), bounds.seq.1.min(most));
            } else if let Some((column, values)) = values(filter) {
                bounds.values.push((column.to_owned(), values));
            }
        }
        bounds
    }

    /// Returns the columns of which few values are requested.
    pub(crate) fn few(&self) -> impl Iterator<Item = &(String, Vec<IndexValue>)> {
        let is_few = |(_, values): &&(String, Vec<IndexValue>)| values.len() <= FEW_VALUES;
        self.values.iter().filter(is_few)
    }

    /// Returns the requested values of a column, if these are few.
    pub(crate) fn few_of(&self, column: &str) -> Option<(&str, &[IndexValue])> {
        let (column, values) = self.few().find(|(name, _)| name == column)?;
        Some((column, values))
    }

    /// Checks whether a part may hold a requested row.
    pub(crate) fn may_hold(&self, part: &PartMeta) -> bool {
        self.time.meets(part.time)
            && self.seq.0 <= part.seq.1
            && part.seq.0 <= self.seq.1
            && self.values.iter().all(|(column, values)| {
                part.text_range.get(column).is_none_or(|(least, greatest)| {
                    values.iter().any(|value| match value {
                        IndexValue::Text(t) => least <= t && t <= greatest,
                        IndexValue::Integer(_) => true,
                    })
                })
            })
    }
}

/// Returns the range of timestamps that a comparison of `column` with constants allows; `None`
/// for other filters.
pub(crate) fn time_range(filter: &Expr, column: &str) -> Option<TimeRange> {
    let range = match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And,
            right,
        }) => time_range(left, column)?.intersect(time_range(right, column)?),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (value, op) = if is_column(left, column) {
                (micros(right)?, *op)
            } else if is_column(right, column) {
                (micros(left)?, op.swap()?)
            } else {
                return None;
            };
            match op {
                Operator::Eq => TimeRange {
                    first: value,
                    last: value,
                },
                Operator::GtEq => TimeRange {
                    first: value,
                    last: i64::MAX,
                },
                Operator::Gt => TimeRange {
                    first: value.checked_add(1)?,
                    last: i64::MAX,
                },
                Operator::LtEq => TimeRange {
                    first: i64::MIN,
                    last: value,
                },
                Operator::Lt => TimeRange {
                    first: i64::MIN,
                    last: value.checked_sub(1)?,
                },
                _ => return None,
            }
        }
        Expr::Between(Between {
            expr,
            negated: false,
            low,
            high,
        }) if is_column(expr, column) => TimeRange {
            first: micros(low)?,
            last: micros(high)?,
        },
        _ => return None,
    };
    Some(range)
}

/// Returns the range of `_seq`, both ends included, that a comparison with constants allows.
fn seq_range(filter: &Expr) -> Option<(u64, u64)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    if let (Some(prefix), Operator::Eq, Some(id)) = (id_prefix(left), op, text(right)) {
        // No row has an ObjectId of another store: the range is empty.
        return Some(seq_of(prefix, id).map_or((1, 0), |seq| (seq, seq)));
    }
    let (value, op) = if is_column(left, SEQ) {
        (number(right)?, *op)
    } else if is_column(right, SEQ) {
        (number(left)?, op.swap()?)
    } else {
        return None;
    };
    Some(match op {
        Operator::Eq => (value, value),
        Operator::GtEq => (value, u64::MAX),
        Operator::Gt => (value.checked_add(1)?, u64::MAX),
        Operator::LtEq => (0, value),
        Operator::Lt => (0, value.checked_sub(1)?),
        _ => return None,
    })
}

/// Returns the column and the values of `column = 'a'`, of `column IN (…)`, and of an `OR` of
/// these.
fn values(filter: &Expr) -> Option<(&str, Vec<IndexValue>)> {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => match (&**left, &**right) {
            (Expr::Column(c), other) | (other, Expr::Column(c)) => {
                Some((&c.name, vec![value(other)?]))
            }
            _ => None,
        },
        Expr::InList(list) if !list.negated => match &*list.expr {
            Expr::Column(c) => Some((
                &c.name,
                list.list.iter().map(value).collect::<Option<Vec<_>>>()?,
            )),
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => {
            let (column, mut all) = values(left)?;
            let (other, more) = values(right)?;
            all.extend(more);
            (column == other).then_some((column, all))
        }
        _ => None,
    }
}

pub(crate) fn is_column(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Column(c) if c.name == name)
}

/// Returns a constant timestamp in microseconds, if it is a whole number of them.
pub(crate) fn micros(expr: &Expr) -> Option<i64> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    match value {
        ScalarValue::TimestampSecond(Some(t), Some(_)) => t.checked_mul(1_000_000),
        ScalarValue::TimestampMillisecond(Some(t), Some(_)) => t.checked_mul(1_000),
        ScalarValue::TimestampMicrosecond(Some(t), Some(_)) => Some(*t),
        ScalarValue::TimestampNanosecond(Some(t), Some(_)) if t % 1_000 == 0 => Some(t / 1_000),
        _ => None,
    }
}

fn number(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Literal(ScalarValue::UInt64(value), _) => *value,
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => u64::try_from(*value).ok(),
        _ => None,
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Returns a constant as a value that an index may have.
fn value(expr: &Expr) -> Option<IndexValue> {
    let Expr::Literal(literal, _) = expr else {
        return None;
    };
    Some(match literal {
        ScalarValue::Int16(Some(n)) => IndexValue::Integer((*n).into()),
        ScalarValue::Int64(Some(n)) => IndexValue::Integer(*n),
        other => IndexValue::Text(other.try_as_str().flatten()?.to_owned()),
    })
}

/// Returns the store's prefix, if the expression is the `_id` computed from `_seq`.
fn id_prefix(expr: &Expr) -> Option<[u8; 6]> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    if !matches!(call.args.as_slice(), [arg] if is_column(arg, SEQ)) {
        return None;
    }
    (call.func.inner().as_ref() as &dyn Any)
        .downcast_ref::<ObjectIdOf>()
        .map(|f| f.prefix)
}

/// Checks whether a filter can prune parts.
pub(crate) fn prunes(filter: &Expr) -> bool {
    seq_range(filter).is_some() || values(filter).is_some_and(|(column, _)| column != ID)
}
