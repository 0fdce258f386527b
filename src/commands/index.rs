//! `logmill index list | create | drop`.

use std::process::ExitCode;

use storage::{IndexKind, IndexReport, Name};

use super::{Context, Place, sql};
use crate::cli::{IndexCommand, Output};
use crate::failure::Result;
use crate::units::{grouped, human_bytes};
use crate::wiring;

pub(super) fn run(context: &Context, command: &IndexCommand) -> Result<ExitCode> {
    match command {
        IndexCommand::List { name } => sql::run(context, &list_sql(name.as_deref())?, false),
        IndexCommand::Create {
            name,
            fields,
            covering,
        } => create(context, &Name::new(name)?, fields, kind(*covering)),
        IndexCommand::Drop { name, fields } => drop(context, &Name::new(name)?, fields),
    }
}

fn list_sql(name: Option<&str>) -> Result<String> {
    let only = match name {
        None => String::new(),
        Some(name) => format!(" WHERE stream = '{}'", Name::new(name)?),
    };
    Ok(format!("SELECT * FROM system.indexes{only}"))
}

fn kind(covering: bool) -> IndexKind {
    match covering {
        true => IndexKind::Covering,
        false => IndexKind::Inverted,
    }
}

fn create(context: &Context, name: &Name, fields: &[String], kind: IndexKind) -> Result<ExitCode> {
    match &context.place {
        Place::Server(client) => {
            for field in fields {
                client.create_index(name.as_str(), field, kind)?;
            }
            say(
                context,
                &format!(
                    "{} of {name} will be indexed in the background; see logmill index list",
                    fields.join(", ")
                ),
            );
        }
        Place::Data(data) => {
            // They are made here and now, and counted; nobody is to do so beside.
            let mut config = context.config.clone();
            config.storage.tends = false;
            let store = wiring::open_store(data, &config)?;
            let created = fields
                .iter()
                .try_for_each(|field| store.create_index(name, field, kind).map(|_| ()));
            let built = created.and_then(|()| store.build_indexes());
            store.close()?;
            tell(context, &built?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn drop(context: &Context, name: &Name, fields: &[String]) -> Result<ExitCode> {
    match &context.place {
        Place::Server(client) => {
            for field in fields {
                client.drop_index(name.as_str(), field)?;
            }
        }
        Place::Data(data) => {
            let store = wiring::open_store(data, &context.config)?;
            let dropped = fields
                .iter()
                .try_for_each(|field| store.drop_index(name, field));
            store.close()?;
            dropped?;
        }
    }
    let fields = fields.join(", ");
    say(context, &format!("dropped the index of {fields} of {name}"));
    Ok(ExitCode::SUCCESS)
}

fn is_json(context: &Context) -> bool {
    matches!(context.output, Some(Output::Json | Output::Ndjson))
}

/// A sentence for people.
fn say(context: &Context, sentence: &str) {
    if !is_json(context) {
        println!("{sentence}");
    }
}

fn tell(context: &Context, report: &IndexReport) -> Result<()> {
    if is_json(context) {
        let text = serde_json::to_string(report).map_err(anyhow::Error::from)?;
        println!("{text}");
        return Ok(());
    }
    println!(
        "indexed {} parts: {} rows, {}",
        grouped(report.parts as u64),
        grouped(report.rows),
        human_bytes(report.bytes_written)
    );
    Ok(())
}
