//! The cells of memtable chunks, computed once and cached with their chunk.
//!
//! # Invariants
//! * The cached cells are a pure function of the events up to the chunk's end: the tiles of the
//!   snapshot and the chunks before it decide which keys are admitted, with one result in every
//!   snapshot.
//! * While the history of a rollup is being counted, its cells are computed by each call: they
//!   depend on how far back it is counted by then.
//! * An error is not cached, and the chunks after it are not computed.

use std::sync::{Arc, OnceLock};

use storage::{Chunk, Snapshot};

use super::cascade_after;
use crate::cells::CellSet;
use crate::definition::Definition;
use crate::error::Result;
use crate::key_limit::AdmittedBefore;
use crate::raw::counted_from;

/// Returns the cells of the memtable chunks of a rollup's stream, oldest first. A reader merges
/// them with the tiles of the same snapshot. The cells of a chunk are computed once per generation.
/// The iterator ends after an error.
pub fn chunk_cells<'a>(
    definition: &'a Arc<Definition>,
    generation: u32,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = Result<Arc<CellSet>>> + 'a {
    let mut chunks = snapshot.chunks(definition.stream().as_str()).iter();
    let mut rollups = snapshot.manifest().rollups.iter();
    let meta = rollups.find(|r| r.id == generation);
    let counts_from_us = meta.and_then(storage::RollupMeta::counts_from_us);
    let mut before = [AdmittedBefore::new(definition, generation, snapshot)];
    std::iter::from_fn(move || {
        let chunk = chunks.next()?;
        let result = cells_of(definition, generation, chunk, counts_from_us, &mut before);
        match &result {
            Ok(cells) => before[0].push(chunk, Arc::clone(cells)),
            Err(_) => chunks = [].iter(),
        }
        Some(result)
    })
}

fn cells_of(
    definition: &Definition,
    generation: u32,
    chunk: &Chunk,
    counts_from_us: Option<i64>,
    before: &mut [AdmittedBefore<'_>; 1],
) -> Result<Arc<CellSet>> {
    if let Some(from_us) = counts_from_us {
        let events = counted_from(std::slice::from_ref(&chunk.events), from_us)?;
        let mut sets = cascade_after(&[definition], before, &events)?;
        let cells = sets.pop();
        return Ok(Arc::new(
            cells.expect("BUG: one definition gives one set of cells"),
        ));
    }
    let cached: Arc<OnceLock<Arc<CellSet>>> = chunk.derived(generation, |_| OnceLock::new());
    if let Some(cells) = cached.get() {
        return Ok(Arc::clone(cells));
    }
    let mut sets = cascade_after(&[definition], before, std::slice::from_ref(&chunk.events))?;
    let cells = sets
        .pop()
        .expect("BUG: one definition gives one set of cells");
    Ok(Arc::clone(cached.get_or_init(|| Arc::new(cells))))
}
