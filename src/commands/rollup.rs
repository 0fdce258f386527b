//! `logmill rollup status | run | verify`.

use std::process::ExitCode;

use aggregator::Verification;
use storage::Snapshot;

use super::{Context, Place, sql};
use crate::cli::{Output, RollupCommand};
use crate::failure::{FAILED, Failure, Result};
use crate::units::grouped;
use crate::wiring;

pub(super) fn run(context: &Context, command: &RollupCommand) -> Result<ExitCode> {
    match command {
        RollupCommand::Status => sql::run(context, "SELECT * FROM system.rollups", false),
        RollupCommand::Run => seal(context),
        RollupCommand::Verify { name } => verify(context, name.as_deref()),
    }
}

fn seal(context: &Context) -> Result<ExitCode> {
    let (cutoff, events) = match &context.place {
        Place::Server(client) => {
            let answer = client.post("/api/v1/rollups/run")?;
            (
                answer["last_run"].as_u64().unwrap_or(0),
                answer["events"].as_u64().unwrap_or(0),
            )
        }
        Place::Data(data) => {
            let store = wiring::open_store(data, &context.config)?;
            let report = store.seal()?;
            store.close()?;
            (report.cutoff, report.events)
        }
    };
    println!("sealed {} events; last_run is {cutoff}", grouped(events));
    Ok(ExitCode::SUCCESS)
}

/// Verifies the named rollup, or all, over one snapshot.
pub(crate) fn verify_snapshot(
    snapshot: &Snapshot,
    name: Option<&str>,
) -> Result<Vec<Verification>> {
    let rollups = &snapshot.manifest().rollups;
    let wanted: Vec<_> = rollups
        .iter()
        .filter(|r| name.is_none_or(|n| n == r.name.as_str()))
        .collect();
    if let Some(name) = name.filter(|_| wanted.is_empty()) {
        let known: Vec<&str> = rollups.iter().map(|r| r.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "there is no rollup {name:?}; there are {}",
            known.join(", ")
        )));
    }
    wanted
        .into_iter()
        .map(|r| aggregator::verify(snapshot, r).map_err(|e| Failure::new(FAILED, e)))
        .collect()
}

fn verify(context: &Context, name: Option<&str>) -> Result<ExitCode> {
    let found: Vec<Verification> = match &context.place {
        Place::Data(_) => verify_snapshot(&context.reader()?.snapshot(), name)?,
        Place::Server(client) => {
            let names = match name {
                Some(name) => vec![name.to_owned()],
                None => {
                    let rollups = client.rollups()?;
                    rollups.into_iter().collect()
                }
            };
            let mut all = Vec::new();
            for name in names {
                let answer = client.post(&format!("/api/v1/rollups/{name}/verify"))?;
                all.push(serde_json::from_value(answer).map_err(anyhow::Error::from)?);
            }
            all
        }
    };
    if matches!(context.output, Some(Output::Json | Output::Ndjson)) {
        println!(
            "{}",
            serde_json::to_string(&found).map_err(anyhow::Error::from)?
        );
    } else {
        show(&found);
    }
    let differences: u64 = found.iter().map(Verification::differences).sum();
    Ok(if differences == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

fn show(found: &[Verification]) {
    for rollup in found {
        println!(
            "{}: {} events recomputed from raw",
            rollup.rollup,
            grouped(rollup.events)
        );
        for level in &rollup.levels {
            println!(
                "  {:<7} {:>14} cells  {} differences",
                level.level,
                grouped(level.cells),
                grouped(level.differences)
            );
            for difference in level.shown.iter().take(20) {
                println!("    {difference}");
            }
        }
    }
    let differences: u64 = found.iter().map(Verification::differences).sum();
    println!("{} differences", grouped(differences));
}
