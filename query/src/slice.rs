//! The on-call question: what did this host do on that date?

use aggregator::{Calendar, Level, WeekStart};
use chrono::{DateTime, NaiveDate, TimeZone};
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
    let date: NaiveDate = args.date.parse().map_err(|_| {
        Error::invalid(format!(
            "{:?} is not a date; write it as 2000-10-10",
            args.date
        ))
    })?;
    let (from, to) = day(date, zone)
        .ok_or_else(|| Error::invalid(format!("{date} lies beyond the calendar")))?;
    let mut terms = vec![format!(
        "time >= '{}' AND time < '{}'",
        stamp(from)?,
        stamp(to)?
    )];
    for (column, value) in [("host", &args.host), ("path", &args.path)] {
        terms.extend(value.iter().map(|v| format!("{column} = {}", quoted(v))));
    }
    if let Some(status) = &args.status {
        terms.push(status_term(status)?);
    }
    Ok(format!(
        "SELECT * FROM \"{stream}\" WHERE {} ORDER BY time, _seq",
        terms.join(" AND ")
    ))
}

/// Text as an SQL literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn stamp(at_us: i64) -> Result<String> {
    let at = DateTime::from_timestamp_micros(at_us)
        .ok_or_else(|| Error::invalid("the date lies beyond the calendar"))?;
    Ok(at.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn status_term(status: &str) -> Result<String> {
    let wrong = || {
        Error::invalid(format!(
            "{status:?} is not a status; write 404, 5xx or 500..599"
        ))
    };
    let number = |text: &str| text.parse::<i16>().map_err(|_| wrong());
    if let Some(class) = status.strip_suffix("xx") {
        let class = number(class)?;
        if !(0..=9).contains(&class) {
            return Err(wrong());
        }
        return Ok(format!(
            "status >= {} AND status <= {}",
            class * 100,
            class * 100 + 99
        ));
    }
    match status.split_once("..") {
        Some((least, most)) => Ok(format!(
            "status >= {} AND status <= {}",
            number(least)?,
            number(most)?
        )),
        None => Ok(format!("status = {}", number(status)?)),
    }
}

/// The zone of an IANA name.
pub(crate) fn zone(name: &str) -> Result<Tz> {
    name.parse().map_err(|_| {
        Error::invalid(format!(
            "{name:?} is not a time zone; write an IANA name such as Europe/Berlin"
        ))
    })
}

/// The instants at which a local date begins and ends. A date that the zone skipped is empty.
fn day(date: NaiveDate, zone: Tz) -> Option<(i64, i64)> {
    let noon = date.and_hms_opt(12, 0, 0)?;
    match zone.from_local_datetime(&noon).earliest() {
        Some(noon) => {
            let bucket =
                Calendar::new(zone, WeekStart::Sunday).bucket(Level::Day, noon.timestamp_micros());
            Some((bucket.start_us, bucket.end_us))
        }
        None => {
            let next = day(date.succ_opt()?, zone)?.0;
            Some((next, next))
        }
    }
}

#[cfg(test)]
mod tests;
