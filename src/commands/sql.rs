//! `logmill sql` and `logmill slice`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use futures::StreamExt;
use query::output::{Output as Form, Writer};
use query::{Figures, SliceArgs as Slice, slice_sql};

use super::{Context, Place};
use crate::cli::{Output, SliceArgs};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::wiring::{self, StoreInfo};

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

/// Answers a query on standard output, or with `explain` says what was looked at.
pub(super) fn run(context: &Context, sql: &str, explain: bool) -> Result<ExitCode> {
    let form = context.output.map_or(Form::Table, Form::from);
    match &context.place {
        Place::Server(client) if explain => {
            let mut text = String::new();
            client
                .sql(sql, "application/json")?
                .read_to_string(&mut text)?;
            let answer: serde_json::Value =
                serde_json::from_str(&text).map_err(anyhow::Error::from)?;
            let figures: Figures =
                serde_json::from_value(answer["stats"].clone()).map_err(anyhow::Error::from)?;
            show(&figures, context.output)?;
        }
        Place::Server(client) => relay(client, sql, form)?,
        Place::Data(_) => {
            let reader = context.reader()?;
            let engine = wiring::engine_of_one(&context.config)?;
            let system = Arc::new(StoreInfo::of_reader(&reader));
            let out = std::io::stdout().lock();
            let figures = wiring::runtime()?.block_on(async {
                let mut answer = engine.sql(reader.snapshot(), system, sql, None).await?;
                if explain {
                    while let Some(batch) = answer.stream.next().await {
                        batch?;
                    }
                } else {
                    let mut writer =
                        Writer::new(form, &answer.schema, std::io::BufWriter::new(out))?;
                    while let Some(batch) = answer.stream.next().await {
                        writer.batch(&batch?)?;
                    }
                    writer.finish()?.flush()?;
                }
                Ok::<_, Failure>(answer.figures())
            })?;
            if explain {
                show(&figures, context.output)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies a server's answer; only a table is laid out here.
fn relay(client: &Client, sql: &str, form: Form) -> Result<()> {
    let accept = match form {
        Form::Table | Form::Json | Form::Arrow => "application/vnd.apache.arrow.stream",
        Form::Ndjson => "application/x-ndjson",
        Form::Csv => "text/csv",
    };
    let mut answer = client.sql(sql, accept)?;
    let mut out = std::io::stdout().lock();
    if matches!(form, Form::Table | Form::Json) {
        let batches = arrow::ipc::reader::StreamReader::try_new(BufReader::new(answer), None);
        let batches = batches.map_err(anyhow::Error::from)?;
        let mut writer = Writer::new(form, &batches.schema(), &mut out)?;
        for batch in batches {
            writer.batch(&batch.map_err(anyhow::Error::from)?)?;
        }
        writer.finish()?.flush()?;
    } else {
        std::io::copy(&mut answer, &mut out)?;
    }
    Ok(())
}

fn show(figures: &Figures, output: Option<Output>) -> Result<()> {
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
    Ok(())
}

/// What did this host do on that date?
pub(super) fn slice(context: &Context, args: SliceArgs) -> Result<ExitCode> {
    let stream = context.only_stream(args.stream.as_deref())?;
    let sql = slice_sql(&Slice {
        stream,
        host: Some(args.host),
        date: args.date,
        path: args.path,
        status: args.status,
        tz: args.tz,
    })?;
    run(context, &sql, false)
}

/// The lines of a stream of server-sent events that carry data.
pub(super) fn event_lines(from: impl Read) -> impl Iterator<Item = std::io::Result<String>> {
    BufReader::new(from).lines().filter_map(|line| match line {
        Ok(line) => line.strip_prefix("data: ").map(|data| Ok(data.to_owned())),
        Err(e) => Some(Err(e)),
    })
}
