//! Date ranges in commands and requests.

use chrono::{DateTime, Days, Months, NaiveDate, TimeDelta};

/// A range of dates, as text and in microseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct DateRange {
    pub(crate) text: String,
    pub(crate) us: (i64, i64),
}

impl DateRange {
    /// Parses a range as [`range`] does.
    ///
    /// # Errors
    /// A message that names the accepted forms.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let us = range(text)?;
        let text = text.to_owned();
        Ok(Self { text, us })
    }
}

/// Parses `DATE` or `FROM..TO` into a half-open range of microseconds since 1970. A date is a
/// month (`2000-10`), a day (`2000-10-10`) or an hour (`2000-10-10T13`), UTC; `TO` is not part of
/// the range.
///
/// # Errors
/// A message that names the accepted forms.
pub(crate) fn range(text: &str) -> Result<(i64, i64), String> {
    match text.split_once("..") {
        None => interval(text),
        Some((from, to)) => {
            let (from_us, to_us) = (interval(from)?.0, interval(to)?.0);
            if from_us < to_us {
                Ok((from_us, to_us))
            } else {
                Err(format!("{text}: the range is empty; write FROM before TO"))
            }
        }
    }
}

fn interval(text: &str) -> Result<(i64, i64), String> {
    let wrong =
        || format!("{text:?} is not a date: write 2000-10, 2000-10-10, 2000-10-10T13 or FROM..TO");
    let (day, hour) = match text.split_once('T') {
        Some((day, hour)) => (day.to_owned(), Some(hour)),
        None if text.len() == 7 => (format!("{text}-01"), None),
        None => (text.to_owned(), None),
    };
    let date = NaiveDate::parse_from_str(&day, "%Y-%m-%d").map_err(|_| wrong())?;
    let midnight = date.and_time(chrono::NaiveTime::MIN).and_utc();
    let (from, to): (DateTime<_>, Option<DateTime<_>>) = match hour {
        Some(hour) => {
            let hour = hour.parse().ok().filter(|h| *h < 24).ok_or_else(wrong)?;
            let from = midnight + TimeDelta::hours(hour);
            (from, from.checked_add_signed(TimeDelta::hours(1)))
        }
        None if text.len() == 7 => (midnight, midnight.checked_add_months(Months::new(1))),
        None => (midnight, midnight.checked_add_days(Days::new(1))),
    };
    let to = to.ok_or_else(wrong)?;
    Ok((from.timestamp_micros(), to.timestamp_micros()))
}

#[cfg(test)]
mod tests {
    use super::range;

    const DAY_US: i64 = 86_400_000_000;

    #[test]
    fn dates_are_half_open_intervals() {
        assert_eq!(range("1970-01-02"), Ok((DAY_US, 2 * DAY_US)));
        assert_eq!(range("1970-02"), Ok((31 * DAY_US, 59 * DAY_US)));
        let hour_us = DAY_US / 24;
        assert_eq!(range("1970-01-01T23"), Ok((23 * hour_us, 24 * hour_us)));
        assert_eq!(range("1969-12-31..1970-01-03"), Ok((-DAY_US, 2 * DAY_US)));
        assert_eq!(range("1969-12..1970-01"), Ok((-31 * DAY_US, 0)));
        for wrong in [
            "",
            "1970",
            "1970-13",
            "1970-02-30",
            "1970-01-01T24",
            "..",
            "1970-01-02..1970-01-02",
        ] {
            assert!(range(wrong).is_err(), "{wrong:?}");
        }
    }
}
