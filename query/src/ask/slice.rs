//! Answers the on-call question: what did this host do on that date?

use std::net::IpAddr;

use aggregator::{Calendar, Level, WeekStart};
use chrono::{DateTime, Datelike, NaiveDate, TimeZone};
use chrono_tz::Tz;
use storage::Name;

use crate::error::{Error, Result};
use crate::functions::zones::zone;

/// Arguments of `logmill slice`.
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
    /// IANA name of the zone; UTC by default.
    pub tz: Option<String>,
}

/// Returns the query of a slice, ordered by time and, within one time, by arrival.
///
/// # Errors
/// [`Error::Invalid`] naming the argument that cannot be read.
pub fn slice_sql(args: &SliceArgs) -> Result<String> {
    Ok(Slice::new(args)?.rows(None, None))
}

/// A slice with valid arguments: the statements that answer it, and statements about related
/// events.
#[derive(Debug, Clone)]
pub struct Slice {
    stream: Name,
    host: Option<String>,
    zone: Tz,
    from: String,
    to: String,
    /// The conditions on path and status.
    more: Vec<String>,
}

impl Slice {
    /// Parses the arguments.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the argument that cannot be read.
    pub fn new(args: &SliceArgs) -> Result<Self> {
        let stream = Name::new(&args.stream).map_err(|e| Error::invalid(e.to_string()))?;
        let zone = zone(args.tz.as_deref().unwrap_or("UTC"))?;
        let date = date(&args.date)?;
        let (from, to) = day(date, zone)
            .ok_or_else(|| Error::invalid(format!("{date} is outside the calendar's range")))?;
        if let Some(host) = &args.host {
            one_host(host)?;
        }
        let path = args.path.as_ref();
        let mut more: Vec<String> = path
            .map(|p| format!("path = {}", quoted(p)))
            .into_iter()
            .collect();
        if let Some(status) = &args.status {
            more.push(status_term(status)?);
        }
        Ok(Self {
            stream,
            host: args.host.clone(),
            zone,
            from: stamp(from)?,
            to: stamp(to)?,
            more,
        })
    }

    /// Returns the zone of the date.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// Returns whether the slice is less than all events of the host on the date.
    pub fn is_narrowed(&self) -> bool {
        !self.more.is_empty()
    }

    fn of_host(&self, time: &[String]) -> String {
        let host = self.host.iter().map(|h| format!("host = {}", quoted(h)));
        time.iter()
            .cloned()
            .chain(host)
            .collect::<Vec<_>>()
            .join(" AND ")
    }

    fn on_date(&self) -> String {
        self.of_host(&[format!("time >= '{}' AND time < '{}'", self.from, self.to)])
    }

    fn condition(&self) -> String {
        let all = std::iter::once(self.on_date()).chain(self.more.iter().cloned());
        all.collect::<Vec<_>>().join(" AND ")
    }

    /// Returns the statement for the events by time and, within one time, by arrival: for all of
    /// them, or for the `newest` ones; only up to the sequence number `cut`, if any.
    pub fn rows(&self, newest: Option<u64>, cut: Option<u64>) -> String {
        let cut = cut.map(|cut| format!(" AND _seq <= {cut}"));
        let condition = self.condition() + cut.as_deref().unwrap_or_default();
        let stream = &self.stream;
        match newest {
            None => format!("SELECT * FROM \"{stream}\" WHERE {condition} ORDER BY time, _seq"),
            Some(newest) => format!(
                "SELECT * EXCEPT (_seq) FROM (SELECT *, _seq FROM \"{stream}\" WHERE {condition} \
                 ORDER BY time DESC, _seq DESC LIMIT {newest}) AS newest ORDER BY time, _seq"
            ),
        }
    }

    /// Returns the statement for the events by status: `status, events, first, last, bytes, cut`,
    /// where `cut` is the highest sequence number. Bytes are only displayed, and added up as
    /// floats, because sizes in a hostile log may exceed 64 bits.
    pub fn statuses(&self) -> String {
        format!(
            "SELECT status, count(*) AS events, min(time) AS first, max(time) AS last, \
             sum(CAST(response_size AS DOUBLE)) AS bytes, max(_seq) AS cut FROM \"{}\" WHERE {} GROUP BY status ORDER BY status",
            self.stream,
            self.condition()
        )
    }

    /// Returns the statement for the paths with the most events: `path, events, paths`, where
    /// `paths` is the number of all paths.
    pub fn top_paths(&self, limit: u64) -> String {
        format!(
            "SELECT path, count(*) AS events, count(*) OVER () AS paths FROM \"{}\" WHERE {} \
             GROUP BY path ORDER BY events DESC, path LIMIT {limit}",
            self.stream,
            self.condition()
        )
    }

    /// Returns the statement that counts the host's events on the date, of every path and status.
    pub fn on_date_at_all(&self) -> String {
        format!(
            "SELECT count(*) AS events FROM \"{}\" WHERE {}",
            self.stream,
            self.on_date()
        )
    }

    /// Returns the statements for the last days before the date, and the first days from its end
    /// on, on which the host has events: `day, events`.
    pub fn other_days(&self, limit: u64) -> [String; 2] {
        [
            (format!("time < '{}'", self.from), "DESC"),
            (format!("time >= '{}'", self.to), "ASC"),
        ]
        .map(|(time, order)| {
            format!(
                "SELECT time_bucket('1 day', time, {}) AS day, count(*) AS events FROM \"{}\" \
                 WHERE {} GROUP BY 1 ORDER BY 1 {order} LIMIT {limit}",
                quoted(self.zone.name()),
                self.stream,
                self.of_host(&[time])
            )
        })
    }
}

/// Parses a date as 2000-10-10. The error names the part that is wrong.
fn date(text: &str) -> Result<NaiveDate> {
    if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Ok(date);
    }
    let parts: Vec<u32> = text.split('-').filter_map(|p| p.parse().ok()).collect();
    let shaped = text.len() == 10 && text.split('-').count() == 3;
    let Some(&[year, month, day]) = shaped.then_some(parts.as_slice()) else {
        return Err(Error::invalid(format!(
            "{text:?} is not a date; write it as 2000-10-10"
        )));
    };
    let first = i32::try_from(year)
        .ok()
        .and_then(|y| NaiveDate::from_ymd_opt(y, month, 1));
    Err(Error::invalid(match first {
        None => format!("{text:?} is not a date: there is no month {month}"),
        Some(first) if day == 0 => format!(
            "{text:?} is not a date: {} begins with day 1",
            first.format("%B")
        ),
        Some(first) => format!(
            "{text:?} is not a date: {} has {} days",
            if month == 2 {
                first.format("%B %Y")
            } else {
                first.format("%B")
            },
            first.num_days_in_month()
        ),
    }))
}

/// Rejects a network, because a slice is of one host. The error shows the query for a network.
fn one_host(host: &str) -> Result<()> {
    let Some((address, bits)) = host.split_once('/') else {
        return Ok(());
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return Ok(());
    };
    let like = match (address, bits) {
        (IpAddr::V4(v4), "8" | "16" | "24") => {
            let kept = bits.parse::<usize>().unwrap_or(8) / 8;
            let octets = v4.octets().map(|o| o.to_string());
            format!("{}.%", octets[..kept].join("."))
        }
        (IpAddr::V4(_), _) => "203.0.113.%".to_owned(),
        (IpAddr::V6(_), _) => "2001:db8:%".to_owned(),
    };
    Err(Error::invalid(format!(
        "{host:?} is a network, but slice takes one host, exactly as logged; for a network run \
         logmill sql \"SELECT host, count(*) AS events FROM … WHERE host LIKE '{like}' GROUP BY host ORDER BY events DESC\""
    )))
}

/// Returns a text as an SQL literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn stamp(at_us: i64) -> Result<String> {
    let at = DateTime::from_timestamp_micros(at_us)
        .ok_or_else(|| Error::invalid("the date is outside the calendar's range"))?;
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

/// Returns the instants at which a local date begins and ends. A date that the zone skipped is
/// empty.
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
