//! Rollups: definitions, calendar buckets, mergeable states, the cascade, tiles and reads.
//!
//! [`cascade()`] turns events into [`Cells`]. A seal writes them with [`encode`] as one tile file
//! per rollup (through [`Cascade`], storage's [`storage::RollupHook`]). A reader takes cells from
//! tiles with [`TileFile::read`] and from memtable chunks with [`CellSet::level`], joins any number
//! of them with [`merge`] and turns the result into columns with [`finalise`].
//!
//! # Invariants
//! * Every state is a commutative monoid with one canonical encoding: any order and bracketing of
//!   merges produces the same bytes, so equality of two histories is byte equality.
//! * Tiles hold deltas, never totals: a level is the merge of all its tiles and the memtable.
//! * Means, quantiles and estimates are computed by each read and stored nowhere.
//! * The crate reads no clock and no random numbers, and no files but those of a snapshot.

mod bytes_io;
mod calendar;
mod cascade;
mod cells;
mod column;
mod definition;
mod error;
mod expression;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod group;
mod intern;
mod key_limit;
mod keys;
mod level_columns;
#[cfg(test)]
mod model;
mod outdated;
mod raw;
mod read;
mod recompute;
mod recount;
mod rollup_hook;
mod seeded;
pub mod state;
mod table;
#[cfg(test)]
mod testing;
mod text_function;
mod tile;
mod verify;

pub use calendar::{Bucket, Calendar, Cursor, Level, WeekStart, zone};
pub use cascade::{cascade, chunk_cells};
pub use cells::{CellSet, Cells, Filter, Grain, Projection};
pub use definition::{Definition, Key, KeyType, Measure, MeasureKind, Number, defaults};
pub use error::{Error, Result};
pub use expression::{Condition, Expression};
pub use keys::{KeyValue, OTHER};
pub use level_columns::{EXACT_TYPE, column_entry_level, columns, exact_column, exact_columns};
pub use outdated::outdated_levels;
pub use read::{
    Comparison, Difference, TooLarge, compare, finalise, finalise_by_bucket, merge, merge_to,
};
pub use rollup_hook::{Cascade, CascadeConfig};
pub use table::RollupTable;
pub use text_function::{TextFunction, path_prefix, url_parameter};
pub use tile::{
    BLOCK_CELLS_MAX as TILE_BLOCK_CELLS, SectionSizes, TileFile, encode, merge_sections,
};
pub use verify::{Against, LevelVerification, Sample, Verification, verify};
