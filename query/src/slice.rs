//! The on-call question: what did this host do on that date?

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use storage::Name;

use crate::error::{Error, Result};

/// What `logmill slice` asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SliceArgs {
    /// The stream; an access log.
    pub stream: String,
    /// The host as logged.
    pub host: Option<String>,
    /// `2000-10-10`: the events of `[D, D+1)` in `tz`.
    pub date: String,
    /// The path as logged.
    pub path: Option<String>,
    /// `404`, `5xx` or `500..599`, both ends included.
    pub status: Option<String>,
    /// An IANA zone; UTC when it is not given.
    pub tz: Option<String>,
}

/// The query behind a slice, ordered by time.
///
/// # Errors
/// [`Error::Invalid`] naming the argument that cannot be read.
pub fn slice_sql(args: &SliceArgs) -> Result<String> {
    let stream = Name::new(&args.stream).map_err(|e| Error::invalid(e.to_string()))?;
    let zone = zone(args.tz.as_deref().unwrap_or("UTC"))?;
    let date: NaiveDate = args
        .date
        .parse()
        .map_err(|_| Error::invalid(format!("{:?} is not a date; write it as 2000-10-10", args.date)))?;
    let next = date.checked_add_days(Days::new(1)).ok_or_else(|| Error::invalid("there is no day after that date"))?;
    let (from, to) = (day_start(date, zone), day_start(next, zone));
    let mut terms = vec![format!("time >= '{}' AND time < '{}'", stamp(from), stamp(to))];
    for (column, value) in [("host", &args.host), ("path", &args.path)] {
        terms.extend(value.iter().map(|v| format!("{column} = {}", quoted(v))));
    }
    if let Some(status) = &args.status {
        terms.push(status_term(status)?);
    }
    Ok(format!("SELECT * FROM \"{stream}\" WHERE {} ORDER BY time, _seq", terms.join(" AND ")))
}

/// Text as an SQL literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn stamp(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn status_term(status: &str) -> Result<String> {
    let wrong = || Error::invalid(format!("{status:?} is not a status; write 404, 5xx or 500..599"));
    let number = |text: &str| text.parse::<i16>().map_err(|_| wrong());
    if let Some(class) = status.strip_suffix("xx") {
        let class = number(class)?;
        if !(0..=9).contains(&class) {
            return Err(wrong());
        }
        return Ok(format!("status >= {} AND status <= {}", class * 100, class * 100 + 99));
    }
    match status.split_once("..") {
        Some((least, most)) => Ok(format!("status >= {} AND status <= {}", number(least)?, number(most)?)),
        None => Ok(format!("status = {}", number(status)?)),
    }
}

/// The zone of an IANA name.
pub(crate) fn zone(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| Error::invalid(format!("{name:?} is not a time zone; write an IANA name such as Europe/Berlin")))
}

/// The earliest instant whose local date is `date`, or, where that date was skipped, the first
/// instant after it.
fn day_start(date: NaiveDate, zone: Tz) -> DateTime<Utc> {
    let mut local = date.and_time(NaiveTime::MIN);
    // A gap is at most a day long; offsets change at whole quarters of an hour since standard time.
    for _ in 0..=4 * 25 {
        if let Some(start) = zone.from_local_datetime(&local).earliest() {
            return start.with_timezone(&Utc);
        }
        local += TimeDelta::minutes(15);
    }
    date.and_time(NaiveTime::MIN).and_utc()
}

#[cfg(test)]
mod tests;
