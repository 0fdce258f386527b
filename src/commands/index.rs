//! `logmill index list | create | drop`.

use std::process::ExitCode;

use storage::{IndexKind, IndexReport, Name};

use super::{Context, sql};
use crate::cli::{IndexCommand, Output};
use crate::failure::Result;
use crate::units::{grouped, human_bytes};

pub(super) fn run(context: &Context, command: &IndexCommand) -> Result<ExitCode> {
    match command {
        IndexCommand::List { name } => sql::one(context, &list_sql(name.as_deref())?, None, false),
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
    // This process builds and counts the indexes itself below, so background maintenance stays
    // off.
    let mut config = context.config.clone();
    config.storage.tends = false;
    let admin = context.admin_with(&config)?;
    let requested = fields
        .iter()
        .try_for_each(|field| admin.create_index(name, field, kind));
    let built = requested.and_then(|()| admin.build_indexes());
    admin.close()?;
    match built? {
        Some(report) => tell(context, &report)?,
        None => say(
            context,
            &format!(
                "{} of {name} will be indexed in the background; see `logmill index list`",
                fields.join(", ")
            ),
        ),
    }
    Ok(ExitCode::SUCCESS)
}

fn drop(context: &Context, name: &Name, fields: &[String]) -> Result<ExitCode> {
    let admin = context.admin()?;
    let dropped = fields
        .iter()
        .try_for_each(|field| admin.drop_index(name, field));
    admin.close()?;
    dropped?;
    let fields = fields.join(", ");
    say(context, &format!("dropped the index of {fields} of {name}"));
    Ok(ExitCode::SUCCESS)
}

fn is_json(context: &Context) -> bool {
    matches!(context.output, Some(Output::Json | Output::Ndjson))
}

/// Prints a sentence for people; JSON output has none.
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
