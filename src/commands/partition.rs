//! `logmill partition list | drop | detach | attach | retain | compact`.

mod compact;

use std::process::ExitCode;

use chrono::{DateTime, Days, Months, NaiveDate, TimeDelta};
use storage::{Leaving, Name, PartitionReport, Why};

use super::{Context, Place, sql};
use crate::cli::{Output, PartitionCommand};
use crate::failure::{Failure, Result};
use crate::units::{grouped, human_bytes};
use crate::wiring;

pub(super) fn run(context: &Context, command: &PartitionCommand) -> Result<ExitCode> {
    match command {
        PartitionCommand::List { name } => sql::run(context, &list_sql(name.as_deref())?, false),
        PartitionCommand::Drop {
            name,
            date,
            dry_run,
        } => change(context, Change::Drop, name, date, *dry_run),
        PartitionCommand::Detach {
            name,
            date,
            dry_run,
        } => change(context, Change::Detach, name, date, *dry_run),
        PartitionCommand::Attach { name, date } => {
            change(context, Change::Attach, name, date, false)
        }
        PartitionCommand::Compact { name } => compact::run(context, name.as_deref()),
        PartitionCommand::Retain { name, dry_run } => retain(context, name.as_deref(), *dry_run),
    }
}

/// What is done to partitions by hand.
#[derive(Debug, Clone, Copy)]
enum Change {
    Drop,
    Detach,
    Attach,
}

impl Change {
    /// The verb, as it would be and as it was.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Drop => ("drop", "dropped"),
            Self::Detach => ("detach", "detached"),
            Self::Attach => ("attach", "attached"),
        }
    }
}

fn list_sql(name: Option<&str>) -> Result<String> {
    let only = match name {
        None => String::new(),
        Some(name) => format!(" WHERE stream = '{}'", Name::new(name)?),
    };
    Ok(format!(
        "SELECT * FROM system.partitions{only} ORDER BY 1, 2"
    ))
}

fn change(
    context: &Context,
    change: Change,
    name: &str,
    date: &str,
    dry: bool,
) -> Result<ExitCode> {
    let name = Name::new(name)?;
    let range_us = range(date).map_err(Failure::usage)?;
    let (verb, done) = change.words();
    let report: PartitionReport = match &context.place {
        Place::Server(client) => match change {
            Change::Drop => client.drop_partitions(name.as_str(), date, dry)?,
            Change::Detach | Change::Attach => {
                let mut query = vec![("stream", name.as_str()), ("date", date)];
                query.extend(dry.then_some(("dry_run", "true")));
                client.partitions(verb, &query)?
            }
        },
        Place::Data(data) => {
            let store = wiring::open_store(data, &context.config)?;
            let report = match change {
                Change::Drop => store.drop_partitions(&name, range_us, dry)?,
                Change::Detach => store.detach_partitions(&name, range_us, dry)?,
                Change::Attach => store.attach_partitions(&name, range_us)?,
            };
            store.close()?;
            report
        }
    };
    if is_json(context) {
        return print_json(&report);
    }
    println!(
        "{} {} events of {name} in {} partitions, {} parts, {}; {}",
        if dry {
            format!("would {verb}")
        } else {
            done.to_owned()
        },
        grouped(report.events),
        report.partitions,
        report.parts,
        human_bytes(report.bytes),
        match change {
            Change::Drop | Change::Detach => "its rollups keep counting them",
            Change::Attach => "its rollups had gone on counting them",
        }
    );
    Ok(ExitCode::SUCCESS)
}

fn retain(context: &Context, name: Option<&str>, dry: bool) -> Result<ExitCode> {
    let name = name.map(Name::new).transpose()?;
    let leaving: Vec<Leaving> = match &context.place {
        Place::Server(client) => {
            let dry = dry.to_string();
            let mut query = vec![("dry_run", dry.as_str())];
            query.extend(name.as_ref().map(|n| ("stream", n.as_str())));
            client.partitions("retain", &query)?
        }
        Place::Data(data) => {
            let store = wiring::open_store(data, &context.config)?;
            let leaving = store.retain(name.as_ref(), dry)?;
            store.close()?;
            leaving
        }
    };
    if is_json(context) {
        return print_json(&leaving);
    }
    for partition in &leaving {
        println!(
            "{} {} of {}: {} events, {} parts, {}; {}",
            if dry { "would drop" } else { "dropped" },
            shown(partition.partition_us),
            partition.stream,
            grouped(partition.events),
            partition.parts,
            human_bytes(partition.bytes),
            match partition.why {
                Why::Age => "it is older than the stream's retention",
                Why::Bytes => "the stream has more bytes than its retention",
            }
        );
    }
    if leaving.is_empty() {
        println!("nothing is beyond the retention of the streams");
    }
    Ok(ExitCode::SUCCESS)
}

/// The start of a partition: the hour is said where it is not midnight.
fn shown(partition_us: i64) -> String {
    DateTime::from_timestamp_micros(partition_us).map_or_else(
        || partition_us.to_string(),
        |at| {
            let form = match at.time() {
                chrono::NaiveTime::MIN => "%Y-%m-%d",
                _ => "%Y-%m-%dT%H",
            };
            at.format(form).to_string()
        },
    )
}

fn is_json(context: &Context) -> bool {
    matches!(context.output, Some(Output::Json | Output::Ndjson))
}

fn print_json(report: &impl serde::Serialize) -> Result<ExitCode> {
    let text = serde_json::to_string(report).map_err(anyhow::Error::from)?;
    println!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// The moments that `DATE` or `FROM..TO` names, microseconds since 1970, half-open. A date is a month
/// (`2000-10`), a day (`2000-10-10`) or an hour (`2000-10-10T13`), UTC; `TO` is not part of the range.
pub(crate) fn range(text: &str) -> Result<(i64, i64), String> {
    match text.split_once("..") {
        None => interval(text),
        Some((from, to)) => {
            let (from_us, to_us) = (interval(from)?.0, interval(to)?.0);
            if from_us < to_us {
                Ok((from_us, to_us))
            } else {
                Err(format!("{text}: nothing lies between"))
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
