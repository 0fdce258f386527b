//! The command line and the listeners: each turns a protocol into calls on ingest and query.

// First: its macros replace those of the standard library in all other modules.
#[macro_use]
mod print;

mod access;
mod api;
mod budgets;
mod cli;
mod client;
mod cluster;
mod commands;
mod config;
mod dates;
mod demo;
mod erase;
mod failure;
mod file_patterns;
mod flight;
mod fluent;
#[cfg(test)]
mod fuzzing;
mod grpc;
mod held;
mod intake;
mod interrupt;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "kafka")]
mod kafka_journal;
#[cfg(feature = "kafka")]
mod librdkafka;
mod listen;
mod memory;
mod mongo;
#[cfg(feature = "kafka")]
mod node;
mod postgres;
mod promql;
mod quarantine;
mod relp;
mod serve;
mod server;
mod ship;
mod shippers;
mod source_id;
mod syslog;
mod tls;
mod units;
mod verification;
mod wiring;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    memory::keep_little();
    let cli = cli::Cli::parse();
    let filter = EnvFilter::try_from_env("LOGMILL_LOG")
        .unwrap_or_else(|_| EnvFilter::new("logmill=info,warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Such errors are printed to standard error, and a failed write there panics: a log on a
        // full disk must not end a server.
        .log_internal_errors(false)
        .with_target(false)
        .init();
    match commands::run(cli).and_then(print::checked) {
        Ok(code) => code,
        Err(failure) => {
            // A reader that has closed the pipe (`logmill sql … | head`) is not a failure.
            if failure.is_broken_pipe() {
                return ExitCode::SUCCESS;
            }
            failure::tell(&failure);
            ExitCode::from(failure.code)
        }
    }
}
