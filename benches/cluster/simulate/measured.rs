//! The cost of a manifest, measured with the store itself and the plans of the engine.

use std::path::Path;
use std::time::Instant;

use storage::{Manifest, Name, Retention, Store, give_back_memory, resident_bytes};

use super::base::{self, Base};
use super::cpu;
use super::merges::Merges;
use super::planning::{Planned, plan};
use super::shape::Shape;
use super::synthetic;

/// Runs of which the least counts: other work on the machine only adds.
const RUNS: i64 = 2;
const MS_NS: f64 = 1e6;

/// Figures of the manifest of one shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// The days asked for, by those of the manifest.
    pub(crate) scale: f64,
    pub(crate) parts: f64,
    pub(crate) tile_files: f64,
    pub(crate) part_bytes: f64,
    pub(crate) tile_bytes: f64,
    pub(crate) checksums: f64,
    pub(crate) json_bytes: f64,
    /// Bytes of each version, and so of each commit.
    pub(crate) commit_bytes: f64,
    /// CPU.
    pub(crate) encode_ms: f64,
    /// CPU, with all checks.
    pub(crate) decode_ms: f64,
    /// CPU of a whole edit of a store on a disk.
    pub(crate) commit_ms: f64,
    /// The same by the clock on the wall.
    pub(crate) commit_wall_ms: f64,
    /// Opening the store to read it, by the clock on the wall.
    pub(crate) open_ms: f64,
    /// Memory of the manifest when it is read.
    pub(crate) memory_bytes: f64,
    pub(crate) planned: Planned,
}

impl Measured {
    /// Returns the figures for so many times as many days.
    pub(crate) fn scaled(self, by: f64) -> Self {
        Self {
            scale: by,
            parts: self.parts * by,
            tile_files: self.tile_files * by,
            part_bytes: self.part_bytes * by,
            tile_bytes: self.tile_bytes * by,
            checksums: self.checksums * by,
            json_bytes: self.json_bytes * by,
            commit_bytes: self.commit_bytes * by,
            encode_ms: self.encode_ms * by,
            decode_ms: self.decode_ms * by,
            commit_ms: self.commit_ms * by,
            commit_wall_ms: self.commit_wall_ms * by,
            open_ms: self.open_ms * by,
            memory_bytes: self.memory_bytes * by,
            planned: self.planned.scaled(by),
        }
    }
}

/// Makes the manifest of a shape and measures it.
pub(crate) fn measure(base: &Base, merges: &Merges, shape: &Shape) -> Measured {
    let data = base.store();
    let before = base::snapshot(data.path());
    let made = synthetic::manifest(before.manifest(), merges, shape);
    let (bytes, encode_ms) = least(|| made.to_bytes().expect("short enough"));
    let (_, decode_ms) = least(|| Manifest::from_bytes(&bytes).expect("sound"));
    let json = serde_json::to_vec(&made).expect("plain data");
    let mut measured = Measured {
        json_bytes: json.len() as f64,
        commit_bytes: bytes.len() as f64,
        encode_ms,
        decode_ms,
        ..counts(&made)
    };
    drop((json, made));
    measured.memory_bytes = memory(&bytes);
    std::fs::write(next_version(data.path()), &bytes).expect("written");
    drop(bytes);
    let began = Instant::now();
    let snapshot = base::snapshot(data.path());
    measured.open_ms = ms(began);
    measured.planned = plan(&before, &snapshot, shape);
    drop((before, snapshot));
    (measured.commit_ms, measured.commit_wall_ms) = commit(data.path());
    measured
}

fn counts(made: &Manifest) -> Measured {
    let parts = made.parts.iter().map(|part| &part.file);
    let tiles = made.tiles.iter().flat_map(|tile| &tile.files);
    let tiles = tiles.map(|tile| &tile.file);
    let checksums = made.files().map(|file| file.blocks.len());
    Measured {
        scale: 1.0,
        parts: made.parts.len() as f64,
        tile_files: tiles.clone().count() as f64,
        part_bytes: parts.map(|file| file.len as f64).sum(),
        tile_bytes: tiles.map(|file| file.len as f64).sum(),
        checksums: checksums.sum::<usize>() as f64,
        json_bytes: 0.0,
        commit_bytes: 0.0,
        encode_ms: 0.0,
        decode_ms: 0.0,
        commit_ms: 0.0,
        commit_wall_ms: 0.0,
        open_ms: 0.0,
        memory_bytes: 0.0,
        planned: Planned::default(),
    }
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

/// Returns the outcome of some work, and the CPU of its thread, ms.
fn cpu_ms<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = cpu::thread_ns();
    let done = work();
    (done, (cpu::thread_ns() - before) as f64 / MS_NS)
}

/// Returns the outcome of some work, and the least CPU of some runs, ms.
fn least<T>(mut work: impl FnMut() -> T) -> (T, f64) {
    let (mut done, mut least) = cpu_ms(&mut work);
    for _ in 1..RUNS {
        let (again, ms) = cpu_ms(&mut work);
        (done, least) = (again, least.min(ms));
    }
    (done, least)
}

/// Returns the memory that a read manifest takes.
fn memory(bytes: &[u8]) -> f64 {
    give_back_memory();
    let before = resident_bytes();
    let read = Manifest::from_bytes(bytes).expect("sound");
    give_back_memory();
    let after = resident_bytes();
    drop(read);
    after.saturating_sub(before) as f64
}

/// Returns the path of the version after the one in a directory.
fn next_version(data: &Path) -> std::path::PathBuf {
    let dir = data.join("manifest");
    let names = std::fs::read_dir(&dir).expect("a folder").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let versions =
        names.filter_map(|name| u64::from_str_radix(name.strip_suffix(".manifest")?, 16).ok());
    let next = versions.max().expect("a version") + 1;
    dir.join(format!("{next:016x}.manifest"))
}

/// Returns the least CPU and time of an edit that changes nothing but a limit, ms: the copy of the
/// manifest, its proof, its encoding, two durable files that are read back, and their names.
fn commit(data: &Path) -> (f64, f64) {
    let store = Store::open(data, base::options()).expect("a store");
    let other = Name::new("other").expect("a good name");
    let (mut cpu, mut wall) = (f64::INFINITY, f64::INFINITY);
    for age_us in 1..=RUNS {
        let began = Instant::now();
        let set = |_: Retention| Retention {
            age_us: Some(age_us),
            bytes: None,
        };
        let (done, cpu_ms) = cpu_ms(|| store.set_retention(&other, set));
        done.expect("committed");
        (cpu, wall) = (cpu.min(cpu_ms), wall.min(ms(began)));
    }
    (cpu, wall)
}
