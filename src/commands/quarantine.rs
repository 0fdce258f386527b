//! `logmill quarantine list | explain | replay | drop`.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Context, Place, sql};
use crate::cli::{Output, QuarantineCommand};
use crate::failure::{Result, tell};
use crate::quarantine::{self, DropReport, QuarantineRequest, QuarantineWork, ReplayReport};
use crate::units::grouped;
use crate::wiring;

const PATH: &str = "/api/v1/quarantine";
/// How often a long run says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(5);

pub(super) fn run(context: &Context, command: &QuarantineCommand) -> Result<ExitCode> {
    let asked = asked(command);
    match command {
        QuarantineCommand::List { .. } => return sql::run(context, &asked.list_sql()?, false),
        QuarantineCommand::Explain { .. } => explain(context, &asked)?,
        QuarantineCommand::Replay { .. } => replay(context, &asked)?,
        QuarantineCommand::Drop { .. } => drop(context, &asked)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn asked(command: &QuarantineCommand) -> QuarantineRequest<'_> {
    let (which, reading) = match command {
        QuarantineCommand::List { which } | QuarantineCommand::Drop { which, .. } => (which, None),
        QuarantineCommand::Explain { which, reading, .. }
        | QuarantineCommand::Replay { which, reading, .. } => (which, Some(reading)),
    };
    let mut asked = QuarantineRequest {
        stream: which.stream.as_deref(),
        reason: which.reason.as_deref(),
        format: reading.and_then(|r| r.format.as_deref()),
        tz: reading.and_then(|r| r.tz.as_deref()),
        site: reading.and_then(|r| r.site.as_deref()),
        ..QuarantineRequest::default()
    };
    match command {
        QuarantineCommand::List { .. } => {}
        QuarantineCommand::Explain { seq, .. } => asked.seq = *seq,
        QuarantineCommand::Replay { dry_run, .. } => asked.dry_run = *dry_run,
        QuarantineCommand::Drop {
            before, dry_run, ..
        } => {
            asked.before = before.as_deref();
            asked.dry_run = *dry_run;
        }
    }
    asked
}

fn explain(context: &Context, asked: &QuarantineRequest<'_>) -> Result<()> {
    let (choice, reading) = (asked.choice()?, asked.reading()?);
    let (said, text) = match &context.place {
        Place::Server(client) => {
            let mut said = client.get_json(&format!("{PATH}/explain"), &asked.pairs())?;
            let text = said.as_object_mut().and_then(|o| o.remove("text"));
            let text = text.and_then(|t| t.as_str().map(str::to_owned));
            (said, text.unwrap_or_default())
        }
        Place::Data(_) => {
            let snapshot = context.reader()?.snapshot();
            let config = &context.config;
            let said = quarantine::explain(config, &snapshot, asked.seq, &choice, &reading)?;
            let text = said.to_string();
            (
                serde_json::to_value(said).map_err(anyhow::Error::from)?,
                text,
            )
        }
    };
    if wants_json(context) {
        return print_json(&said);
    }
    print!("{text}");
    Ok(())
}

fn replay(context: &Context, asked: &QuarantineRequest<'_>) -> Result<()> {
    let (choice, reading) = (asked.choice()?, asked.reading()?);
    let report: ReplayReport = match &context.place {
        Place::Server(client) => client.post_for(&format!("{PATH}/replay"), &asked.pairs())?,
        Place::Data(_) => work(context, asked, |work, snapshot| {
            work.replay(snapshot, &choice, &reading)
        })?,
    };
    if wants_json(context) {
        return print_json(&report);
    }
    println!(
        "looked at {} items: {} {}, {} are bad still{}",
        grouped(report.looked_at),
        grouped(report.replayed),
        if asked.dry_run {
            "would become events"
        } else {
            "became events"
        },
        grouped(report.still_bad.values().sum()),
        meanwhile(report.settled_meanwhile)
    );
    for (reason, count) in &report.still_bad {
        println!("  {reason} {}", grouped(*count));
    }
    Ok(())
}

fn drop(context: &Context, asked: &QuarantineRequest<'_>) -> Result<()> {
    let choice = asked.choice()?;
    let report: DropReport = match &context.place {
        Place::Server(client) => client.post_for(&format!("{PATH}/drop"), &asked.pairs())?,
        Place::Data(_) => work(context, asked, |work, snapshot| {
            work.drop(snapshot, &choice)
        })?,
    };
    if wants_json(context) {
        return print_json(&report);
    }
    println!(
        "{} {} items{}",
        if asked.dry_run {
            "would drop"
        } else {
            "dropped"
        },
        grouped(report.dropped),
        meanwhile(report.settled_meanwhile)
    );
    Ok(())
}

/// Does something to the items of a directory's store; a dry run reads beside whoever writes to it.
fn work<T>(
    context: &Context,
    asked: &QuarantineRequest<'_>,
    what: impl FnOnce(&QuarantineWork<'_>, &std::sync::Arc<storage::Snapshot>) -> Result<T>,
) -> Result<T> {
    let told = Cell::new(Instant::now());
    let progress = |items| {
        if told.get().elapsed() >= TELL_EVERY {
            tell(format_args!("{} items so far", grouped(items)));
            told.set(Instant::now());
        }
    };
    let mut work = QuarantineWork {
        config: &context.config,
        store: None,
        stop: &|| false,
        progress: &progress,
    };
    if asked.dry_run {
        return what(&work, &context.reader()?.snapshot());
    }
    let data = context.directory(None, "BUG: a server was named")?;
    // Looks first: a command that changes nothing else is not to make a store.
    context.reader()?;
    let store = wiring::open_store(&data, &context.config)?;
    work.store = Some(&store);
    let outcome = what(&work, &store.snapshot());
    store.close()?;
    outcome
}

fn meanwhile(settled: u64) -> String {
    match settled {
        0 => String::new(),
        some => format!(", {} were settled meanwhile", grouped(some)),
    }
}

fn wants_json(context: &Context) -> bool {
    matches!(context.output, Some(Output::Json | Output::Ndjson))
}

fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value).map_err(anyhow::Error::from)?;
    println!("{text}");
    Ok(())
}
