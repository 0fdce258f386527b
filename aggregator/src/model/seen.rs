//! The contents of a snapshot: raw events, and every level of its rollups (tiles and the memtable's
//! cells, through the functions that any reader uses).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Float64Type, Int16Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use storage::{FileRef, Manifest, Name, RollupMeta, SEQ, Section, Snapshot, TIME, read_part};

use super::STREAM;
use super::counted::{ExpectedRow, KeyTuple};
use super::naive::ColumnValue;
use super::rollups::Rollup;
use crate::calendar::Level;
use crate::cascade::chunk_cells;
use crate::cells::{Cells, Filter, Projection};
use crate::definition::Definition;
use crate::keys::KeyValue;
use crate::read::{finalise, merge};
use crate::tile::TileFile;

/// The contents of a snapshot besides the cells of rollups.
#[derive(Debug)]
pub(super) struct StoreContents {
    pub(super) sealed_seq: u64,
    /// Sequence number and time of the events in memory.
    pub(super) memory: Vec<(u64, i64)>,
    pub(super) dropped: BTreeMap<i64, u64>,
    pub(super) detached: BTreeMap<i64, u64>,
    /// Floors by rollup and level.
    pub(super) floors: Vec<Vec<i64>>,
    /// Late events by rollup and level.
    pub(super) late: Vec<Vec<u64>>,
}

impl StoreContents {
    pub(super) fn of(snapshot: &Snapshot, rollups: &[RollupReader]) -> Self {
        let manifest = snapshot.manifest();
        let chunks = snapshot.chunks(STREAM).iter();
        let name = Name::new(STREAM).expect("a name");
        let stream = manifest.streams.get(&name);
        let dropped = stream.map(|s| &s.dropped[..]).unwrap_or_default();
        let floors = |reader: &RollupReader| {
            let meta = reader.meta(manifest);
            let floor = |level: &Level| meta.map_or(i64::MIN, |m| m.floor_us(level.as_str()));
            reader.rollup.levels.iter().map(floor).collect()
        };
        let late = |reader: &RollupReader| {
            let floors = reader.meta(manifest).map(|m| &m.floors);
            let late = |level: &Level| Some(floors?.get(level.as_str())?.late);
            let levels = reader.rollup.levels.iter();
            levels.map(|level| late(level).unwrap_or(0)).collect()
        };
        Self {
            sealed_seq: manifest.sealed_seq,
            memory: chunks.flat_map(|c| rows_of(&c.events)).collect(),
            dropped: dropped
                .iter()
                .map(|d| (d.partition_us, d.complete_from))
                .collect(),
            detached: manifest
                .detached
                .iter()
                .map(|d| (d.partition_us, d.complete_from))
                .collect(),
            floors: rollups.iter().map(floors).collect(),
            late: rollups.iter().map(late).collect(),
        }
    }
}

/// Rows of parts that were decoded before, by file and checksum.
#[derive(Debug, Default)]
pub(super) struct PartCache(BTreeMap<(String, u32), Vec<(u64, i64)>>);

impl PartCache {
    /// Returns sequence number and time of every event in parts. Each file is read and compared
    /// with its checksum; a file of known checksum is not decoded again.
    pub(super) fn read(&mut self, snapshot: &Snapshot) -> Vec<(u64, i64)> {
        let name = Name::new(STREAM).expect("a name");
        let mut all = Vec::new();
        for part in snapshot.manifest().parts_of(&name) {
            let bytes = snapshot.read(&part.file).expect("a part is there");
            let read = || {
                let batches = read_part(bytes, Some(&[TIME, SEQ])).expect("a part");
                batches.iter().flat_map(rows_of).collect()
            };
            let key = (part.file.path.clone(), part.file.crc);
            all.extend_from_slice(self.0.entry(key).or_insert_with(read));
        }
        all.sort_unstable();
        all
    }
}

fn rows_of(events: &RecordBatch) -> Vec<(u64, i64)> {
    let seqs = events[SEQ].as_primitive::<UInt64Type>().values();
    let times = events[TIME].as_primitive::<TimestampMicrosecondType>();
    seqs.iter()
        .zip(times.values())
        .map(|(s, t)| (*s, *t))
        .collect()
}

/// A level and the start of a time partition.
type LevelPartition = (Level, i64);
/// A section: its file, the file's checksum and the offset in it.
type SectionId = (String, u32, u64);

/// A reader of one rollup, which decodes each section once.
#[derive(Debug)]
pub(super) struct RollupReader {
    pub(super) rollup: Rollup,
    pub(super) definition: Arc<Definition>,
    /// Names of the columns, by level.
    columns: Vec<Vec<String>>,
    sections: BTreeMap<SectionId, Rc<Cells>>,
    /// The sections of each time partition when it was last read.
    partitions: BTreeMap<LevelPartition, Vec<SectionId>>,
}

impl RollupReader {
    pub(super) fn new(rollup: Rollup, definition: Definition) -> Self {
        let columns = rollup.levels.iter().map(|l| rollup.columns(*l)).collect();
        Self {
            rollup,
            definition: Arc::new(definition),
            columns,
            sections: BTreeMap::new(),
            partitions: BTreeMap::new(),
        }
    }

    pub(super) fn name(&self) -> Name {
        self.definition.name().clone()
    }

    pub(super) fn meta<'a>(&self, manifest: &'a Manifest) -> Option<&'a RollupMeta> {
        let mut rollups = manifest.rollups.iter();
        rollups.find(|r| &r.name == self.definition.name())
    }

    /// Reads every file again and compares it with its checksum.
    pub(super) fn check_files(&self, snapshot: &Snapshot) {
        if let Some(meta) = self.meta(snapshot.manifest()) {
            assert_eq!(meta.definition, self.definition.to_value());
        }
        for (file, _) in self.stored(snapshot.manifest()) {
            snapshot.read(file).expect("a tile is there");
        }
    }

    /// Reads the new sections of a snapshot. Returns the time partitions whose sections changed.
    pub(super) fn update(&mut self, snapshot: &Snapshot) -> BTreeSet<LevelPartition> {
        let mut partitions: BTreeMap<LevelPartition, Vec<SectionId>> = BTreeMap::new();
        let mut sections = BTreeMap::new();
        let mut tiles = BTreeMap::new();
        for (file, section) in self.stored(snapshot.manifest()) {
            let level = Level::from_name(&section.level).expect("a level");
            let id = (file.path.clone(), file.crc, section.offset);
            let ids = partitions.entry((level, section.partition_us));
            ids.or_default().push(id.clone());
            let decoded = self.sections.remove(&id);
            let cells = decoded.unwrap_or_else(|| {
                let tile = self.open(&mut tiles, snapshot, file);
                Rc::new(self.read(tile, section))
            });
            sections.insert(id, cells);
        }
        self.sections = sections;
        let before = std::mem::replace(&mut self.partitions, partitions);
        let all = before.keys().chain(self.partitions.keys());
        all.filter(|at| before.get(at) != self.partitions.get(at))
            .copied()
            .collect()
    }

    fn stored<'a>(&self, manifest: &'a Manifest) -> Vec<(&'a FileRef, &'a Section)> {
        let Some(meta) = self.meta(manifest) else {
            return Vec::new();
        };
        let files = manifest.tiles_of(meta.id).flat_map(|t| &t.files);
        files
            .flat_map(|f| f.sections.iter().map(|s| (&f.file, s)))
            .collect()
    }

    /// Returns the file, opened at most once.
    fn open<'a, 'b>(
        &self,
        tiles: &'b mut BTreeMap<&'a str, TileFile>,
        snapshot: &Snapshot,
        file: &'a FileRef,
    ) -> &'b TileFile {
        tiles.entry(&file.path).or_insert_with(|| {
            let bytes = snapshot.read(file).expect("a tile is there");
            TileFile::open(Arc::clone(&self.definition), bytes).expect("a tile")
        })
    }

    /// Reads a section and checks that its buckets belong to its time partition.
    fn read(&self, tile: &TileFile, section: &Section) -> Cells {
        let all = Projection::all(&self.definition);
        let cells = tile.read(section, &all, &Filter::ALL).expect("a section");
        let level = Level::from_name(&section.level).expect("a level");
        for bucket_us in &cells.bucket {
            let partition_us = self.rollup.calendar.partition(level, *bucket_us);
            assert_eq!(
                partition_us, section.partition_us,
                "another partition: {level} {bucket_us}"
            );
        }
        cells
    }

    /// Returns the rows of the `nth` level in some time partitions. [`RollupReader::update`] must
    /// have been called for this snapshot.
    pub(super) fn rows(
        &self,
        snapshot: &Snapshot,
        nth: usize,
        of: &BTreeSet<i64>,
    ) -> Vec<ExpectedRow> {
        let level = self.rollup.levels[nth];
        let ids = of.iter().filter_map(|p| self.partitions.get(&(level, *p)));
        let mut cells: Vec<Rc<Cells>> = ids
            .flatten()
            .map(|id| Rc::clone(&self.sections[id]))
            .collect();
        cells.extend(self.in_memory(snapshot, level).into_iter().map(Rc::new));
        let mut rows = self.finalised(nth, &cells);
        rows.retain(|row| of.contains(&self.rollup.calendar.partition(level, row.0)));
        rows
    }

    /// Returns all rows of the `nth` level, and reads every file again for them.
    pub(super) fn all_rows(&self, snapshot: &Snapshot, nth: usize) -> Vec<ExpectedRow> {
        let level = self.rollup.levels[nth];
        let (mut tiles, mut cells) = (BTreeMap::new(), Vec::new());
        for (file, section) in self.stored(snapshot.manifest()) {
            if section.level != level.as_str() {
                continue;
            }
            let tile = self.open(&mut tiles, snapshot, file);
            cells.push(Rc::new(self.read(tile, section)));
        }
        cells.extend(self.in_memory(snapshot, level).into_iter().map(Rc::new));
        self.finalised(nth, &cells)
    }

    fn in_memory(&self, snapshot: &Snapshot, level: Level) -> Vec<Cells> {
        let Some(meta) = self.meta(snapshot.manifest()) else {
            return Vec::new();
        };
        let all = Projection::all(&self.definition);
        let above = Filter {
            from_us: meta.floor_us(level.as_str()),
            ..Filter::ALL
        };
        chunk_cells(&self.definition, meta.id, snapshot)
            .map(|set| {
                let set = set.expect("cells");
                set.level(level).expect("the level").filter(&above, &all)
            })
            .collect()
    }

    fn finalised(&self, nth: usize, cells: &[Rc<Cells>]) -> Vec<ExpectedRow> {
        let level = self.rollup.levels[nth];
        let cells: Vec<&Cells> = cells.iter().map(Rc::as_ref).collect();
        let merged = merge(&self.definition, level, &cells);
        let names: Vec<&str> = self.columns[nth].iter().map(String::as_str).collect();
        let batch = finalise(&self.definition, level, &merged, &names).expect("columns");
        rows(&batch, self.rollup.by.len())
    }
}

/// Returns bucket, key, and the other columns, of which the bucket's end is the first.
fn rows(batch: &RecordBatch, keys: usize) -> Vec<ExpectedRow> {
    let columns: Vec<Vec<ColumnValue>> = batch.columns().iter().map(values).collect();
    let row = |row: usize| {
        let ColumnValue::Int(bucket_us) = columns[0][row] else {
            panic!("a bucket has a beginning");
        };
        let key: KeyTuple = (0..keys)
            .map(|k| key_value(batch.column(2 + k), row))
            .collect();
        let others = columns[1..2].iter().chain(&columns[2 + keys..]);
        let values = others.map(|c| c[row].clone()).collect();
        (bucket_us, key, Rc::new(values))
    };
    (0..batch.num_rows()).map(row).collect()
}

fn key_value(array: &ArrayRef, row: usize) -> KeyValue {
    if array.is_null(row) {
        return KeyValue::Null;
    }
    match array.data_type() {
        DataType::Utf8 => KeyValue::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::Int16 => KeyValue::Int(array.as_primitive::<Int16Type>().value(row).into()),
        _ => KeyValue::Int(array.as_primitive::<Int64Type>().value(row)),
    }
}

fn values(array: &ArrayRef) -> Vec<ColumnValue> {
    let value = |row| match array.data_type() {
        _ if array.is_null(row) => ColumnValue::Null,
        DataType::Int64 => ColumnValue::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Timestamp(..) => {
            ColumnValue::Int(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Float64 => ColumnValue::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Binary => ColumnValue::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        // A key column, which `key_value` reads.
        _ => ColumnValue::Null,
    };
    (0..array.len()).map(value).collect()
}
