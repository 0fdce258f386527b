//! The argument of a function of `time`: `time` itself, in a zone, without one, or moved by an
//! interval.

use arrow::datatypes::{DataType, IntervalDayTimeType, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};
use storage::TIME;

use super::zones::Zone;

pub(super) const MINUTE_US: i64 = 60_000_000;
pub(super) const HOUR_US: i64 = 60 * MINUTE_US;
pub(super) const DAY_US: i64 = 24 * HOUR_US;
/// Maximum width or interval. Added to any of the known years, it stays within the range of the
/// functions' types.
pub(super) const FAR_US: i64 = 40 * 366 * DAY_US;

/// `time` as a function reads it.
pub(super) struct Clock {
    /// Offset of the stamp's number from UTC.
    pub(super) stamp: Zone,
    /// Offset of the stamp's fields (hour, day, …) from UTC.
    pub(super) local: Zone,
    /// True when the type of the stamp names no zone.
    is_naive: bool,
}

impl Clock {
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Column(column) if column.name == TIME => Some(Self {
                stamp: Zone::UTC,
                local: Zone::UTC,
                is_naive: false,
            }),
            Expr::Alias(alias) => Self::of(&alias.expr),
            Expr::Cast(Cast { expr, field }) => {
                let (is_exact, zone) = match field.data_type() {
                    DataType::Timestamp(unit, zone) => (
                        matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond),
                        zone,
                    ),
                    _ => return None,
                };
                let clock = Self::of(expr).filter(|_| is_exact)?;
                match zone {
                    // The cast keeps the number, and its fields are then the UTC fields of that
                    // number.
                    None => Some(Self {
                        local: clock.stamp,
                        is_naive: true,
                        ..clock
                    }),
                    Some(name) if !clock.is_naive && clock.stamp == Zone::UTC => Some(Self {
                        local: Zone::of_arrow(name)?,
                        ..clock
                    }),
                    Some(_) => None,
                }
            }
            Expr::ScalarFunction(call) if call.func.name() == "to_local_time" => {
                let [time] = call.args.as_slice() else {
                    return None;
                };
                let clock = Self::of(time)?;
                Some(Self {
                    stamp: clock.local,
                    is_naive: true,
                    ..clock
                })
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => Self::moved(left, *op, right),
            _ => None,
        }
    }

    /// Reads `time + interval`, in zones where all days have 24 hours.
    fn moved(left: &Expr, op: Operator, right: &Expr) -> Option<Self> {
        let (time, by, sign) = match (left, op, right) {
            (time, Operator::Plus, Expr::Literal(by, _)) => (time, by, 1),
            (Expr::Literal(by, _), Operator::Plus, time) => (time, by, 1),
            (time, Operator::Minus, Expr::Literal(by, _)) => (time, by, -1),
            _ => return None,
        };
        let (0, by_us) = interval(by)? else {
            return None;
        };
        let clock = Self::of(time)?;
        match (&clock.stamp, &clock.local) {
            (Zone::Ahead(stamp), Zone::Ahead(local)) if stamp == local => {
                let ahead_us = stamp + sign * by_us;
                (ahead_us.abs() <= FAR_US / 2).then_some(Self {
                    stamp: Zone::Ahead(ahead_us),
                    local: Zone::Ahead(ahead_us),
                    ..clock
                })
            }
            _ => None,
        }
    }
}

/// Returns the months of an interval, and the rest of it in microseconds, with days of 24 hours.
pub(super) fn interval(value: &ScalarValue) -> Option<(i64, i64)> {
    let (months, days, nanos) = match value {
        ScalarValue::IntervalMonthDayNano(Some(value)) => {
            IntervalMonthDayNanoType::to_parts(*value)
        }
        ScalarValue::IntervalDayTime(Some(value)) => {
            let (days, millis) = IntervalDayTimeType::to_parts(*value);
            (0, days, i64::from(millis) * 1_000_000)
        }
        _ => return None,
    };
    let micros = i64::from(days).checked_mul(DAY_US)?;
    let micros = micros.checked_add(whole(nanos, 1_000)?)?;
    (-FAR_US..=FAR_US)
        .contains(&micros)
        .then_some((i64::from(months), micros))
}

pub(super) fn whole(number: i64, by: i64) -> Option<i64> {
    (number % by == 0).then_some(number / by)
}
