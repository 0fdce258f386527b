//! Compaction: many small files become few large ones.

mod debt;
mod parts;
mod tiles;

pub use debt::{Debt, compaction_debt};
pub use parts::PartsReport;
pub(super) use parts::{Pace, Partition, by_partition, compact as compact_parts, wait_for_others};
pub use tiles::CompactReport;
pub(super) use tiles::{LevelPartition, by_level_partition, compact as compact_tiles};
