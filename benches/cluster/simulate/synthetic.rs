//! The manifest of a shard with a long history, of the store's own types. The store checks all of
//! its invariants when it reads it.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use storage::{FileRef, Manifest, PartMeta, RollupMeta, partition_folder};

use super::base::{cascade, stream};
use super::levels::Tiling;
use super::merges::Merges;
use super::shape::{Shape, part_bytes};

/// Makes entries of files: names and checksums are as random as real ones.
pub(crate) struct Maker {
    random: SmallRng,
    epoch: u32,
    next_file: u64,
}

impl Maker {
    fn id(&mut self) -> (u64, String) {
        let number = self.next_file;
        self.next_file += 1;
        (number, format!("{:08x}-{number:016x}", self.epoch))
    }

    fn file(&mut self, path: String, len: u64) -> FileRef {
        let block_bytes = FileRef::block_bytes_of(len);
        let (blocks, block_bytes) = match len.div_ceil(block_bytes) {
            // A file of one block has no checksum beside its own, and counts as one of long ones.
            0 | 1 => (0, FileRef::block_bytes_of(u64::MAX)),
            blocks => (blocks, block_bytes),
        };
        FileRef {
            path,
            len,
            crc: self.random.random(),
            blocks: (0..blocks).map(|_| self.random.random()).collect(),
            block_bytes,
        }
    }

    /// Returns a new file of a tile.
    pub(crate) fn tile(&mut self, rollup: &str, len: u64) -> FileRef {
        let (_, id) = self.id();
        self.file(format!("rollups/{rollup}/{id}.tile"), len)
    }

    /// Returns the least and the greatest host of a part: all of them have nearly all hosts.
    fn hosts(&mut self) -> BTreeMap<String, (String, String)> {
        let mut host = |first: u8| {
            let [a, b, c]: [u8; 3] = self.random.random();
            format!("{first}.{a}.{b}.{c}")
        };
        BTreeMap::from([("host".to_owned(), (host(1), host(99)))])
    }

    /// Returns the parts of a shape. Merges join parts of one stretch of time, so each has a slice
    /// of its partition.
    fn parts(&mut self, shape: &Shape) -> Vec<PartMeta> {
        let mut parts = Vec::new();
        for (start, end, count) in shape.partitions() {
            let folder = partition_folder(shape.width, start);
            let count_i = i64::try_from(count).expect("BUG: fewer parts than microseconds");
            for nth in 0..count_i {
                let at = |nth: i64| start + (end - start) / count_i * nth;
                let until = if nth + 1 == count_i { end } else { at(nth + 1) };
                let (from_seq, to_seq) = (shape.events_before(at(nth)), shape.events_before(until));
                let (id, name) = self.id();
                let path = format!("streams/{}/{folder}/{name}.parquet", stream());
                parts.push(PartMeta {
                    id,
                    stream: stream(),
                    partition_us: start,
                    file: self.file(path, part_bytes(to_seq - from_seq)),
                    rows: to_seq - from_seq,
                    seq: (from_seq, to_seq - 1),
                    time: (at(nth), until - 1),
                    text_range: self.hosts(),
                });
            }
        }
        parts
    }
}

/// Returns the next version of a store's manifest, with the parts and tiles of a shape in place of
/// those of its stream.
pub(crate) fn manifest(base: &Manifest, merges: &Merges, shape: &Shape) -> Manifest {
    let mut next = base.clone();
    let mut maker = Maker {
        random: SmallRng::seed_from_u64(1),
        epoch: next.writer_epoch,
        next_file: next.next_file,
    };
    next.version += 1;
    next.pending.clear();
    next.parts.retain(|part| part.stream != stream());
    next.parts.extend(maker.parts(shape));
    let meta = next.streams.get_mut(&stream());
    let meta = meta.expect("the store has the stream");
    meta.partition = shape.width;
    meta.sealed_events = shape.events();
    (next.sealed_seq, next.next_seq) = (shape.events(), shape.events());
    let hook = cascade();
    let is_of = |rollup: &RollupMeta| rollup.stream == stream();
    let rollups: Vec<RollupMeta> = next.rollups.iter().filter(|r| is_of(r)).cloned().collect();
    for rollup in &rollups {
        let tiling = Tiling {
            hook: &hook,
            merges,
            shape,
            rollup,
        };
        let tile = tiling.tile(&mut maker);
        next.tiles.retain(|tile| tile.rollup != rollup.id);
        next.tiles.push(tile);
    }
    next.tiles.sort_by_key(|tile| tile.rollup);
    next.next_file = maker.next_file;
    next
}
