//! Compaction: many small files become few large ones.

mod debt;
mod part_choice;
mod parts;
mod section_choice;
mod tiles;

pub use debt::{Debt, compaction_debt};
pub(super) use part_choice::{Partition, by_partition};
pub use parts::PartsReport;
pub(super) use parts::compact as compact_parts;
pub(super) use section_choice::{LevelPartition, by_level_partition};
pub use tiles::CompactReport;
pub(super) use tiles::compact as compact_tiles;
