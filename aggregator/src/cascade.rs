//! stub
use arrow::array::RecordBatch;
use crate::cells::CellSet;
use crate::definition::Definition;
use crate::error::Result;

/// Cascades events through every level of each rollup, in one pass over the columns they share.
///
/// `events` need `time` (microseconds, without nulls); any other column that is missing reads as
/// null. The result is a pure function of the set of events: their order and division do not show.
///
/// # Errors
/// [`crate::Error::Invalid`] when `time` is missing or of another type.
pub fn cascade(definitions: &[&Definition], events: &[RecordBatch]) -> Result<Vec<CellSet>> {
    let _ = (definitions, events);
    unimplemented!()
}
