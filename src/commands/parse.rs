//! `logmill parse --explain`: what the parser makes of a file, without storing anything.

use std::io::Read;
use std::process::ExitCode;

use ingest::{ParseOptions, explain};
use storage::{Clock, SystemClock};

use super::{Context, import};
use crate::cli::{Output, ParseArgs};
use crate::failure::{FAILED, Failure, Result};

/// Enough of a file to know it by.
const SAMPLE_BYTES: u64 = 16 << 20;

pub(super) fn run(context: &Context, args: &ParseArgs) -> Result<ExitCode> {
    if !args.explain {
        return Err(Failure::usage(
            "say what to do with the file: logmill parse --explain FILE",
        ));
    }
    let name = args.file.display().to_string();
    let mut sample = Vec::new();
    let source: Box<dyn Read> = if name == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        ingest::open(&args.file)?
    };
    source
        .take(SAMPLE_BYTES)
        .read_to_end(&mut sample)
        .map_err(|e| Failure::new(FAILED, format!("{name}: {e}")))?;
    if sample.len() as u64 == SAMPLE_BYTES {
        // The last line may have been cut by us.
        let end = sample
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(sample.len(), |at| at + 1);
        sample.truncate(end);
    }
    let options = ParseOptions {
        format: args.format.parse()?,
        strict: args.strict,
        tz: args.tz.as_deref().map(import::zone).transpose()?,
        received_us: SystemClock.now_us(),
        max_future_us: context.config.ingest.max_future.micros(),
        ..ParseOptions::default()
    };
    let explanation = explain(&name, &sample, options)?;
    match context.output {
        Some(Output::Json | Output::Ndjson) => {
            println!(
                "{}",
                serde_json::to_string_pretty(&explanation).map_err(anyhow::Error::from)?
            );
        }
        _ => print!("{explanation}"),
    }
    let nothing_fits = explanation.events == 0 && explanation.quarantined > 0;
    Ok(if nothing_fits {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}
