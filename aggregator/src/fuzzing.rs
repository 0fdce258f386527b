//! Targets of the fuzzer: tile files, expressions and definitions as a stranger may write them.
//!
//! Each target takes any bytes, gives them the checksums that their reader compares first, reads
//! them, and panics if the result breaks a rule of its format. The targets exist in fuzz builds
//! (`tests/fuzz`) and in the tests of this crate, which replay the corpora.

mod expression;
mod rollup;

pub use crate::tile::tile;
pub use expression::expression;
pub use rollup::rollup;

#[cfg(test)]
mod tests;
