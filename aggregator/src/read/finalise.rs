//! stub
use arrow::array::RecordBatch;
use crate::calendar::Level;
use crate::cells::Cells;
use crate::definition::Definition;
use crate::error::Result;

/// Turns merged cells into the columns `names` of the level table, in that order, sorted by
/// (bucket, keys), null before any value.
///
/// # Errors
/// [`crate::Error::Invalid`] for a column that the level does not have or whose state was not read, and
/// when an integer sum does not fit 64 bits.
pub fn finalise(definition: &Definition, level: Level, cells: &Cells, names: &[&str]) -> Result<RecordBatch> {
    let _ = (definition, level, cells, names);
    unimplemented!()
}
