//! `logmill erase`: takes the events that pass a condition out of parts, rollups and indexes.

use std::io::Read;
use std::process::ExitCode;

use anyhow::Context as _;
use storage::Name;

use super::Context;
use super::partition::{is_json, print_json};
use crate::cli::EraseArgs;
use crate::erase::{EraseRequest, Erased};
use crate::failure::{Result, note};
use crate::units::grouped;

pub(super) fn run(context: &Context, args: EraseArgs) -> Result<ExitCode> {
    let stream = context.only_stream(args.stream.as_deref())?;
    let stream = Name::new(&stream)?;
    let request = EraseRequest {
        condition: condition(args.condition)?,
        dry_run: args.dry_run,
        columns: None,
    };
    let admin = context.admin()?;
    let erased = admin.erase(&stream, &request)?;
    admin.close()?;
    if is_json(context) {
        return print_json(&erased);
    }
    let Erased { report, not_asked } = erased;
    let verb = if args.dry_run {
        "would erase"
    } else {
        "erased"
    };
    println!(
        "{verb} {} events of {stream} from {} parts",
        grouped(report.events),
        report.parts
    );
    if report.still_counted > 0 {
        note(format_args!(
            "its rollups keep counting {} of them: other raw events of their days no longer exist",
            grouped(report.still_counted)
        ));
    }
    if report.detached > 0 {
        note(format_args!(
            "{} detached partitions were not read; attach them and erase again",
            report.detached
        ));
    }
    if !not_asked.is_empty() {
        note(format_args!(
            "these servers have the stream, too, and are no shards: erase at each of them: {}",
            not_asked.join(", ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the condition, which `-` reads from standard input: arguments of a process are visible
/// to every user of a machine.
fn condition(argument: String) -> Result<String> {
    if argument != "-" {
        return Ok(argument);
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.context("standard input")?;
    Ok(text.trim().to_owned())
}
