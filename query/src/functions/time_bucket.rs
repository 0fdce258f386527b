//! `time_bucket(width, time [, zone])`: the start of the bucket that holds an instant.
//!
//! The width is an interval or its text (`'5 minutes'`, `'1 hour 30 minutes'`, `'3 months'`),
//! either of fixed length or of whole months. Buckets of less than a day count from local
//! midnight of 1970-01-01 and are cut where the zone's offset changes. Days and weeks count local
//! days, and weeks begin on a Monday (as in `date_trunc`). Months and years count from January of
//! year 0. A bucket of days begins where its first local day begins.

use std::str::FromStr;
use std::sync::Arc;

use aggregator::{Calendar, Level, WeekStart};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, TimestampMicrosecondArray};
use arrow::compute::kernels::cast_utils::IntervalUnit;
use arrow::datatypes::{
    DataType, IntervalMonthDayNanoType, IntervalUnit as ArrowUnit, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike, NaiveDate, TimeZone};
use chrono_tz::Tz;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::functions::arrays::over_arrays;
use crate::functions::zones::zone;

const DAY_US: i64 = 86_400_000_000;
/// 1970-01-05 was a Monday: weeks are counted from there.
const FIRST_MONDAY: i64 = 4;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeBucket {
    signature: Signature,
}

impl TimeBucket {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

fn utc() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_time = |t: &DataType| {
            matches!(
                t,
                DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null
            ) || t.is_string()
        };
        let (width, time, zone) = match types {
            [width, time] => (width, time, None),
            [width, time, zone] => (width, time, Some(zone)),
            _ => {
                return plan_err!(
                    "time_bucket takes a width, a time and maybe a zone: time_bucket('5 minutes', time, 'Europe/Berlin')"
                );
            }
        };
        let width = match width {
            t if t.is_string() => DataType::Utf8,
            DataType::Interval(_) => DataType::Interval(ArrowUnit::MonthDayNano),
            other => {
                return plan_err!(
                    "the width of time_bucket is an interval such as '5 minutes', not {other}"
                );
            }
        };
        if !is_time(time) {
            return plan_err!("time_bucket needs a timestamp, not {time}");
        }
        let mut coerced = vec![width, utc()];
        match zone {
            None => {}
            Some(zone) if zone.is_string() || zone.is_null() => coerced.push(DataType::Utf8),
            Some(other) => {
                return plan_err!(
                    "the zone of time_bucket is text such as 'Europe/Berlin', not {other}"
                );
            }
        }
        Ok(coerced)
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(utc())
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // The width and the zone are read once, not for every row, so they have to be constants.
        let constant = |i: usize| matches!(args.args.get(i), Some(ColumnarValue::Scalar(_)) | None);
        if !constant(0) || !constant(2) {
            return exec_err!("the width and the zone of time_bucket must be constants");
        }
        over_arrays(args, |columns| {
            buckets(&columns[0], &columns[1], columns.get(2))
        })
    }
}

fn buckets(widths: &ArrayRef, times: &ArrayRef, zones: Option<&ArrayRef>) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let null = || {
        Arc::new(TimestampMicrosecondArray::new_null(times.len()).with_timezone("UTC")) as ArrayRef
    };
    if times.is_empty() || widths.is_null(0) || zones.is_some_and(|z| z.is_null(0)) {
        return Ok(null());
    }
    let width = match widths.data_type() {
        DataType::Utf8 => Width::parse(widths.as_string::<i32>().value(0))?,
        _ => {
            let (months, days, nanos) = IntervalMonthDayNanoType::to_parts(
                widths.as_primitive::<IntervalMonthDayNanoType>().value(0),
            );
            Width::of(months, days, nanos)?
        }
    };
    let zone = match zones {
        Some(zones) => zone(zones.as_string::<i32>().value(0))?,
        None => Tz::UTC,
    };
    let mut bucketer = Bucketer::new(width, zone);
    let starts = times.values().iter().map(|t| bucketer.start(*t)).collect();
    let starts = PrimitiveArray::<TimestampMicrosecondType>::new(starts, times.nulls().cloned());
    Ok(Arc::new(starts.with_timezone("UTC")))
}

/// Returns a function from an instant to the start of its hour, day, week, month, quarter or year
/// in a zone. Hours are cut where the zone's offset changes. `None` for other units, for UTC, and
/// for a zone without a name, which has only one offset.
pub(super) fn starts_of(unit: &str, zone_name: &str) -> Option<impl FnMut(i64) -> i64 + use<>> {
    let width = match &*unit.to_ascii_lowercase() {
        "hour" => Width::Micros(DAY_US / 24),
        "day" => Width::Days(1),
        "week" => Width::Days(7),
        "month" => Width::Months(1),
        "quarter" => Width::Months(3),
        "year" => Width::Months(12),
        _ => return None,
    };
    let zone = zone(zone_name).ok().filter(|zone| *zone != Tz::UTC)?;
    let mut buckets = Bucketer::new(width, zone);
    Some(move |t| buckets.start(t))
}

/// The width of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Microseconds, less than a day or no whole number of days.
    Micros(i64),
    /// Local days.
    Days(i64),
    /// Months.
    Months(i64),
}

impl Width {
    /// Parses an interval such as `5 minutes`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let config = arrow::compute::kernels::cast_utils::IntervalParseConfig::new(
            IntervalUnit::from_str("second")?,
        );
        match arrow::compute::kernels::cast_utils::parse_interval_month_day_nano_config(
            text, config,
        ) {
            Ok(interval) => {
                let (months, days, nanos) = IntervalMonthDayNanoType::to_parts(interval);
                Self::of(months, days, nanos)
            }
            Err(_) => exec_err!("{text:?} is not an interval; write it as '5 minutes'"),
        }
    }

    pub(crate) fn of(months: i32, days: i32, nanos: i64) -> Result<Self> {
        let width = match (months, days, nanos) {
            (m, 0, 0) => Self::Months(i64::from(m)),
            (0, d, 0) => Self::Days(i64::from(d)),
            (0, d, n) if n % 1_000 == 0 => {
                let micros = i64::from(d) * DAY_US + n / 1_000;
                if micros % DAY_US == 0 {
                    Self::Days(micros / DAY_US)
                } else {
                    Self::Micros(micros)
                }
            }
            (0, ..) => {
                return exec_err!("the width of a bucket must be a whole number of microseconds");
            }
            _ => {
                return exec_err!(
                    "the width of a bucket must be whole months or a fixed length, not both"
                );
            }
        };
        match width {
            Self::Micros(n) | Self::Days(n) | Self::Months(n) if n <= 0 => {
                exec_err!("the width of a bucket must be greater than 0")
            }
            width => Ok(width),
        }
    }
}

/// Finds the buckets of instants. It remembers the last one, so that a sorted instant costs one
/// comparison.
struct Bucketer {
    width: Width,
    zone: Tz,
    calendar: Calendar,
    /// Last bucket: its start, and a range of instants, end excluded, that lie in it.
    last: (i64, i64, i64),
}

impl Bucketer {
    fn new(width: Width, zone: Tz) -> Self {
        Self {
            width,
            zone,
            calendar: Calendar::new(zone, WeekStart::Monday),
            last: (0, 0, 0),
        }
    }

    fn start(&mut self, t: i64) -> i64 {
        let (start, from, to) = self.last;
        if from <= t && t < to {
            return start;
        }
        self.last = match self.width {
            Width::Micros(width) if self.zone == Tz::UTC => {
                let start = t.div_euclid(width).saturating_mul(width);
                (start, start, start.saturating_add(width))
            }
            Width::Micros(width) => {
                let start = self.local_start(t, width);
                (start, start, t.saturating_add(1))
            }
            Width::Days(days) => self.days(t, days),
            Width::Months(months) => self.months(t, months),
        };
        self.last.0
    }

    fn offset_us(&self, t: i64) -> i64 {
        // The calendar is that of level buckets, even if SQL's own functions follow an older zone
        // release.
        self.calendar.offset_us(t)
    }

    /// Returns the start of a bucket of local time, which is cut where the offset changes.
    fn local_start(&self, t: i64, width: i64) -> i64 {
        let offset = self.offset_us(t);
        let start = (t + offset)
            .div_euclid(width)
            .saturating_mul(width)
            .saturating_sub(offset);
        if self.offset_us(start) == offset {
            return start;
        }
        // The offset has changed within the bucket, so the bucket begins at the change.
        let (mut before, mut after) = (start, t);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if self.offset_us(middle) == offset {
                after = middle
            } else {
                before = middle
            }
        }
        after
    }

    /// Returns the local date of the calendar's day that holds an instant. Unlike the date that
    /// clocks show, it never goes back when clocks go back.
    fn date(&self, t: i64) -> Option<NaiveDate> {
        let start = self.calendar.bucket(Level::Day, t).start_us;
        DateTime::from_timestamp_micros(start.checked_add(self.offset_us(start))?)
            .map(|local| local.date_naive())
    }

    /// Returns the start of a local date.
    fn day_start(&self, date: NaiveDate) -> Option<i64> {
        // Noon exists on every date, except on dates that a zone skipped: there the next day
        // begins.
        let noon = date.and_hms_opt(12, 0, 0)?;
        match self.zone.from_local_datetime(&noon).earliest() {
            Some(noon) => Some(
                self.calendar
                    .bucket(Level::Day, noon.timestamp_micros())
                    .start_us,
            ),
            None => self.day_start(date.succ_opt()?),
        }
    }

    fn days(&self, t: i64, days: i64) -> (i64, i64, i64) {
        let level = match days {
            1 => Some(Level::Day),
            7 => Some(Level::Week),
            _ => None,
        };
        if let Some(level) = level {
            let bucket = self.calendar.bucket(level, t);
            return (bucket.start_us, bucket.start_us, bucket.end_us);
        }
        let start = self.date(t).and_then(|date| {
            let epoch = NaiveDate::from_ymd_opt(1970, 1, 1)?;
            let origin = if days % 7 == 0 { FIRST_MONDAY } else { 0 };
            let number = date.signed_duration_since(epoch).num_days() - origin;
            let first = number.div_euclid(days) * days + origin;
            self.day_start(epoch.checked_add_signed(chrono::TimeDelta::try_days(first)?)?)
        });
        self.up_to(start, t)
    }

    fn months(&self, t: i64, months: i64) -> (i64, i64, i64) {
        let level = match months {
            1 => Some(Level::Month),
            12 => Some(Level::Year),
            _ => None,
        };
        if let Some(level) = level {
            let bucket = self.calendar.bucket(level, t);
            return (bucket.start_us, bucket.start_us, bucket.end_us);
        }
        let start = self.date(t).and_then(|date| {
            let number = i64::from(date.year()) * 12 + i64::from(date.month0());
            let first = number.div_euclid(months) * months;
            let month = u32::try_from(first.rem_euclid(12)).ok()? + 1;
            self.day_start(NaiveDate::from_ymd_opt(
                i32::try_from(first.div_euclid(12)).ok()?,
                month,
                1,
            )?)
        });
        self.up_to(start, t)
    }

    /// Returns the start of a bucket, and the range of instants from there to `t`, which are all
    /// in the bucket. An instant beyond the calendar is its own bucket.
    fn up_to(&self, start: Option<i64>, t: i64) -> (i64, i64, i64) {
        let start = start.unwrap_or(t);
        (start, start.min(t), t.saturating_add(1))
    }
}

#[cfg(test)]
mod tests;
