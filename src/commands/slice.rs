//! `logmill slice`: what did this host do on that date?
//!
//! JSON, NDJSON and CSV contain all rows. A table is for a person at a terminal: first a summary,
//! then the newest rows, with the columns that distinguish them, at the width of the terminal. If
//! there are no events, the answer lists the days on which the host was seen. All figures come
//! from one snapshot.

use std::io::{BufReader, Write};
use std::process::ExitCode;
use std::sync::Arc;

use aggregator::{Calendar, WeekStart};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{
    DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, FixedOffset, SecondsFormat};
use chrono_tz::Tz;
use query::output::{Output as Form, Writer, printable};
use query::{Engine, Slice, SliceArgs as SliceParameters};
use storage::ReadOnlyStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{Context, Place, sql};
use crate::cli::{Output, SliceArgs};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::print;
use crate::units::{grouped, human_bytes};
use crate::wiring::{self, StoreInfo};

/// Rows of a table without `--limit`.
const ROWS: u64 = 50;
const PATHS: u64 = 5;
const DAYS: u64 = 3;

/// Columns of an access log in the order in which people read them; all other columns follow.
const ORDER: [&str; 9] = [
    "time",
    "status",
    "method",
    "path",
    "query",
    "response_size",
    "request",
    "referrer",
    "user_agent",
];
/// Columns that are the same in all rows, or that few people need.
const HIDDEN: [&str; 3] = ["_id", "host", "protocol"];

pub(super) fn run(context: &Context, args: SliceArgs) -> Result<ExitCode> {
    let usage = |e: query::Error| Failure::usage(e);
    let mut parameters = SliceParameters {
        // The stream is not known yet; any valid name serves to validate the other arguments.
        stream: args.stream.clone().unwrap_or_else(|| "events".to_owned()),
        host: Some(args.host.clone()),
        date: args.date.clone(),
        path: args.path,
        status: args.status,
        tz: args.tz,
    };
    Slice::new(&parameters).map_err(usage)?;
    let source = Source::of(context)?;
    parameters.stream = stream(&source, args.stream.as_deref())?;
    let slice = Slice::new(&parameters).map_err(usage)?;
    if !matches!(context.output, None | Some(Output::Table)) {
        return sql::one(context, &slice.rows(args.limit, None), None, false);
    }
    let mut out = std::io::stdout().lock();
    let title = format!(
        "{} on {} ({}), stream {}",
        printable(&args.host),
        args.date,
        slice.zone(),
        parameters.stream
    );
    let statuses = Statuses::of(&source.ask(&slice.statuses())?)?;
    if statuses.events == 0 {
        return no_events(&source, &slice, &title, &mut out);
    }
    writeln!(out, "{title}")?;
    statuses.write(slice.zone(), &mut out)?;
    write_paths(&source.ask(&slice.top_paths(PATHS))?, &mut out)?;
    writeln!(out)?;
    let limit = args.limit.unwrap_or(ROWS);
    let rows = source.ask(&slice.rows(Some(limit), statuses.cut))?;
    write_rows(&rows, slice.zone(), &mut out)?;
    if limit < statuses.events {
        writeln!(
            out,
            "the newest {} of {} events; --limit {} shows all of them",
            grouped(limit),
            grouped(statuses.events),
            statuses.events
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the stream that the user named, which must exist, otherwise the only access log.
fn stream(source: &Source, named: Option<&str>) -> Result<String> {
    let logs =
        "SELECT DISTINCT name, kind FROM system.streams WHERE kind <> 'quarantine' ORDER BY name";
    let rows = source.ask(logs)?;
    let texts = |name: &str| -> Result<Vec<String>> {
        let column = column(&rows, name, &DataType::Utf8)?;
        let texts = column.as_string::<i32>().iter();
        Ok(texts.map(|t| t.unwrap_or_default().to_owned()).collect())
    };
    let (names, kinds) = (texts("name")?, texts("kind")?);
    let access = names
        .iter()
        .zip(&kinds)
        .filter(|(_, kind)| *kind == "access");
    let access: Vec<&str> = access.map(|(name, _)| name.as_str()).collect();
    let known = if access.is_empty() {
        "no access log yet; import something first".to_owned()
    } else {
        access.join(", ")
    };
    match (named, access.as_slice()) {
        (Some(name), _) if access.contains(&name) => Ok(name.to_owned()),
        (Some(name), _) if names.iter().any(|n| n == name) => Err(Failure::usage(format!(
            "{name} is not an access log and has no hosts; there is {known}"
        ))),
        (Some(name), _) => Err(Failure::usage(format!(
            "there is no stream {name:?} here; there is {known}"
        ))),
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => Err(Failure::usage(format!("the store holds {known}"))),
        (None, _) => Err(Failure::usage(format!(
            "the store has several access logs; name one with --stream: {known}"
        ))),
    }
}

/// The source of a slice's answers: a server, or one snapshot of a directory.
enum Source {
    Server(Client),
    Data {
        reader: Box<ReadOnlyStore>,
        engine: Box<Engine>,
        runtime: Runtime,
        /// Directory of the data that queries spill.
        _temp: TempDir,
    },
}

/// Rows of one schema.
type Rows = (SchemaRef, Vec<RecordBatch>);

impl Source {
    fn of(context: &Context) -> Result<Self> {
        Ok(match &context.place {
            Place::Server(client) => Self::Server(client.clone()),
            Place::Data(_) => {
                let temp = tempfile::tempdir()?;
                Self::Data {
                    reader: Box::new(context.reader()?),
                    engine: Box::new(wiring::engine_of_one(&context.config, Some(temp.path()))?),
                    runtime: wiring::runtime()?,
                    _temp: temp,
                }
            }
        })
    }

    fn ask(&self, sql: &str) -> Result<RecordBatch> {
        let (schema, batches): Rows = match self {
            Self::Server(client) => {
                let answer =
                    client.sql(sql, None, "application/vnd.apache.arrow.stream", "slice")?;
                let batches =
                    arrow::ipc::reader::StreamReader::try_new(BufReader::new(answer), None);
                let batches = batches.map_err(anyhow::Error::from)?;
                let schema = batches.schema();
                let batches: std::result::Result<Vec<_>, _> = batches.collect();
                (schema, batches.map_err(anyhow::Error::from)?)
            }
            Self::Data {
                reader,
                engine,
                runtime,
                ..
            } => {
                let system = Arc::new(StoreInfo::of_reader(reader));
                let (schema, batches, _) = runtime.block_on(async {
                    let answer = engine.sql(reader.snapshot(), system, sql, None).await?;
                    answer.collect().await
                })?;
                (schema, batches)
            }
        };
        Ok(concat_batches(&schema, &batches).map_err(anyhow::Error::from)?)
    }
}

/// Returns a column by its name, cast to the type `wanted`.
fn column(rows: &RecordBatch, name: &str, wanted: &DataType) -> Result<ArrayRef> {
    let found = rows.column_by_name(name);
    let found = found.ok_or_else(|| anyhow::anyhow!("BUG: the answer has no column {name}"))?;
    Ok(cast(found, wanted).map_err(anyhow::Error::from)?)
}

fn numbers(rows: &RecordBatch, name: &str) -> Result<Vec<Option<i64>>> {
    let column = column(rows, name, &DataType::Int64)?;
    Ok(column.as_primitive::<Int64Type>().iter().collect())
}

fn times(rows: &RecordBatch, name: &str) -> Result<Vec<Option<i64>>> {
    let column = column(
        rows,
        name,
        &DataType::Timestamp(TimeUnit::Microsecond, None),
    )?;
    let column = column.as_primitive::<TimestampMicrosecondType>();
    Ok(column.iter().collect())
}

/// Formats an instant in the zone, as RFC 3339.
fn on_clock(at_us: i64, zone: Tz) -> String {
    DateTime::from_timestamp_micros(at_us).map_or_else(
        || at_us.to_string(),
        |at| {
            let ahead_s = Calendar::new(zone, WeekStart::Monday).offset_s(at.timestamp());
            let offset = i32::try_from(ahead_s).ok().and_then(FixedOffset::east_opt);
            match offset.filter(|_| zone != Tz::UTC) {
                Some(offset) => at
                    .with_timezone(&offset)
                    .to_rfc3339_opts(SecondsFormat::AutoSi, false),
                None => at.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            }
        },
    )
}

/// Summary of a slice.
struct Statuses {
    events: u64,
    first_us: Option<i64>,
    last_us: Option<i64>,
    bytes: u64,
    /// The highest sequence number. Rows up to it are of the same snapshot, even while a server
    /// takes more.
    cut: Option<u64>,
    by_status: Vec<(Option<i64>, u64)>,
}

impl Statuses {
    fn of(rows: &RecordBatch) -> Result<Self> {
        let count = |n: &Option<i64>| u64::try_from(n.unwrap_or(0)).unwrap_or(0);
        let events: Vec<u64> = numbers(rows, "events")?.iter().map(count).collect();
        let by_status = numbers(rows, "status")?.into_iter().zip(events.clone());
        Ok(Self {
            events: events.iter().sum(),
            first_us: times(rows, "first")?.into_iter().flatten().min(),
            last_us: times(rows, "last")?.into_iter().flatten().max(),
            bytes: numbers(rows, "bytes")?.iter().map(count).sum(),
            cut: numbers(rows, "cut")?.iter().map(count).max(),
            by_status: by_status.collect(),
        })
    }

    fn write(&self, zone: Tz, out: &mut dyn Write) -> Result<()> {
        let clock = |at: Option<i64>| at.map(|at| on_clock(at, zone)).unwrap_or_default();
        writeln!(out, "  events    {}", grouped(self.events))?;
        writeln!(out, "  first     {}", clock(self.first_us))?;
        writeln!(out, "  last      {}", clock(self.last_us))?;
        writeln!(out, "  bytes     {}", human_bytes(self.bytes))?;
        let mix = self.by_status.iter().map(|(status, events)| {
            let status = status.map_or_else(|| "none".to_owned(), |s| s.to_string());
            format!("{status}: {}", grouped(*events))
        });
        writeln!(out, "  status    {}", mix.collect::<Vec<_>>().join(", "))?;
        Ok(())
    }
}

fn write_paths(rows: &RecordBatch, out: &mut dyn Write) -> Result<()> {
    let paths = column(rows, "path", &DataType::Utf8)?;
    let paths = paths.as_string::<i32>();
    let events = numbers(rows, "events")?;
    let all = numbers(rows, "paths")?.first().copied().flatten();
    let width = print::width().map(|w| w.saturating_sub(24).max(20));
    for (i, (path, events)) in paths.iter().zip(&events).enumerate() {
        let name = if i == 0 { "top paths" } else { "" };
        let events = grouped(u64::try_from(events.unwrap_or(0)).unwrap_or(0));
        let path = printable(path.unwrap_or("(no path)"));
        let shown: String = match width {
            Some(width) if path.chars().count() > width => {
                path.chars().take(width - 1).chain(['…']).collect()
            }
            _ => path,
        };
        writeln!(out, "  {name:<9} {events:>7}  {shown}")?;
    }
    let more = u64::try_from(all.unwrap_or(0)).unwrap_or(0);
    let more = more.saturating_sub(events.len() as u64);
    if more > 0 {
        writeln!(out, "  {:<9} {:>7}  and {} more", "", "", grouped(more))?;
    }
    Ok(())
}

/// Writes the rows as a table with times in the zone, without columns that add nothing.
fn write_rows(rows: &RecordBatch, zone: Tz, out: &mut dyn Write) -> Result<()> {
    let schema = rows.schema();
    let has_nulls = |name: &str| rows.column_by_name(name).is_none_or(|c| c.null_count() > 0);
    let has_method_and_path = !has_nulls("method") && !has_nulls("path");
    let mut kept: Vec<(bool, usize, usize)> = Vec::new();
    for (i, field) in schema.fields().iter().enumerate() {
        let name = field.name().as_str();
        let empty = rows.column(i).null_count() == rows.num_rows();
        if empty || HIDDEN.contains(&name) || (name == "request" && has_method_and_path) {
            continue;
        }
        let rank = ORDER.iter().position(|known| *known == name);
        // Columns with a value in every row come first.
        kept.push((has_nulls(name), rank.unwrap_or(ORDER.len()), i));
    }
    kept.sort_unstable();
    let mut fields = Vec::with_capacity(kept.len());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(kept.len());
    for (_, _, i) in kept {
        let field = schema.field(i);
        if matches!(field.data_type(), DataType::Timestamp(..)) {
            let shown = times(rows, field.name())?;
            let shown = shown.into_iter().map(|at| at.map(|at| on_clock(at, zone)));
            fields.push(Field::new(field.name(), DataType::Utf8, true));
            columns.push(Arc::new(shown.collect::<StringArray>()));
        } else {
            fields.push(field.clone());
            columns.push(rows.column(i).clone());
        }
    }
    let schema = Arc::new(Schema::new(fields));
    let table = RecordBatch::try_new(schema.clone(), columns).map_err(anyhow::Error::from)?;
    let mut writer = Writer::new(Form::Table, &schema, out)?.within(print::width());
    writer.batch(&table)?;
    writer.finish()?;
    Ok(())
}

/// Reports that there are no events, and the days on which the host was seen.
fn no_events(source: &Source, slice: &Slice, title: &str, out: &mut dyn Write) -> Result<ExitCode> {
    writeln!(out, "no events: {title}")?;
    if slice.is_narrowed() {
        let all = numbers(&source.ask(&slice.on_date_at_all())?, "events")?;
        let all = u64::try_from(all.first().copied().flatten().unwrap_or(0)).unwrap_or(0);
        if all > 0 {
            writeln!(
                out,
                "the host has {} events on that date, but none with this path and status",
                grouped(all)
            )?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut seen = Vec::new();
    for sql in slice.other_days(DAYS) {
        let days = source.ask(&sql)?;
        let events = numbers(&days, "events")?;
        seen.extend(times(&days, "day")?.into_iter().flatten().zip(events));
    }
    seen.sort_unstable();
    if seen.is_empty() {
        writeln!(
            out,
            "this stream has no event of the host; hosts are compared exactly as they were logged"
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "the host was seen on:")?;
    for (day, events) in seen {
        let events = grouped(u64::try_from(events.unwrap_or(0)).unwrap_or(0));
        let day = on_clock(day, slice.zone());
        let plural = if events == "1" { "event" } else { "events" };
        writeln!(out, "  {}  {events:>9} {plural}", &day[..10.min(day.len())])?;
    }
    Ok(ExitCode::SUCCESS)
}
