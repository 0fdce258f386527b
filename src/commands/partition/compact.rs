//! `logmill partition compact`.

use std::process::ExitCode;

use storage::Name;

use crate::cli::Output;
use crate::commands::Context;
use crate::failure::Result;
use crate::units::{grouped, human_bytes};

pub(super) fn run(context: &Context, name: Option<&str>) -> Result<ExitCode> {
    let name = name.map(Name::new).transpose()?;
    let admin = context.admin()?;
    let report = admin.compact_parts(name.as_ref())?;
    admin.close()?;
    if matches!(context.output, Some(Output::Json | Output::Ndjson)) {
        let text = serde_json::to_string(&report).map_err(anyhow::Error::from)?;
        println!("{text}");
    } else {
        println!(
            "merged {} parts into {}: {} events, {} became {}",
            grouped(report.merged as u64),
            grouped(report.into as u64),
            grouped(report.rows),
            human_bytes(report.bytes_read),
            human_bytes(report.bytes_written)
        );
    }
    Ok(ExitCode::SUCCESS)
}
