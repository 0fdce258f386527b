//! `logmill parse --explain`: explains how a file parses, without storing anything.

use std::io::Read;
use std::process::ExitCode;

use ingest::{LineBlocks, Multiline, ParseOptions, explain};
use storage::{Clock, SystemClock};

use super::{Context, import};
use crate::cli::{Output, ParseArgs};
use crate::failure::{FAILED, Failure, Result};
use crate::intake;

/// Enough of a file to know it by.
const SAMPLE_BYTES: usize = 16 << 20;

/// The most bytes that are read of a file of very long lines.
const READ_BYTES_MAX: u64 = 1 << 30;

/// The beginning of a file.
#[derive(Default)]
struct FileSample {
    /// Whole lines, without those that are too long for an import.
    bytes: Vec<u8>,
    too_long: u64,
}

fn sample(source: Box<dyn Read + Send>, rule: Option<&Multiline>) -> ingest::Result<FileSample> {
    let mut sample = FileSample::default();
    let mut read = 0;
    for block in LineBlocks::new(source).of_records(rule.cloned()) {
        let block = block?;
        read += block.end_byte - block.first_byte;
        match block.too_long {
            true => sample.too_long += 1,
            false => sample.bytes.extend_from_slice(&block.bytes),
        }
        // A line of which only the beginning is kept costs nothing, so the sample goes on behind
        // it.
        if sample.bytes.len() >= SAMPLE_BYTES || read >= READ_BYTES_MAX {
            break;
        }
    }
    Ok(sample)
}

pub(super) fn run(context: &Context, args: &ParseArgs) -> Result<ExitCode> {
    if !args.explain {
        return Err(Failure::usage(
            "parse needs --explain: logmill parse --explain FILE",
        ));
    }
    let name = args.file.display().to_string();
    let source = if name == "-" {
        import::input()?
    } else {
        ingest::open(&args.file)?
    };
    let format = args.format.parse()?;
    let multiline = intake::multiline_option(args.multiline.as_deref(), None, &format)?;
    let FileSample { bytes, too_long } =
        sample(source, multiline.as_ref()).map_err(|e| Failure::from(e).about(&name))?;
    let options = ParseOptions {
        format,
        multiline,
        strict: args.strict,
        tz: args.tz.as_deref().map(intake::zone).transpose()?,
        year: args.year,
        received_us: SystemClock.now_us(),
        ..intake::sample_options(&context.config)
    };
    let mut explanation = explain(&name, &bytes, options)?;
    if too_long > 0 {
        explanation.lines += too_long;
        explanation.quarantined += too_long;
        let reason = "line_too_long".to_owned();
        explanation.reasons.push((reason, too_long));
    }
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
