//! `logmill tail`: the last events and then new ones, one object a line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use query::Engine;
use query::output::{Output as Form, write};
use serde_json::Value;
use storage::{Name, ReadOnlyStore};
use tokio::runtime::Runtime;

use super::{Context, Place};
use crate::cli::{Output, TailArgs};
use crate::client::Client;
use crate::failure::{FAILED, Failure, Result, tell};
use crate::wiring::{self, StoreInfo};

/// Interval between reads of a directory; a server sends events by itself.
const READ_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn run(context: &Context, args: &TailArgs) -> Result<ExitCode> {
    if !matches!(context.output, None | Some(Output::Json | Output::Ndjson)) {
        return Err(Failure::usage(
            "tail writes one object per line, because its columns may change; use --output ndjson",
        ));
    }
    let stream = context.only_stream(args.stream.as_deref())?;
    let stream = Name::new(&stream)?;
    let mut out = std::io::stdout().lock();
    match &context.place {
        Place::Server(client) => follow_server(client, &stream, args, &mut out)?,
        Place::Data(_) => follow_directory(context, &stream, args, &mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An event of a stream of server-sent events.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    /// `message` if the server sends no name.
    kind: String,
    data: String,
}

fn events(from: impl Read) -> impl Iterator<Item = std::io::Result<Event>> {
    let mut kind = None;
    BufReader::new(from).lines().filter_map(move |line| {
        let line = match line {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        if let Some(named) = line.strip_prefix("event: ") {
            kind = Some(named.to_owned());
        }
        let data = line.strip_prefix("data: ")?.to_owned();
        let kind = kind.take().unwrap_or_else(|| "message".to_owned());
        Some(Ok(Event { kind, data }))
    })
}

fn follow_server(
    client: &Client,
    stream: &Name,
    args: &TailArgs,
    out: &mut impl Write,
) -> Result<()> {
    let from = client.tail(stream.as_str(), args.condition.as_deref(), args.last)?;
    for event in events(from) {
        let event = event?;
        match event.kind.as_str() {
            "missed" => tell(
                "some events are not shown: the server or this command is too slow; the store has them",
            ),
            "error" => {
                let answer: Value = serde_json::from_str(&event.data).unwrap_or_default();
                let message = answer["error"]["message"].as_str().unwrap_or(&event.data);
                return Err(Failure::new(FAILED, message));
            }
            _ => {
                writeln!(out, "{}", event.data)?;
                out.flush()?;
            }
        }
    }
    Ok(())
}

fn follow_directory(
    context: &Context,
    stream: &Name,
    args: &TailArgs,
    out: &mut impl Write,
) -> Result<()> {
    let engine = wiring::engine_of_one(&context.config, None)?;
    let runtime = wiring::runtime()?;
    let reader = context.reader()?;
    let mut from = reader.snapshot().next_seq();
    // The newline ends a comment in the condition.
    let condition = args.condition.as_ref();
    let condition = condition.map_or_else(String::new, |c| format!(" AND ({c}\n)"));
    let last = format!(
        "SELECT * FROM \"{stream}\" WHERE _seq < {from}{condition} ORDER BY _seq DESC LIMIT {}",
        args.last
    );
    let mut last = rows(&engine, &runtime, &reader, &last)?;
    last.reverse();
    drop(reader);
    loop {
        for row in last.drain(..) {
            writeln!(out, "{row}")?;
        }
        out.flush()?;
        std::thread::sleep(READ_INTERVAL);
        let reader = context.reader()?;
        let next = reader.snapshot().next_seq();
        if next > from {
            let sql =
                format!("SELECT * FROM \"{stream}\" WHERE _seq >= {from}{condition} ORDER BY _seq");
            last = rows(&engine, &runtime, &reader, &sql)?;
            from = next;
        }
    }
}

/// Returns the rows of a query, one object each.
fn rows(
    engine: &Engine,
    runtime: &Runtime,
    reader: &ReadOnlyStore,
    sql: &str,
) -> Result<Vec<String>> {
    let system = Arc::new(StoreInfo::of_reader(reader));
    let (schema, batches, _) = runtime.block_on(async {
        let answer = engine.sql(reader.snapshot(), system, sql, None).await?;
        answer.collect().await
    })?;
    let mut lines = Vec::new();
    write(Form::Ndjson, &schema, &batches, &mut lines)?;
    let lines = String::from_utf8_lossy(&lines).into_owned();
    Ok(lines.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_name_that_stands_before_it() {
        let text = ": following\n\ndata: {\"a\":1}\n\nevent: error\ndata: {}\n\ndata: 2\n\n";
        let found: Vec<Event> = events(text.as_bytes()).map(|e| e.expect("read")).collect();
        let found: Vec<_> = found.iter().map(|e| (&*e.kind, &*e.data)).collect();
        let expected = [("message", "{\"a\":1}"), ("error", "{}"), ("message", "2")];
        assert_eq!(found, expected);
    }
}
