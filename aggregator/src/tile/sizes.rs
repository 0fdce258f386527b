//! Sizes of the pieces of a tile file, from which a rollup's bytes per cell are explained.

use super::file::TileFile;
use super::head::TileBlock;
use super::stream::Unpacker;
use crate::bytes_io::ByteReader;
use crate::calendar::Level;
use crate::definition::Component;
use crate::error::Result;
use storage::Section;

/// Bytes of one section by content. Together they are the section's length; a shared block counts
/// only in the section that wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectionSizes {
    /// The head: buckets, and positions of blocks.
    pub head: u64,
    /// Buckets and keys of the cells.
    pub shape: u64,
    /// Number of events of each cell.
    pub counts: u64,
    /// Name and bytes of the states, in the order of the definition.
    pub states: Vec<(String, u64)>,
    /// Checksums of blocks and lengths of states.
    pub frame: u64,
}

impl TileFile {
    /// Returns the bytes of the dictionary of keys and of that of coupons, checksums included.
    pub fn dictionary_sizes(&self) -> (u64, u64) {
        (self.keys_at.len() as u64, self.coupons_at.len() as u64)
    }

    /// Returns the bytes of a section by content.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when the section is damaged.
    pub fn sizes(&self, section: &Section) -> Result<SectionSizes> {
        let (level, at) = self.level_of(section)?;
        let head = self.head(section, at)?;
        let end = at + section.len as usize;
        let own = |block: &&TileBlock| block.payload.start >= at && block.payload.end <= end;
        let mut head_end = end;
        let mut sizes = SectionSizes {
            states: self.states_at(level),
            ..SectionSizes::default()
        };
        for block in head.blocks.iter().filter(own) {
            head_end = head_end.min(block.payload.start);
            self.add_block(level, block, &mut sizes)?;
        }
        sizes.head = (head_end - at) as u64;
        Ok(sizes)
    }

    /// Returns the names of the states that cells of a level hold, each with 0 bytes.
    fn states_at(&self, level: Level) -> Vec<(String, u64)> {
        let here = |c: &&Component| c.at(level);
        let components = self.definition().components().iter().filter(here);
        components.map(|c| (c.to_string(), 0)).collect()
    }

    fn add_block(&self, level: Level, block: &TileBlock, sizes: &mut SectionSizes) -> Result<()> {
        let payload = self.checked(block.payload.clone())?;
        let mut reader = ByteReader::new(payload, block.payload.start + 4);
        let mut unpacker = Unpacker::new(self.bytes_len());
        sizes.frame += 4;
        let whole = reader.left();
        let firsts = if self.by_key(level) {
            block.cells
        } else {
            block.ranks.len()
        };
        unpacker.integers(&mut reader, firsts)?;
        unpacker.integers(&mut reader, block.cells)?;
        sizes.shape += (whole - reader.left()) as u64;
        let before = reader.left();
        unpacker.integers(&mut reader, block.cells)?;
        sizes.counts += (before - reader.left()) as u64;
        for (_, bytes) in &mut sizes.states {
            let before = reader.left();
            let len = reader.varint_len()?;
            sizes.frame += (before - reader.left()) as u64;
            reader.take(len)?;
            *bytes += len as u64;
        }
        reader.finish()
    }
}
