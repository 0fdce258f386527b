//! Parts of a date in UTC.

use chrono::{DateTime, Datelike, Timelike};

/// Returns a part of the date at `seconds` since 1970; NaN beyond the calendar.
pub(super) fn part(name: &str, seconds: f64) -> f64 {
    if !seconds.is_finite() {
        return f64::NAN;
    }
    let Some(date) = DateTime::from_timestamp(seconds.floor() as i64, 0) else {
        return f64::NAN;
    };
    match name {
        "day_of_week" => f64::from(date.weekday().num_days_from_sunday()),
        "day_of_month" => f64::from(date.day()),
        "days_in_month" => f64::from(date.num_days_in_month()),
        "day_of_year" => f64::from(date.ordinal()),
        "hour" => f64::from(date.hour()),
        "minute" => f64::from(date.minute()),
        "month" => f64::from(date.month()),
        _ => f64::from(date.year()),
    }
}
