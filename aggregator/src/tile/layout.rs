//! Constants and rules of the tile file that its writer and its readers share; see the layout in
//! `tile.rs`.

use crate::calendar::Level;
use crate::state::COUPONS_MAX;

pub(super) const MAGIC: &[u8; 6] = b"LMTILE";
/// The version of the layout. (Version 1 was that of development versions.)
pub(super) const VERSION: u16 = 3;
/// The oldest version that is read. Its hours are sorted by bucket first; all else is the same.
pub(super) const OLDEST_VERSION: u16 = 2;
/// Buckets are written in seconds.
pub(super) const SECOND_US: i64 = 1_000_000;
/// Registers are listed when fewer than this are raised; otherwise all 4096 are written, one byte
/// each. The two forms cost the same here, at ten bits for a listed register and three for any of
/// the 4096.
pub(super) const LISTED_MAX: usize = 900;
/// Stands in place of the number of coupons in a cell with registers.
pub(super) const DENSE: u64 = COUPONS_MAX as u64 + 1;

/// Returns whether the sections of a level are sorted by key first, in a file of a version. A chart
/// of a year by the hour reads one key of every section.
pub(super) fn by_key(level: Level, version: u16) -> bool {
    match version {
        OLDEST_VERSION => level >= Level::Day,
        _ => level >= Level::Hour,
    }
}
