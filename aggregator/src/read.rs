//! Reads: merging cells of many tiles, turning them into columns, and comparison for verify.

mod compare;
mod finalise;
mod merge;
mod states;

pub use compare::{Comparison, Difference, compare};
pub use finalise::{TooLarge, finalise, finalise_by_bucket};
pub(crate) use merge::{coarsen, key_ranks, merge_all, ranks_of_buckets, select};
pub use merge::{merge, merge_to};

#[cfg(test)]
mod tests;
