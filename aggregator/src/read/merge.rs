//! stub
use crate::calendar::Level;
use crate::cells::Cells;
use crate::definition::Definition;

/// Merges cells of one level from any number of tiles and memtable chunks, each with dictionaries
/// of its own. The result holds the states that every input has, one cell per (bucket, key),
/// sorted by bucket and then in no particular order of keys.
pub fn merge(definition: &Definition, level: Level, inputs: &[&Cells]) -> Cells {
    let _ = (definition, level, inputs);
    unimplemented!()
}
