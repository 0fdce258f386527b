//! `logmill partition list | drop | detach | attach | retain | compact`.

mod compact;

use std::process::ExitCode;

use chrono::DateTime;
use storage::{Name, Why};

use super::admin::Change;
use super::{Context, sql};
use crate::cli::{Output, PartitionCommand};
use crate::dates::DateRange;
use crate::failure::{Failure, Result};
use crate::units::{grouped, human_bytes};

pub(super) fn run(context: &Context, command: &PartitionCommand) -> Result<ExitCode> {
    match command {
        PartitionCommand::List { name } => {
            sql::one(context, &list_sql(name.as_deref())?, None, false)
        }
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
    let range = DateRange::parse(date).map_err(Failure::usage)?;
    let (verb, done) = change.words();
    let admin = context.admin()?;
    let report = admin.change_partitions(change, &name, &range, dry)?;
    admin.close()?;
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
            Change::Attach => "its rollups had kept counting them",
        }
    );
    Ok(ExitCode::SUCCESS)
}

fn retain(context: &Context, name: Option<&str>, dry: bool) -> Result<ExitCode> {
    let name = name.map(Name::new).transpose()?;
    let admin = context.admin()?;
    let leaving = admin.retain(name.as_ref(), dry)?;
    admin.close()?;
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
                Why::Bytes => "the stream has more bytes than its retention allows",
            }
        );
    }
    if leaving.is_empty() {
        println!("no partition is beyond the retention of its stream");
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the start of a partition, with its hour unless that is midnight.
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

pub(super) fn is_json(context: &Context) -> bool {
    matches!(context.output, Some(Output::Json | Output::Ndjson))
}

pub(super) fn print_json(report: &impl serde::Serialize) -> Result<ExitCode> {
    let text = serde_json::to_string(report).map_err(anyhow::Error::from)?;
    println!("{text}");
    Ok(ExitCode::SUCCESS)
}
