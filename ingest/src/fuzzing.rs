//! Targets of the fuzzer: lines, documents, cuts and bodies as a stranger may send them.
//!
//! Each target takes any bytes, reads them, and panics if the result breaks an invariant of this
//! crate. The targets exist in fuzz builds (`tests/fuzz`) and in the tests of this crate, which
//! replay the corpora.

mod blocks;
mod bodies;
mod bson;
mod json;
mod line_formats;
mod shippers;

pub use self::bson::bson;
pub use blocks::blocks;
pub use bodies::bodies;
pub use json::json;
pub use line_formats::line_formats;
pub use shippers::shippers;

use crate::options::ParseOptions;

/// Time of receipt of every input: 2024-10-25.
const RECEIVED_US: i64 = 1_729_814_400_000_000;

/// Splits off `N` bytes, which choose a variant of the target; zeros if there are fewer.
fn choices<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    let split = bytes.split_first_chunk();
    split.map_or(([0; N], &[]), |(first, rest)| (*first, rest))
}

fn received() -> ParseOptions {
    ParseOptions {
        received_us: RECEIVED_US,
        ..ParseOptions::default()
    }
}

#[cfg(test)]
mod tests;
