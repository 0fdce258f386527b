//! Tile files, whose parts get the right checksums.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use storage::{Name, Section, StreamKind};

use super::head::Head;
use super::layout::{MAGIC, OLDEST_VERSION, VERSION};
use super::{TileFile, merge_sections};
use crate::bytes_io::ByteReader;
use crate::calendar::Level;
use crate::cells::{Cells, Filter, Projection};
use crate::definition::{Definition, defaults};
use crate::read::finalise;
use crate::table::RollupTable;

/// Sections read of one file.
const SECTIONS_MAX: usize = 32;
/// Bytes before the lengths of the dictionaries.
const HEAD_BYTES: usize = 16;

/// The definitions of the tiles: the defaults, and one with every kind of measure.
static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let events = Name::new("events").expect("a name");
    let mut all = defaults(&events, StreamKind::Access, &[]).expect("the defaults");
    let table: RollupTable = serde_json::from_str(include_str!("fuzzing.json")).expect("a table");
    let every = Name::new("every").expect("a name");
    all.push(
        table
            .resolve(&every, StreamKind::Access)
            .expect("a definition"),
    );
    all
});

/// Reads a tile file, of the definition that the first byte chooses. Each section is refused, or
/// has the cells and events of its head. Cells that are read pass or fail a filter one by one,
/// become rows, and merge to a file of one encoding.
pub fn tile(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else {
        return;
    };
    let definition = &DEFINITIONS[usize::from(*which) % DEFINITIONS.len()];
    let (file, sections) = mended(definition, rest);
    let Ok(file) = TileFile::open(Arc::new(definition.clone()), file.into()) else {
        return;
    };
    for section in &sections {
        let all = Projection::all(definition);
        let Ok(cells) = file.read(section, &all, &Filter::ALL) else {
            continue;
        };
        file.check(section).expect("it was read");
        assert_eq!(
            (cells.len() as u64, cells.events()),
            (section.cells, section.events)
        );
        check_filter(&file, section, &cells);
        check_merge(definition, section, cells);
    }
}

fn check_filter(file: &TileFile, section: &Section, cells: &Cells) {
    let from_us = cells.buckets().first().copied().unwrap_or(0);
    let filter = Filter {
        from_us,
        ..Filter::ALL
    };
    let all = Projection::all(file.definition());
    let some = file
        .read(section, &all, &filter)
        .expect("it was read without a filter");
    let passing = cells
        .buckets()
        .iter()
        .filter(|start| **start >= from_us)
        .count();
    assert_eq!(some.len(), passing);
}

fn check_merge(definition: &Definition, section: &Section, cells: Cells) {
    let level = Level::from_name(&section.level).expect("a level");
    let events = cells.events();
    let rows = finalise(definition, level, &cells, &["bucket"]).expect("every level has buckets");
    assert_eq!(rows.num_rows(), cells.len());
    let names = crate::level_columns::columns(definition, level);
    let names: Vec<&str> = names.iter().map(|field| field.name().as_str()).collect();
    let _either = finalise(definition, level, &cells, &names);
    let merged = merge_sections(definition, level, vec![cells]);
    assert_eq!(merged.events, events);
    let file = TileFile::open(Arc::new(definition.clone()), merged.bytes.clone().into());
    let file = file.expect("a merged file is a tile");
    let all = Projection::all(definition);
    let sections = merged.sections.iter();
    let cells = sections.map(|section| file.read(section, &all, &Filter::ALL).expect("its cells"));
    let again = merge_sections(definition, level, cells.collect());
    assert_eq!(again.bytes, merged.bytes, "a merge has one encoding");
    assert_eq!(again.sections, merged.sections);
}

/// Returns the bytes as a tile of this definition under the right checksums, and its sections as a
/// manifest would name them.
fn mended(definition: &Definition, bytes: &[u8]) -> (Vec<u8>, Vec<Section>) {
    let mut bytes = bytes.to_vec();
    if bytes.len() < HEAD_BYTES {
        return (bytes, Vec::new());
    }
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    if bytes[6..8] != OLDEST_VERSION.to_le_bytes() {
        bytes[6..8].copy_from_slice(&VERSION.to_le_bytes());
    }
    bytes[8..HEAD_BYTES].copy_from_slice(&definition.fingerprint().to_le_bytes());
    let sections_at = mend_dictionaries(&mut bytes);
    let mut sections = Vec::new();
    let mut next = sections_at;
    while let Some(at) = next.filter(|_| sections.len() < SECTIONS_MAX) {
        let levels = definition.levels();
        let level = levels[sections.len() % levels.len()];
        next = mend_section(&mut bytes, at, level, &mut sections);
    }
    (bytes, sections)
}

/// Mends the head of a file and its dictionaries, and returns the offset behind them.
fn mend_dictionaries(bytes: &mut [u8]) -> Option<usize> {
    let mut reader = ByteReader::new(&bytes[HEAD_BYTES..], HEAD_BYTES);
    let (keys, coupons) = (reader.varint_len().ok()?, reader.varint_len().ok()?);
    let end = reader.offset();
    reader.u32().ok()?;
    let keys_at = reader.offset();
    let crc = crc32c::crc32c(&bytes[..end]);
    bytes[end..keys_at].copy_from_slice(&crc.to_le_bytes());
    let coupons_at = keys_at.checked_add(keys)?;
    let sections_at = coupons_at.checked_add(coupons)?;
    mend(bytes, keys_at..coupons_at)?;
    mend(bytes, coupons_at..sections_at)?;
    Some(sections_at)
}

/// Mends a section and its blocks, and returns the offset behind them.
fn mend_section(
    bytes: &mut [u8],
    at: usize,
    level: Level,
    sections: &mut Vec<Section>,
) -> Option<usize> {
    let mut outer = ByteReader::new(bytes.get(at..)?, at);
    outer.u32().ok()?;
    let len = outer.varint_len().ok()?;
    let head_at = outer.offset();
    let head = outer.take(len).ok()?;
    let mut section = Section {
        level: level.as_str().to_owned(),
        partition_us: 0,
        bucket_min_us: i64::MIN,
        bucket_max_us: i64::MAX,
        cells: 0,
        densest: 0,
        events: 0,
        offset: at as u64,
        len: (head_at + len - at) as u64,
    };
    let mut reader = ByteReader::new(head, head_at);
    let head = Head::parse(&mut reader, head_at + len, bytes.len()).ok()?;
    section.cells = head.blocks.iter().map(|block| block.cells as u64).sum();
    section.events = head
        .blocks
        .iter()
        .fold(0, |sum, b| sum.wrapping_add(b.events));
    let blocks: Vec<Range<usize>> = head.blocks.iter().map(|b| b.payload.clone()).collect();
    mend(bytes, at..head_at + len)?;
    let mut end = head_at + len;
    for block in blocks {
        end = end.max(block.end);
        mend(bytes, block)?;
    }
    sections.push(section);
    Some(end)
}

/// Writes the checksum of a range into its first four bytes.
fn mend(bytes: &mut [u8], range: Range<usize>) -> Option<()> {
    let (crc, rest) = bytes.get_mut(range)?.split_first_chunk_mut::<4>()?;
    *crc = crc32c::crc32c(rest).to_le_bytes();
    Some(())
}
