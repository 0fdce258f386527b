//! Compaction: many small files become few large ones.

mod parts;
mod tiles;

pub use parts::PartsReport;
pub(super) use parts::{Pace, Partition, by_partition, compact as compact_parts};
pub use tiles::CompactReport;
pub(super) use tiles::{Place, by_place, compact as compact_tiles};
