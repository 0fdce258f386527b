//! stub
use std::sync::Arc;
use bytes::Bytes;
use storage::{Section, TileImage};
use crate::cells::{CellSet, Cells, Filter, Projection};
use crate::definition::Definition;
use crate::error::Result;

/// Writes the cells of one seal as one tile file.
pub fn encode(definition: &Definition, cells: &CellSet) -> TileImage {
    let _ = (definition, cells);
    unimplemented!()
}

/// An open tile file: its bytes and, once needed, its dictionaries. Cheap to share; keep it while
/// it is read often, because the dictionaries are decoded once.
#[derive(Debug)]
pub struct TileFile {
    #[expect(dead_code, reason = "skeleton")]
    definition: Arc<Definition>,
    #[expect(dead_code, reason = "skeleton")]
    bytes: Bytes,
}

impl TileFile {
    /// Checks the header.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when the bytes are not a tile of this definition.
    pub fn open(definition: Arc<Definition>, bytes: Bytes) -> Result<Self> {
        Ok(Self { definition, bytes })
    }

    /// Reads the cells of one section that pass the filter, with the states asked for.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when the section, or a dictionary it needs, is damaged.
    pub fn read(&self, section: &Section, projection: &Projection, filter: &Filter) -> Result<Cells> {
        let _ = (section, projection, filter);
        unimplemented!()
    }
}
