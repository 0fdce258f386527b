//! `logmill completions`: a script by which a shell completes the command line.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::failure::Result;

/// Writes the script of a shell to standard output.
pub(super) fn run(args: &CompletionsArgs) -> Result<ExitCode> {
    // The generator panics when a write fails, and memory takes everything.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "logmill", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
