//! The command line and the listeners: each turns a protocol into calls on ingest and query.

// First, for its macros replace those of the standard library in all the others.
#[macro_use]
mod print;

mod cli;
mod client;
mod commands;
mod config;
mod demo;
mod failure;
mod quarantine;
mod server;
mod units;
mod wiring;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

/// Pieces of memory from this size on are of the kernel's own, and go back to it when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING_BYTES: i32 = 4 << 20;
/// Free memory at the end of one of the C library's arenas, of which there are eight for a core, that is not
/// given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = 4 << 20;

/// Bounds the freed memory that the C library keeps for whoever asks next: if it is not told, it keeps twice
/// as much in each arena as the largest piece that was ever freed, up to 64 MiB.
fn keep_little_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (setting, bytes) in [
        (libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES),
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES),
    ] {
        #[allow(unsafe_code, reason = "nothing else reaches it")]
        // SAFETY: no other thread runs yet, and it refuses what it does not know.
        unsafe {
            libc::mallopt(setting, bytes);
        }
    }
}

fn main() -> ExitCode {
    keep_little_memory();
    let cli = cli::Cli::parse();
    let filter = EnvFilter::try_from_env("LOGMILL_LOG")
        .unwrap_or_else(|_| EnvFilter::new("logmill=info,warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // They go to standard error, and what cannot be written there ends the thread in a panic:
        // a log on a full disk must not be the end of a server.
        .log_internal_errors(false)
        .with_target(false)
        .init();
    match commands::run(cli).and_then(print::checked) {
        Ok(code) => code,
        Err(failure) => {
            // A reader that went away (`logmill sql … | head`) is no failure of ours.
            if failure.is_broken_pipe() {
                return ExitCode::SUCCESS;
            }
            failure::tell(&failure);
            ExitCode::from(failure.code)
        }
    }
}
