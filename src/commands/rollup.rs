//! `logmill rollup status | run | verify | rebuild | compact | drop | redefine`.

use std::process::ExitCode;

use aggregator::Against;
use serde::Serialize;
use storage::{Name, Rebuilt, Replaces, Store};

use super::admin::Sealed;
use super::{Context, Place, sql};
use crate::cli::{Output, RollupCommand};
use crate::dates::DateRange;
use crate::failure::{FAILED, Failure, Result};
use crate::units::{grouped, human_bytes};
use crate::verification::{Verified, ask, sample, verify_snapshot};
use crate::wiring;

pub(super) fn run(context: &Context, command: &RollupCommand) -> Result<ExitCode> {
    match command {
        RollupCommand::Status => status(context),
        RollupCommand::Run => seal(context),
        RollupCommand::Verify {
            name,
            sample,
            questions,
        } => verify(context, name.as_deref(), *sample, *questions),
        RollupCommand::Rebuild { name, from, to } => rebuild(context, name, from, to),
        RollupCommand::Compact => compact(context),
        RollupCommand::Drop { name } => drop_rollup(context, name),
        RollupCommand::Redefine { name, accept_loss } => redefine(context, name, *accept_loss),
    }
}

fn drop_rollup(context: &Context, name: &str) -> Result<ExitCode> {
    let name = Name::new(name)?;
    let admin = context.admin()?;
    let events = admin.drop_rollup(&name)?;
    admin.close()?;
    if wants_json(context) {
        print_json(&serde_json::json!({ "dropped": name, "events": events }))?;
    } else {
        println!(
            "dropped {name}, which had counted {} events",
            grouped(events)
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Counts a rollup anew by its present definition. A server reads definitions at its start only,
/// so no server may hold the store meanwhile.
fn redefine(context: &Context, name: &str, accept_loss: bool) -> Result<ExitCode> {
    let Place::Data(data) = &context.place else {
        return Err(Failure::usage(
            "a server reads its rollup definitions only when it starts: stop it, run this with \
             --data DIR, and start it again",
        ));
    };
    let replaces = match accept_loss {
        true => Replaces::Anything,
        false => Replaces::Counted,
    };
    let name = Name::new(name)?;
    let generation = |store: &Store| {
        let snapshot = store.snapshot();
        let rollups = &snapshot.manifest().rollups;
        let rollup = rollups.iter().rfind(|r| r.name == name);
        rollup.map(|r| (r.id, r.missing()))
    };
    let before = {
        let reader = context.reader()?;
        let snapshot = reader.snapshot();
        let mut rollups = snapshot.manifest().rollups.iter();
        rollups.rfind(|r| r.name == name).map(|r| r.id)
    };
    let store = wiring::redefine(data, &context.config, name.clone(), replaces)?;
    let now = generation(&store);
    store.close()?;
    match (before, now) {
        (None, None) => return Err(Failure::usage(format!("there is no rollup {name}"))),
        (Some(before), Some((id, _))) if before == id => {
            println!("{name} already has the configured definition; nothing was changed");
        }
        (_, Some((_, 0))) => println!("{name} counts by its new definition"),
        (_, Some((_, missing))) => println!(
            "{name} counts by its new definition; {} events are not counted yet, or cannot be: \
             see `logmill rollup status`",
            grouped(missing)
        ),
        (Some(_), None) => println!("{name} is no longer configured; it was dropped"),
    }
    Ok(ExitCode::SUCCESS)
}

fn status(context: &Context) -> Result<ExitCode> {
    let code = sql::one(context, "SELECT * FROM system.rollups", None, false)?;
    if matches!(context.output, None | Some(Output::Table)) {
        println!(
            "The first access log that came into a store has the rollups stats and traffic, a later one\n\
             NAME_stats and NAME_traffic; [rollup.NAME] with stream = \"…\" in logmill.toml sets other names."
        );
    }
    Ok(code)
}

fn compact(context: &Context) -> Result<ExitCode> {
    let admin = context.admin()?;
    let report = admin.compact_tiles()?;
    admin.close()?;
    if wants_json(context) {
        print_json(&report)?;
    } else {
        println!(
            "merged {} sections into {}: {} cells became {}, {}",
            grouped(report.merged as u64),
            grouped(report.into as u64),
            grouped(report.cells_read),
            grouped(report.cells_written),
            human_bytes(report.bytes_written)
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Exits with 1 if some partitions could not be rebuilt and stay as they were.
fn rebuild(context: &Context, name: &str, from: &str, to: &str) -> Result<ExitCode> {
    let range = DateRange::parse(&format!("{from}..{to}")).map_err(Failure::usage)?;
    let name = Name::new(name)?;
    let admin = context.admin()?;
    let rebuilt = admin.rebuild(&name, &range)?;
    admin.close()?;
    let left: Vec<&Rebuilt> = rebuilt.iter().filter(|r| r.left.is_some()).collect();
    if wants_json(context) {
        print_json(&rebuilt)?;
    } else {
        println!(
            "rebuilt {} of {} partitions of {name} from the raw events",
            rebuilt.len() - left.len(),
            rebuilt.len()
        );
        for partition in &left {
            let from = chrono::DateTime::from_timestamp_micros(partition.partition_us);
            println!(
                "  {} from {}: left unchanged, {}",
                partition.level,
                from.map_or_else(String::new, |t| t.to_rfc3339()),
                partition.left.as_deref().unwrap_or_default()
            );
        }
    }
    Ok(if left.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

fn wants_json(context: &Context) -> bool {
    matches!(context.output, Some(Output::Json | Output::Ndjson))
}

fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value).map_err(anyhow::Error::from)?;
    println!("{text}");
    Ok(())
}

fn seal(context: &Context) -> Result<ExitCode> {
    let admin = context.admin()?;
    let Sealed { last_run, events } = admin.seal()?;
    admin.close()?;
    let at = last_run.map_or(String::new(), |at| format!("; last_run is {at}"));
    println!("sealed {} events{at}", grouped(events));
    Ok(ExitCode::SUCCESS)
}

fn verify(
    context: &Context,
    name: Option<&str>,
    share: Option<f64>,
    questions: u64,
) -> Result<ExitCode> {
    let mut found: Vec<Verified> = Vec::new();
    match &context.place {
        Place::Data(_) => {
            let snapshot = context.reader()?.snapshot();
            let states = verify_snapshot(&snapshot, name, sample(share))?;
            let each = questions.div_ceil(states.len().max(1) as u64);
            let temp = tempfile::tempdir()?;
            let engine = wiring::engine_of_one(&context.config, Some(temp.path()))?;
            let runtime = wiring::runtime()?;
            for states in states {
                let asked = ask(&engine, &snapshot, states, each, &|| false);
                found.push(runtime.block_on(asked)?);
            }
        }
        Place::Server(client) => {
            let names = match name {
                Some(name) => vec![name.to_owned()],
                None => {
                    let rollups = client.rollups()?;
                    rollups.into_iter().collect()
                }
            };
            let each = questions.div_ceil(names.len().max(1) as u64);
            for name in names {
                let answer = client.post(&verify_path(&name, share, each))?;
                found.push(serde_json::from_value(answer).map_err(anyhow::Error::from)?);
            }
        }
    }
    if wants_json(context) {
        print_json(&found)?;
    } else {
        show(&found);
    }
    let differences: u64 = found.iter().map(Verified::differences).sum();
    Ok(if differences == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

fn verify_path(name: &str, share: Option<f64>, questions: u64) -> String {
    let share = share.map_or(String::new(), |share| format!("&sample={share}"));
    format!("/api/v1/rollups/{name}/verify?questions={questions}{share}")
}

fn show(found: &[Verified]) {
    for Verified {
        states: rollup,
        questions,
    } in found
    {
        println!(
            "{}: {} events of {} days recomputed from raw",
            rollup.rollup,
            grouped(rollup.events),
            grouped(rollup.windows)
        );
        if rollup.windows_incomplete > 0 {
            println!(
                "  {} days lack raw events: their finest levels could not be checked",
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
        println!(
            "  {} random questions, {} of them answered by rollups, {} without an answer: {} answers differ from raw",
            grouped(questions.asked),
            grouped(questions.by_rollups),
            grouped(questions.unanswered),
            grouped(questions.differences)
        );
        if let Some(reason) = &questions.reason {
            println!("    without an answer: {reason}");
        }
        for difference in &questions.shown {
            println!("    {difference}");
        }
    }
    let differences: u64 = found.iter().map(Verified::differences).sum();
    println!("{} differences", grouped(differences));
}
