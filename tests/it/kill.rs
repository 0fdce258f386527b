//! `kill -9` at random moments: during imports, and of a server that is being written to. What was
//! acknowledged is there once; what is sent again adds only what is missing.

mod importer;
mod local;
mod server;

use crate::support::knob;

/// A different seed for each run: the moments differ anyway.
fn seed() -> u64 {
    let seed = knob("LOGMILL_SEED", u64::from(std::process::id()));
    println!("LOGMILL_SEED={seed}");
    seed
}
