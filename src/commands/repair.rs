//! `logmill repair --accept-loss`: drops damaged data and reports what was lost.

use std::process::ExitCode;

use super::Context;
use crate::cli::RepairArgs;
use crate::failure::{Failure, Result, code_of};
use crate::units::grouped;
use crate::wiring;

pub(super) fn run(context: &Context, args: RepairArgs) -> Result<ExitCode> {
    let why = "repair works on a directory that no server has open";
    let data = context.directory(args.data_dir, why)?;
    if !args.accept_loss {
        return Err(Failure::usage(
            "repair discards damaged data for good; run `logmill check` first, then repeat with --accept-loss",
        ));
    }
    let options = wiring::store_options(&context.config)?;
    let report = storage::repair(&data, &options).map_err(|error| {
        // The error's own advice would be to call repair.
        Failure::new(code_of(error.kind()), error.without_advice())
    })?;
    let Some(evidence) = &report.evidence else {
        println!("nothing is damaged; nothing was changed");
        return Ok(ExitCode::SUCCESS);
    };
    for finding in &report.findings {
        println!("{finding}");
    }
    println!(
        "{} events of damaged parts are lost; copies of the damaged files and this report are in {}",
        grouped(report.events_lost),
        evidence.display()
    );
    Ok(ExitCode::SUCCESS)
}
