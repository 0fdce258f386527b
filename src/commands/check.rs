//! `logmill check`: reads everything, verifies every checksum and invariant, and the rollups.

use std::process::ExitCode;

use super::Context;
use crate::cli::CheckArgs;
use crate::failure::{FAILED, Failure, Result, code_of};
use crate::units::{grouped, human_bytes};
use crate::verification::verify_snapshot;
use crate::wiring;

/// Exits with 1 if damage or differences were found. A store whose manifest or journal is damaged
/// cannot be opened: the exit code is 65.
pub(super) fn run(context: &Context, args: CheckArgs) -> Result<ExitCode> {
    let why = "check reads a directory; give it as DATA_DIR, the server may keep running";
    let data = context.directory(args.data_dir, why)?;
    let depot = wiring::depot(&context.config, None)?;
    let reader = storage::ReadOnlyStore::open_beside(wiring::disk(), &data, depot);
    let reader = reader.map_err(refused)?;
    let snapshot = reader.snapshot();
    let report = storage::check(&snapshot);
    println!(
        "manifest  version {}, {}; journal replayed up to sequence {}",
        snapshot.manifest().version,
        if report.manifest_is_whole {
            "sound"
        } else {
            "one of its two copies is damaged"
        },
        snapshot.next_seq()
    );
    println!(
        "files     {} read, {}, {} events in parts",
        grouped(report.files),
        human_bytes(report.bytes),
        grouped(report.events)
    );
    for (path, what) in &report.damage {
        println!("damaged   {}: {what}", path.display());
    }
    for folder in &report.away {
        println!("away      {}: a detached partition", folder.display());
    }
    if !report.damage.is_empty() {
        println!(
            "{} files are damaged; keep them, and see `logmill repair --accept-loss`",
            report.damage.len()
        );
        return Ok(ExitCode::from(FAILED));
    }
    let verified = verify_snapshot(&snapshot, None, aggregator::Sample::ALL)?;
    let differences: u64 = verified
        .iter()
        .map(aggregator::Verification::differences)
        .sum();
    println!(
        "rollups   {} recomputed from raw, {} differences",
        verified.len(),
        grouped(differences)
    );
    Ok(if differences == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

/// Returns the failure to open a store without its advice, which is to run this command.
fn refused(error: storage::Error) -> Failure {
    let code = code_of(error.kind());
    match error {
        storage::Error::Corrupt { .. } => Failure::new(
            code,
            format!(
                "{}; keep the file, and see `logmill repair --accept-loss`",
                error.without_advice()
            ),
        ),
        other => other.into(),
    }
}
