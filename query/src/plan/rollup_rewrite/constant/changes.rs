//! The closed list: functions of `time`, and all instants at which each of them may change.
//!
//! * `time <=> constant`, `IN`, `BETWEEN`: at the constant, or at the microsecond after it: the
//!   order of instants;
//! * `date_trunc('minute', t)`: each minute of the stamp: DataFusion truncates it as a number;
//! * `date_trunc` to hours and more: where a local hour, day, week (Monday), month, quarter or
//!   year begins: it clears the fields of the local time and searches for an instant with the
//!   remaining ones;
//! * `date_part` of minutes and more: where this field of the local time changes; `week` and
//!   `isoyear` on Mondays, `dow`, `doy` and `isodow` each day;
//! * `date_bin`: each width from the origin, of the stamp as a number; months from a first of a
//!   month;
//! * `time_bucket`: each width of the local time since 1970-01-01, of its local days, or of its
//!   months;
//! * `CAST(t AS DATE)`, `to_date(t)`: where a local day begins;
//! * the window of an event in LogQL: right after the ends of windows; many windows that end just
//!   before a minute: each width of them;
//! * `to_char(t, format)`: where the finest field of the format changes;
//!
//! and all of these where the offset of their zone from UTC changes: each is a function of the
//! local time, truncated to the unit, and of the offset. `t` is `time`, shown in some zone
//! (`AT TIME ZONE`), without a zone (`to_local_time`, `CAST(… AS TIMESTAMP)`), or moved by an
//! interval.
//!
//! Not listed, among others: seconds and finer units and `epoch`, which change within every
//! bucket; stamps truncated to seconds or milliseconds, which Arrow rounds up before 1970; a
//! local time read in another zone, which may be ambiguous; `date_bin` from an origin within a
//! month.

use std::str::FromStr;

use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{DataType, IntervalMonthDayNanoType};
use chrono::format::{Fixed, Item, Numeric, StrftimeItems};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, Operator};
use storage::TIME;

use super::KNOWN_YEARS;
use super::clock::{Clock, DAY_US, FAR_US, HOUR_US, MINUTE_US, interval, whole};
use super::zones::Zone;
use crate::functions::Width;
use crate::functions::log_windows::window_changes;
use crate::tables::stream::prune::{is_column, micros};

/// 1970-01-05 was a Monday.
const FIRST_MONDAY: i64 = 4;

/// All instants at which an expression may change.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Changes {
    /// Instants, microseconds since 1970.
    At(Vec<i64>),
    /// Instants whose local time is a whole number of widths from an origin, and changes of
    /// offset.
    Every {
        zone: Zone,
        width_us: i64,
        origin_us: i64,
    },
    /// Instants at which some local days begin, and changes of offset.
    Days { zone: Zone, days: Days },
}

/// Runs of days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Days {
    /// Runs of `days` days. One run begins `first` days after 1970-01-01.
    Every { days: i64, first: i64 },
    /// Runs of this many months, counted from January of year 0.
    Months(i64),
}

/// Units of local time at whose starts functions change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    fn of_local(self, zone: Zone) -> Changes {
        let every = |width_us, zone| Changes::Every {
            zone,
            width_us,
            origin_us: 0,
        };
        let days = |days, first, zone| Changes::Days {
            zone,
            days: Days::Every { days, first },
        };
        let months = |months, zone| Changes::Days {
            zone,
            days: Days::Months(months),
        };
        match self {
            Self::Minute => every(MINUTE_US, zone),
            Self::Hour => every(HOUR_US, zone),
            Self::Day => days(1, 0, zone),
            Self::Week => days(7, FIRST_MONDAY, zone),
            Self::Month => months(1, zone),
            Self::Quarter => months(3, zone),
            Self::Year => months(12, zone),
        }
    }
}

/// Returns all instants at which an expression may change, if the expression is on the list.
pub(super) fn of(expr: &Expr) -> Option<Changes> {
    match expr {
        Expr::BinaryExpr(_) | Expr::Between(_) | Expr::InList(_) => of_comparison(expr),
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 => {
            Some(Unit::Day.of_local(Clock::of(expr)?.local))
        }
        Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
            ("date_trunc", [unit, time]) => date_trunc(text(unit)?, Clock::of(time)?),
            ("date_part", [part, time]) => {
                Some(unit_of_part(text(part)?)?.of_local(Clock::of(time)?.local))
            }
            ("date_bin", _) => date_bin(call),
            ("time_bucket", _) => time_bucket(call),
            ("to_date", [time]) => Some(Unit::Day.of_local(Clock::of(time)?.local)),
            ("to_char", [time, format]) => {
                Some(unit_of_format(text(format)?)?.of_local(Clock::of(time)?.local))
            }
            (_, [time]) if is_column(time, TIME) => window_changes(call).map(of_windows),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the changes of the window of an event, from the instants after the ends of the windows.
///
/// A few windows are cut out of the coarsest levels. But each of them may take five pieces, so many
/// windows are left to the levels whose buckets begin where the windows do.
fn of_windows(instants: Vec<i64>) -> Changes {
    const MANY: usize = 7;
    if let [first, second, ..] = instants[..]
        && instants.len() >= MANY
        && KNOWN_YEARS.contains(first)
        && let Some(width_us) = second.checked_sub(first)
        && (1..=FAR_US).contains(&width_us)
        && first % MINUTE_US == 0
        && width_us % MINUTE_US == 0
        && instants
            .windows(2)
            .all(|pair| pair[1] - pair[0] == width_us)
    {
        return Changes::Every {
            zone: Zone::UTC,
            width_us,
            origin_us: first,
        };
    }
    Changes::At(instants)
}

/// Returns the changes of a comparison of `time` with constants.
fn of_comparison(expr: &Expr) -> Option<Changes> {
    let instants = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (value, op) = if is_column(left, TIME) {
                (micros(right)?, *op)
            } else if is_column(right, TIME) {
                (micros(left)?, op.swap()?)
            } else {
                return None;
            };
            match op {
                Operator::Lt | Operator::GtEq => vec![value],
                Operator::LtEq | Operator::Gt => vec![value.checked_add(1)?],
                Operator::Eq
                | Operator::NotEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom => vec![value, value.checked_add(1)?],
                _ => return None,
            }
        }
        Expr::Between(Between {
            expr, low, high, ..
        }) if is_column(expr, TIME) => vec![micros(low)?, micros(high)?.checked_add(1)?],
        Expr::InList(list) if is_column(&list.expr, TIME) => {
            let mut instants = Vec::new();
            for value in &list.list {
                let value = micros(value)?;
                instants.extend([value, value.checked_add(1)?]);
            }
            instants
        }
        _ => return None,
    };
    Some(Changes::At(instants))
}

fn date_trunc(unit: &str, clock: Clock) -> Option<Changes> {
    let unit = match unit.to_lowercase().as_str() {
        "minute" => return Some(Unit::Minute.of_local(clock.stamp)),
        "hour" => Unit::Hour,
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "quarter" => Unit::Quarter,
        "year" => Unit::Year,
        _ => return None,
    };
    Some(unit.of_local(clock.local))
}

/// Returns the unit in which a part of a date changes. Parses the name of the part as DataFusion
/// does.
fn unit_of_part(part: &str) -> Option<Unit> {
    let quote = |c| c == '\'' || c == '"';
    let bare = part
        .strip_prefix(quote)
        .and_then(|part| part.strip_suffix(quote));
    let part = bare.unwrap_or(part);
    if let Ok(unit) = IntervalUnit::from_str(part) {
        return match unit {
            IntervalUnit::Year => Some(Unit::Year),
            IntervalUnit::Month => Some(Unit::Month),
            IntervalUnit::Week => Some(Unit::Week),
            IntervalUnit::Day => Some(Unit::Day),
            IntervalUnit::Hour => Some(Unit::Hour),
            IntervalUnit::Minute => Some(Unit::Minute),
            _ => None,
        };
    }
    match part.to_lowercase().as_str() {
        "isoyear" => Some(Unit::Week),
        "qtr" | "quarter" => Some(Unit::Quarter),
        "doy" | "dow" | "isodow" => Some(Unit::Day),
        _ => None,
    }
}

/// Returns the finest unit in which a text of this format changes.
fn unit_of_format(format: &str) -> Option<Unit> {
    let mut finest = Unit::Year;
    for item in StrftimeItems::new(format) {
        let unit = match item {
            Item::Literal(_) | Item::OwnedLiteral(_) | Item::Space(_) | Item::OwnedSpace(_) => {
                continue;
            }
            Item::Numeric(numeric, _) => match numeric {
                Numeric::Year | Numeric::YearDiv100 | Numeric::YearMod100 => Unit::Year,
                Numeric::Quarter => Unit::Quarter,
                Numeric::Month => Unit::Month,
                Numeric::Day
                | Numeric::IsoYear
                | Numeric::IsoYearDiv100
                | Numeric::IsoYearMod100
                | Numeric::IsoWeek
                | Numeric::WeekFromSun
                | Numeric::WeekFromMon
                | Numeric::NumDaysFromSun
                | Numeric::WeekdayFromMon
                | Numeric::Ordinal => Unit::Day,
                Numeric::Hour | Numeric::Hour12 => Unit::Hour,
                Numeric::Minute => Unit::Minute,
                _ => return None,
            },
            Item::Fixed(fixed) => match fixed {
                Fixed::ShortMonthName | Fixed::LongMonthName => Unit::Month,
                Fixed::ShortWeekdayName | Fixed::LongWeekdayName => Unit::Day,
                Fixed::LowerAmPm | Fixed::UpperAmPm => Unit::Hour,
                _ => return None,
            },
            Item::Error => return None,
        };
        finest = finest.min(unit);
    }
    Some(finest)
}

/// Returns the changes of `date_bin(width, time [, origin])`. DataFusion counts from the origin
/// in the number of the stamp, and months in UTC.
fn date_bin(call: &ScalarFunction) -> Option<Changes> {
    let (width, time, origin_us) = match call.args.as_slice() {
        [width, time] => (width, time, 0),
        [
            width,
            time,
            Expr::Literal(ScalarValue::TimestampNanosecond(Some(origin), _), _),
        ] => (width, time, whole(*origin, 1_000)?),
        _ => return None,
    };
    let zone = Clock::of(time)?.stamp;
    let (months, width_us) = match width {
        Expr::Literal(width, _) => interval(width)?,
        _ => return None,
    };
    match (months, width_us) {
        _ if !KNOWN_YEARS.contains(origin_us) => None,
        (0, 1..=FAR_US) => Some(Changes::Every {
            zone,
            width_us,
            origin_us,
        }),
        // Each bin is a whole number of months.
        (1.., 0) if origin_us == 0 => Some(Changes::Days {
            zone,
            days: Days::Months(1),
        }),
        _ => None,
    }
}

/// Returns the changes of `time_bucket(width, time [, zone])`.
fn time_bucket(call: &ScalarFunction) -> Option<Changes> {
    let (width, time, zone) = match call.args.as_slice() {
        [width, time] => (width, time, None),
        [width, time, zone] => (width, time, Some(text(zone)?)),
        _ => return None,
    };
    let clock = Clock::of(time)?;
    let zone = match zone {
        None | Some("UTC") => clock.stamp,
        Some(name) if clock.stamp == Zone::UTC => Zone::of(name.parse().ok()?),
        Some(_) => return None,
    };
    let width = match width {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(width)), _) => {
            let (months, days, nanos) = IntervalMonthDayNanoType::to_parts(*width);
            Width::of(months, days, nanos).ok()?
        }
        width => Width::parse(text(width)?).ok()?,
    };
    match width {
        // A bucket of a day or more may meet several changes of offset and be cut at only one of
        // them.
        Width::Micros(width_us) if width_us < DAY_US || zone == Zone::UTC => (width_us <= FAR_US)
            .then_some(Changes::Every {
                zone,
                width_us,
                origin_us: 0,
            }),
        Width::Micros(_) => None,
        // Limited, because beyond the calendar an instant is a bucket by itself.
        Width::Days(days) if days <= FAR_US / DAY_US => {
            let first = if days % 7 == 0 { FIRST_MONDAY } else { 0 };
            let days = Days::Every { days, first };
            Some(Changes::Days { zone, days })
        }
        Width::Months(months) if months <= FAR_US / DAY_US / 31 => Some(Changes::Days {
            zone,
            days: Days::Months(months),
        }),
        Width::Days(_) | Width::Months(_) => None,
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}
