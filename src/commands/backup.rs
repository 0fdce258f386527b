//! `logmill backup DIR`: a second store with everything acknowledged before the backup began.

use std::path::Path;
use std::process::ExitCode;

use storage::{BackupReport, SystemClock};

use super::{Context, Place};
use crate::cli::Output;
use crate::failure::{Failure, Result};
use crate::units::{grouped, human_bytes};
use crate::wiring;

pub(super) fn run(context: &Context, dir: &Path) -> Result<ExitCode> {
    // The server has another working directory.
    let dir = std::path::absolute(dir)?;
    let report: BackupReport = match &context.place {
        Place::Server(client) => {
            let text = dir.to_str();
            let wrong =
                || Failure::usage("the directory's name must be UTF-8 to be sent to a server");
            client.backup(text.ok_or_else(wrong)?)?
        }
        Place::Data(data) => {
            let (disk, data) = (wiring::shared_disk(), std::path::absolute(data)?);
            storage::backup(&disk, &SystemClock, &data, &dir)?
        }
    };
    if matches!(context.output, Some(Output::Json | Output::Ndjson)) {
        println!(
            "{}",
            serde_json::to_string(&report).map_err(anyhow::Error::from)?
        );
    } else {
        println!(
            "{} holds everything below sequence {}: {} files linked ({}), {} copied ({}), in {} ms",
            dir.display(),
            report.next_seq,
            grouped(report.linked_files),
            human_bytes(report.linked_bytes),
            grouped(report.copied_files),
            human_bytes(report.copied_bytes),
            report.ms
        );
    }
    Ok(ExitCode::SUCCESS)
}
