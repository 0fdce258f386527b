//! The cells of memtable chunks, made once and kept with their chunk.
//!
//! # Invariants
//! * What a chunk keeps is a pure function of the events up to its end: which keys have a name is
//!   decided by the tiles of the snapshot and by the chunks before it, whatever snapshot that is.
//! * While the history of a rollup is being counted its cells are made each time: which events it
//!   counts follows from how far that is.
//! * An error is kept nowhere, and nothing is made of what comes after it.

use std::sync::{Arc, OnceLock};

use storage::{Chunk, Snapshot};

use super::cascade_after;
use crate::cells::CellSet;
use crate::definition::Definition;
use crate::error::Result;
use crate::key_limit::AdmittedBefore;
use crate::raw::counted_from;

/// The cells of the memtable chunks of a rollup's stream, oldest first: what a reader adds to the
/// tiles of the same snapshot. They are made once for each chunk and generation. After an error there
/// are no more.
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
        let made = cells_of(definition, generation, chunk, counts_from_us, &mut before);
        match &made {
            Ok(cells) => before[0].push(chunk, Arc::clone(cells)),
            Err(_) => chunks = [].iter(),
        }
        Some(made)
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
        let made = sets.pop();
        return Ok(Arc::new(
            made.expect("BUG: one definition gives one set of cells"),
        ));
    }
    let kept: Arc<OnceLock<Arc<CellSet>>> = chunk.derived(generation, |_| OnceLock::new());
    if let Some(known) = kept.get() {
        return Ok(Arc::clone(known));
    }
    let mut sets = cascade_after(&[definition], before, std::slice::from_ref(&chunk.events))?;
    let made = sets
        .pop()
        .expect("BUG: one definition gives one set of cells");
    Ok(Arc::clone(kept.get_or_init(|| Arc::new(made))))
}
