//! `logmill quarantine list | explain | replay | drop`.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Context, Opened, Place, sql};
use crate::cli::{Output, QuarantineCommand};
use crate::failure::{Result, tell};
use crate::quarantine::{self, DropReport, QuarantineRequest, QuarantineWork, ReplayReport};
use crate::units::grouped;

const PATH: &str = "/api/v1/quarantine";
/// Interval between progress reports of a long run.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn run(context: &Context, command: &QuarantineCommand) -> Result<ExitCode> {
    let asked = asked(command);
    match command {
        QuarantineCommand::List { .. } => {
            return sql::one(context, &asked.list_sql()?, None, false);
        }
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
    let (explanation, text) = match &context.place {
        Place::Server(client) => {
            let mut explanation = client.get_json(&format!("{PATH}/explain"), &asked.pairs())?;
            let text = explanation.as_object_mut().and_then(|o| o.remove("text"));
            let text = text.and_then(|t| t.as_str().map(str::to_owned));
            (explanation, text.unwrap_or_default())
        }
        Place::Data(_) => {
            let snapshot = context.reader()?.snapshot();
            let config = &context.config;
            let explanation = quarantine::explain(config, &snapshot, asked.seq, &choice, &reading)?;
            let text = explanation.to_string();
            (
                serde_json::to_value(explanation).map_err(anyhow::Error::from)?,
                text,
            )
        }
    };
    if wants_json(context) {
        return print_json(&explanation);
    }
    print!("{text}");
    Ok(())
}

fn replay(context: &Context, asked: &QuarantineRequest<'_>) -> Result<()> {
    let (choice, reading) = (asked.choice()?, asked.reading()?);
    let report: ReplayReport = work(context, asked, "replay", |work, snapshot| {
        work.replay(snapshot, &choice, &reading)
    })?;
    if wants_json(context) {
        return print_json(&report);
    }
    println!(
        "examined {} items: {} {}, {} still do not parse{}",
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
    let report: DropReport = work(context, asked, "drop", |work, snapshot| {
        work.drop(snapshot, &choice)
    })?;
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

/// Runs `what` on the items of a store, or has the server that holds the store do it by the request
/// of that name. A dry run opens a directory for reading only: another process may have it open
/// for writing.
fn work<T: DeserializeOwned>(
    context: &Context,
    asked: &QuarantineRequest<'_>,
    request: &str,
    what: impl FnOnce(&QuarantineWork<'_>, &std::sync::Arc<storage::Snapshot>) -> Result<T>,
) -> Result<T> {
    let reported = Cell::new(Instant::now());
    let progress = |items| {
        if reported.get().elapsed() >= REPORT_INTERVAL {
            tell(format_args!("{} items so far", grouped(items)));
            reported.set(Instant::now());
        }
    };
    let mut work = QuarantineWork {
        config: &context.config,
        store: None,
        agree: &|_| {
            match context.config.cluster.shard {
            None => Ok(()),
            Some(_) => Err(storage::Error::Invalid {
                what: "the columns of a shard are agreed upon with the others: start its server, and replay with --server URL".to_owned(),
            }),
        }
        },
        stop: &|| false,
        progress: &progress,
    };
    if matches!(context.place, Place::Data(_)) {
        // The open for reading comes first: it fails where there is no store, and this command
        // must not create one.
        let reader = context.reader()?;
        if asked.dry_run {
            return what(&work, &reader.snapshot());
        }
    }
    let store = match context.open(&context.config)? {
        Opened::Store(store) => store,
        Opened::Server(client) => {
            return client.post_for(&format!("{PATH}/{request}"), &asked.pairs());
        }
    };
    work.store = Some(&store);
    let outcome = what(&work, &store.snapshot());
    store.close()?;
    outcome
}

fn meanwhile(settled: u64) -> String {
    match settled {
        0 => String::new(),
        some => format!(
            ", {} were resolved by another command meanwhile",
            grouped(some)
        ),
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
