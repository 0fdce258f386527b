//! Pure choices: what a filter says about a part before the part is opened.

use std::any::Any;

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use storage::{ID, IndexValue, PartMeta, SEQ, TIME};

use super::derive::{ObjectIdOf, seq_of};

/// Event times, microseconds since 1970, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl TimeRange {
    /// Every time.
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

    /// The comparisons with a column of times that say the same; none for an end without bound.
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

    /// Whether every time of a part or chunk lies inside.
    pub(crate) fn covers(self, time: (i64, i64)) -> bool {
        self.first <= time.0 && time.1 <= self.last
    }

    /// Whether some time of a part or chunk may lie inside.
    pub(crate) fn meets(self, time: (i64, i64)) -> bool {
        self.first <= time.1 && time.0 <= self.last
    }
}

/// So many values are few: each has its own place in what is in their order.
const FEW_VALUES: usize = 16;

/// What the filters of a scan say in terms of the manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bounds {
    /// The times asked for: exactly these, the scan applies them itself.
    pub(crate) time: TimeRange,
    /// The sequence numbers asked for, both ends included: at most these.
    pub(crate) seq: (u64, u64),
    /// Columns with the values asked for: at most these.
    pub(crate) values: Vec<(String, Vec<IndexValue>)>,
}

impl Bounds {
    /// The bounds of filters that all hold.
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

    /// The values that are asked for of a column, when these are few.
    pub(crate) fn few_of(&self, column: &str) -> Option<(&str, &[IndexValue])> {
        let few = |(name, values): &&(String, Vec<IndexValue>)| {
            name == column && values.len() <= FEW_VALUES
        };
        let (column, values) = self.values.iter().find(few)?;
        Some((column, values))
    }

    /// Whether a part may hold a row that is asked for.
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

/// The range of timestamps that a comparison of `column` with constants allows, when it is one.
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

/// The range of `_seq`, both ends included, that a comparison with constants allows.
fn seq_range(filter: &Expr) -> Option<(u64, u64)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    if let (Some(prefix), Operator::Eq, Some(id)) = (id_prefix(left), op, text(right)) {
        // Another ObjectId than one of this store's: no row has it. An empty range says so.
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

/// The column and the values of `column = 'a'`, of `column IN (…)` and of the alternatives of these.
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

/// A constant timestamp in microseconds, when it is a whole number of them.
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

/// A constant that an index may know.
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

/// The store's prefix, when the expression is the `_id` made of `_seq`.
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

/// Whether a filter helps to leave out parts.
pub(crate) fn prunes(filter: &Expr) -> bool {
    seq_range(filter).is_some() || values(filter).is_some_and(|(column, _)| column != ID)
}
