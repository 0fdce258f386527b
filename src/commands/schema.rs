//! `logmill stream schema NAME`: the fields of a stream.

use std::process::ExitCode;
use std::sync::Arc;

use query::{SchemaInfo, Session, Sources};
use serde::Serialize;
use storage::Name;

use super::{Context, Place};
use crate::cli::Output;
use crate::failure::{Failure, Result};
use crate::units::grouped;
use crate::wiring::{self, StoreInfo};

pub(super) fn run(context: &Context, name: &str) -> Result<ExitCode> {
    let name = Name::new(name)?;
    let found: Option<SchemaInfo> = match &context.place {
        Place::Server(client) => Some(client.schema(name.as_str())?),
        Place::Data(_) => {
            let reader = context.reader()?;
            let engine = wiring::engine_of_one(&context.config, None)?;
            let system = Arc::new(StoreInfo::of_reader(&reader));
            let sources = Sources::one(reader.snapshot(), system);
            let session = Session::default();
            wiring::runtime()?.block_on(query::schema(&engine, &session, sources, &name))?
        }
    };
    print(context, &name, found.as_ref(), show)
}

/// Prints the result of a command about a stream, as JSON or as `show` does.
///
/// # Errors
/// If there is no such stream.
pub(super) fn print<T: Serialize>(
    context: &Context,
    stream: &Name,
    found: Option<&T>,
    show: impl FnOnce(&T),
) -> Result<ExitCode> {
    let Some(found) = found else {
        return Err(Failure::usage(format!("there is no stream {stream}")));
    };
    if matches!(context.output, Some(Output::Json | Output::Ndjson)) {
        let json = serde_json::to_string(found).map_err(anyhow::Error::from)?;
        println!("{json}");
    } else {
        show(found);
    }
    Ok(ExitCode::SUCCESS)
}

fn show(found: &SchemaInfo) {
    println!("{}: {} events", found.stream, grouped(found.events));
    let width = found.fields.iter().map(|f| f.name.chars().count());
    let width = width.max().unwrap_or(0).max(4);
    let types = found.fields.iter().map(|f| f.field_type.len());
    let types = types.max().unwrap_or(0).max(4);
    println!(
        "{:width$}  {:<types$} {:>8}  first seen           in",
        "name", "type", "present"
    );
    for field in &found.fields {
        let first = field
            .first_us
            .and_then(chrono::DateTime::from_timestamp_micros);
        let first = first.map_or_else(String::new, |t| t.format("%Y-%m-%dT%H:%M:%SZ").to_string());
        let place = if field.in_rest { "_rest" } else { "column" };
        let conflicts = field.conflicts.iter();
        let conflicts: Vec<String> = conflicts
            .map(|(t, n)| format!("{t} {}", grouped(*n)))
            .collect();
        let also = match conflicts.as_slice() {
            [] => String::new(),
            some => format!(", also {} in _rest", some.join(", ")),
        };
        println!(
            "{:width$}  {:<types$} {:>7.2}%  {first:<20} {place}{also}",
            field.name.escape_debug().to_string(),
            field.field_type,
            100.0 * field.share,
        );
    }
    if found.fields_omitted > 0 {
        println!("and {} more fields in _rest", grouped(found.fields_omitted));
    }
}
