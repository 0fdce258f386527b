//! `logmill sql`.

mod progress;

use std::io::{BufReader, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use query::output::{Output as Form, Writer};
use query::{Engine, QueryInfo, QueryStats};

use self::progress::ProgressLine;
use super::{Context, Place};
use crate::cli::Output;
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::print;
use crate::wiring::{self, StoreInfo};

/// Time within which a cancelled query normally returns its error.
const STOP_TIMEOUT: Duration = Duration::from_millis(150);
/// Exit code by which shells recognize an interrupted command.
const INTERRUPTED: u8 = 130;

impl From<Output> for Form {
    fn from(output: Output) -> Self {
        match output {
            Output::Table => Self::Table,
            Output::Json => Self::Json,
            Output::Ndjson => Self::Ndjson,
            Output::Csv => Self::Csv,
            Output::Arrow => Self::Arrow,
        }
    }
}

/// Writes the answer of a query to standard output, or with `explain` its statistics.
pub(super) fn run(context: &Context, sql: &str, explain: bool) -> Result<ExitCode> {
    let form = context.output.map_or(Form::Table, Form::from);
    match &context.place {
        Place::Server(client) if explain => {
            let tag = tag();
            let progress_line = show_progress(client, &tag);
            let mut text = String::new();
            client
                .sql(sql, "application/json", &tag)?
                .read_to_string(&mut text)?;
            drop(progress_line);
            let answer: serde_json::Value =
                serde_json::from_str(&text).map_err(anyhow::Error::from)?;
            let figures: QueryStats =
                serde_json::from_value(answer["stats"].clone()).map_err(anyhow::Error::from)?;
            show(&figures, context.output)?;
        }
        Place::Server(client) => relay(client, sql, form)?,
        Place::Data(_) => {
            let reader = context.reader()?;
            let temp = tempfile::tempdir()?;
            let engine = wiring::engine_of_one(&context.config, Some(temp.path()))?;
            let system = Arc::new(StoreInfo::of_reader_with(&reader, &context.config));
            let out = std::io::stdout().lock();
            let watched = engine.clone();
            let mut progress_line = Some(ProgressLine::start(move || watched.queries().pop()));
            let interrupted = Arc::new(AtomicBool::new(false));
            let runtime = wiring::runtime()?;
            let figures = runtime.block_on(async {
                let folder = temp.path().to_owned();
                tokio::spawn(end_when_interrupted(
                    engine.clone(),
                    interrupted.clone(),
                    folder,
                ));
                let mut answer = engine.sql(reader.snapshot(), system, sql, None).await?;
                if explain {
                    while let Some(batch) = answer.stream.next().await {
                        batch?;
                    }
                } else {
                    let mut writer =
                        Writer::new(form, &answer.schema, std::io::BufWriter::new(out))?
                            .within(print::width());
                    while let Some(batch) = answer.stream.next().await {
                        let batch = batch?;
                        // A table is printed at its end; every other format is printed from the
                        // first batch on, so the progress line must go.
                        progress_line.take_if(|_| form != Form::Table);
                        writer.batch(&batch)?;
                    }
                    progress_line = None;
                    writer.finish()?.flush()?;
                }
                Ok::<_, Failure>(answer.figures())
            });
            drop(progress_line);
            if figures.is_err() && interrupted.load(Ordering::SeqCst) {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            let figures = figures?;
            if explain {
                show(&figures, context.output)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Cancels all queries on Ctrl-C, and removes their temporary files before the process ends.
async fn end_when_interrupted(engine: Engine, interrupted: Arc<AtomicBool>, temp: PathBuf) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    interrupted.store(true, Ordering::SeqCst);
    for query in engine.queries() {
        engine.cancel(query.id);
    }
    tokio::time::sleep(STOP_TIMEOUT).await;
    // The query did not return an error in time: it is still being planned, or its answer written.
    let _gone = std::fs::remove_dir_all(temp);
    std::process::exit(INTERRUPTED.into());
}

/// Returns a tag that no other query has.
fn tag() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Shows the progress of a query that a server runs.
fn show_progress(client: &Client, tag: &str) -> ProgressLine {
    let (client, tag) = (client.clone(), tag.to_owned());
    ProgressLine::start(move || {
        let queries = client.get_json("/api/v1/queries", &[]).ok()?;
        let queries: Vec<QueryInfo> = serde_json::from_value(queries).ok()?;
        let is_ours = |query: &QueryInfo| query.tag.as_deref() == Some(&tag);
        queries.into_iter().find(is_ours)
    })
}

/// Copies a server's answer. This process only formats tables and JSON.
fn relay(client: &Client, sql: &str, form: Form) -> Result<()> {
    let accept = match form {
        Form::Table | Form::Json | Form::Arrow => "application/vnd.apache.arrow.stream",
        Form::Ndjson => "application/x-ndjson",
        Form::Csv => "text/csv",
    };
    let tag = tag();
    let progress_line = show_progress(client, &tag);
    let mut answer = client.sql(sql, accept, &tag)?;
    drop(progress_line);
    let mut out = std::io::stdout().lock();
    if matches!(form, Form::Table | Form::Json) {
        let batches = arrow::ipc::reader::StreamReader::try_new(BufReader::new(answer), None);
        let batches = batches.map_err(anyhow::Error::from)?;
        let mut writer = Writer::new(form, &batches.schema(), &mut out)?.within(print::width());
        for batch in batches {
            writer.batch(&batch.map_err(anyhow::Error::from)?)?;
        }
        writer.finish()?.flush()?;
    } else {
        std::io::copy(&mut answer, &mut out)?;
    }
    Ok(())
}

fn show(figures: &QueryStats, output: Option<Output>) -> Result<()> {
    if matches!(output, Some(Output::Json | Output::Ndjson)) {
        println!(
            "{}",
            serde_json::to_string(figures).map_err(anyhow::Error::from)?
        );
        return Ok(());
    }
    println!("answered by    {}", figures.answered_by.join(", "));
    for (name, count) in [
        ("partitions", figures.partitions),
        ("parts", figures.parts),
        ("row groups", figures.row_groups),
        ("pages", figures.pages),
    ] {
        println!("{name:<14} {} of {} examined", count.examined, count.total);
    }
    println!("rows examined  {}", figures.rows_examined);
    println!("rows returned  {}", figures.rows_returned);
    println!("bytes read     {}", figures.bytes_read);
    println!("elapsed        {} ms", figures.elapsed_ms);
    let ms = |us: u64| us as f64 / 1e3;
    for took in &figures.stages {
        println!("  {:<12} {:.1} ms", took.stage.to_string(), ms(took.us));
    }
    if !figures.operators.is_empty() {
        println!("processor time by operator");
    }
    for took in &figures.operators {
        let rows = took.rows;
        println!("  {:<30} {:.1} ms, {rows} rows", took.operator, ms(took.us));
    }
    Ok(())
}
