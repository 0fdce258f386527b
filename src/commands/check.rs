//! `logmill check`: read everything, verify every checksum and invariant, and the rollups.

use std::process::ExitCode;

use super::Context;
use super::rollup::verify_snapshot;
use crate::cli::CheckArgs;
use crate::failure::{FAILED, Result};
use crate::units::{grouped, human_bytes};
use crate::wiring;

/// Ends with 1 when damage or differences were found; a store whose manifest or journal is damaged
/// is refused with 65 when it is opened.
pub(super) fn run(context: &Context, args: CheckArgs) -> Result<ExitCode> {
    let why = "check reads a directory; name it, the server may go on meanwhile";
    let data = context.directory(args.data_dir, why)?;
    let reader = storage::Reader::open(wiring::disk(), &data)?;
    let snapshot = reader.snapshot();
    println!(
        "manifest  version {}, sound; journal replayed up to sequence {}",
        snapshot.manifest().version,
        snapshot.next_seq()
    );
    let report = storage::check(&snapshot);
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
        println!("{} files are damaged; keep them", report.damage.len());
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
