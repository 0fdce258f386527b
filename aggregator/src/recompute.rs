//! Cells computed anew from raw events, for backfills, rebuilds and verification.

use crate::cascade::cascade_after;
use crate::cells::CellSet;
use crate::error::Result;
use crate::key_limit::AdmittedByDay;
use crate::raw::RawEvents;

/// Returns the cells of raw events, part by part and chunk by chunk.
pub(crate) fn recomputed_cells(raw: RawEvents<'_>) -> impl Iterator<Item = Result<CellSet>> {
    let mut admitted = [AdmittedByDay::new()];
    (0..raw.sources()).map(move |nth| {
        admitted[0].reach(&raw, raw.source_time(nth))?;
        let events = raw.source_events(nth)?;
        let mut sets = cascade_after(&[raw.definition()], &mut admitted, &events)?;
        Ok(sets
            .pop()
            .expect("BUG: one definition gives one set of cells"))
    })
}
