//! `logmill rollup status | run | verify`.

use std::process::ExitCode;

use aggregator::{Against, Sample, Verification};
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
        RollupCommand::Verify { name, sample } => verify(context, name.as_deref(), *sample),
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
    sample: Sample,
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
        .map(|r| aggregator::verify(snapshot, r, sample).map_err(|e| Failure::new(FAILED, e)))
        .collect()
}

fn verify(context: &Context, name: Option<&str>, share: Option<f64>) -> Result<ExitCode> {
    let found: Vec<Verification> = match &context.place {
        Place::Data(_) => verify_snapshot(&context.reader()?.snapshot(), name, sample(share))?,
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
                let answer = client.post(&verify_path(&name, share))?;
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

fn verify_path(name: &str, share: Option<f64>) -> String {
    let asked = share.map_or(String::new(), |share| format!("?sample={share}"));
    format!("/api/v1/rollups/{name}/verify{asked}")
}

/// A different part of the windows each time.
pub(crate) fn sample(share: Option<f64>) -> Sample {
    share.map_or(Sample::ALL, |share| Sample {
        share,
        seed: rand::random(),
    })
}

fn show(found: &[Verification]) {
    for rollup in found {
        println!(
            "{}: {} events of {} days recomputed from raw",
            rollup.rollup,
            grouped(rollup.events),
            grouped(rollup.windows)
        );
        if rollup.windows_incomplete > 0 {
            println!(
                "  {} days have lost raw events: there the finest levels could not be checked",
                grouped(rollup.windows_incomplete)
            );
        }
        if rollup.windows_skipped > 0 {
            println!(
                "  {} days are not in the sample",
                grouped(rollup.windows_skipped)
            );
        }
        for level in &rollup.levels {
            println!(
                "  {:<7} {:>14} cells  {} differences from {}",
                level.level,
                grouped(level.cells),
                grouped(level.differences),
                match level.against {
                    Against::Raw => "raw",
                    Against::Finer => "the finer level",
                }
            );
            for difference in level.shown.iter().take(20) {
                println!("    {difference}");
            }
        }
    }
    let differences: u64 = found.iter().map(Verification::differences).sum();
    println!("{} differences", grouped(differences));
}
