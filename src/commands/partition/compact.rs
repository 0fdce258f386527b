//! `logmill partition compact`.

use std::process::ExitCode;

use storage::{Name, PartsReport};

use crate::cli::Output;
use crate::commands::{Context, Place};
use crate::failure::Result;
use crate::units::{grouped, human_bytes};
use crate::wiring;

pub(super) fn run(context: &Context, name: Option<&str>) -> Result<ExitCode> {
    let name = name.map(Name::new).transpose()?;
    let report: PartsReport = match &context.place {
        Place::Server(client) => {
            let only = name.map_or(String::new(), |name| format!("?stream={name}"));
            let answer = client.post(&format!("/api/v1/partitions/compact{only}"))?;
            serde_json::from_value(answer).map_err(anyhow::Error::from)?
        }
        Place::Data(data) => {
            let store = wiring::open_store(data, &context.config)?;
            let report = store.compact_parts(name.as_ref(), true)?;
            store.close()?;
            report
        }
    };
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
