//! Merging sections, for compaction.

use std::sync::Arc;

use storage::TileImage;

use super::encode;
use crate::calendar::Level;
use crate::cells::{CellSet, Cells};
use crate::definition::Definition;
use crate::intern::by_frequency;
use crate::read::{key_ranks, merge_all, select};

/// Merges the whole cells of sections of one level into a file of its own, with a section for each
/// time partition that they lie in. (That is one, but for sections of version 1, whose partitions
/// were wider.)
///
/// The bytes are those that [`encode`] gives for a cascade of all their events: the order and the
/// bracketing of merges do not show.
///
/// Besides the inputs, as large as [`Cells::memory_bytes`] says, it needs one copy of them and 40
/// bytes per cell to sort: it was measured to peak at 1.2 times the inputs where they merge well,
/// and at 2.5 times where nothing merges. A cell of `stats` takes 44 bytes by minute, 110 to 140 by
/// hour and 120 to 280 by day; with the dictionaries of twenty small inputs, 90 to 170.
pub fn merge_sections(definition: &Definition, level: Level, inputs: Vec<Cells>) -> TileImage {
    let mut cells = merge_all(definition, level, inputs);
    order_keys(&mut cells);
    let events = cells.events();
    let levels = vec![(level, cells)];
    encode(definition, &CellSet { levels, events })
}

/// Gives the cells the dictionary of keys that a cascade of their events has.
fn order_keys(cells: &mut Cells) {
    let mut counts = vec![0; cells.keys.len];
    for (key, count) in cells.key.iter().zip(&cells.count) {
        counts[*key as usize] += count;
    }
    let ranks = key_ranks(&cells.keys, &cells.key);
    let order = by_frequency(&counts, |a, b| ranks[a as usize].cmp(&ranks[b as usize]));
    let mut ids = vec![0; cells.keys.len];
    for (place, id) in order.iter().enumerate() {
        ids[*id as usize] = place as u32;
    }
    cells
        .key
        .iter_mut()
        .for_each(|key| *key = ids[*key as usize]);
    cells.keys = Arc::new(select(&cells.keys, &order));
}

#[cfg(test)]
mod tests;
