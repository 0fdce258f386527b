//! A store that does nothing by itself, and the costs of its work on request.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use storage::{Batch, CompactReport, Config, Options, Store, WriteConcern};

use crate::counted::{CountedFs, Counts, Kind};
use crate::cpu;
use crate::metered::{Metered, Rolled};

/// Costs of some work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) cpu_ns: u64,
    pub(crate) seconds: f64,
    pub(crate) rolled: Rolled,
    pub(crate) tiles: Counts,
    pub(crate) parts: Counts,
    /// Counts of the manifest, a file for each edit.
    pub(crate) manifest: Counts,
    /// Cells that compaction read.
    pub(crate) merged_cells: u64,
    /// Cells that compaction wrote.
    pub(crate) merged_into_cells: u64,
}

impl Cost {
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1e3
    }

    /// Returns the CPU time of the cascade and the writing of tiles, microseconds.
    pub(crate) fn tiles_us(&self) -> f64 {
        self.rolled.tiles_ns as f64 / 1e3
    }

    pub(crate) fn manifest_bytes_per_edit(&self) -> f64 {
        self.manifest.written as f64 / self.manifest.files.max(1) as f64
    }

    fn merged(mut self, report: CompactReport) -> Self {
        self.merged_cells = report.cells_read;
        self.merged_into_cells = report.cells_written;
        self
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.seconds += other.seconds;
        self.rolled += other.rolled;
        self.tiles += other.tiles;
        self.parts += other.parts;
        self.manifest += other.manifest;
        self.merged_cells += other.merged_cells;
        self.merged_into_cells += other.merged_into_cells;
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, cost| {
            sum += cost;
            sum
        })
    }
}

/// One seal and the compaction after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Step {
    pub(crate) events: u64,
    pub(crate) seal: Cost,
    pub(crate) compaction: Cost,
}

impl std::iter::Sum for Step {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, step| {
            sum.events += step.events;
            sum.seal += step.seal;
            sum.compaction += step.compaction;
            sum
        })
    }
}

/// A store with its accounts.
pub(crate) struct Accounted {
    pub(crate) store: Store,
    disk: CountedFs,
    rollup_hook: Arc<Metered>,
}

impl Accounted {
    /// Opens a store, or makes it.
    pub(crate) fn open(data: &Path) -> Self {
        let disk = CountedFs::default();
        let rollup_hook = Arc::new(Metered::default());
        let config = Config {
            lag_us: i64::MAX / 2,
            memtable_bytes_max: 8 << 30,
            tends: false,
            ..Config::default()
        };
        let options = Options {
            fs: Arc::new(disk.clone()),
            rollup_hook: Arc::clone(&rollup_hook) as _,
            config,
            ..Options::default()
        };
        Self {
            store: Store::open(data, options).expect("a store"),
            disk,
            rollup_hook,
        }
    }

    /// Writes batches, each acknowledged before the next.
    pub(crate) fn write(&self, batches: Vec<Batch>) {
        for batch in batches {
            let ack = self.store.write(batch, WriteConcern::ACKNOWLEDGED);
            ack.expect("acknowledged");
        }
    }

    /// Runs some work and returns its cost.
    pub(crate) fn cost<T>(&self, work: impl FnOnce(&Store) -> T) -> (T, Cost) {
        let counts = || [Kind::Tile, Kind::Part, Kind::Manifest].map(|k| self.disk.counts(k));
        let (rolled, before) = (self.rollup_hook.rolled(), counts());
        let (cpu_ns, began) = (cpu::process_ns(), Instant::now());
        let done = work(&self.store);
        let seconds = began.elapsed().as_secs_f64();
        let cpu_ns = cpu::process_ns() - cpu_ns;
        let after = counts();
        let [tiles, parts, manifest] = [0, 1, 2].map(|nth| after[nth] - before[nth]);
        let cost = Cost {
            cpu_ns,
            seconds,
            rolled: self.rollup_hook.rolled() - rolled,
            tiles,
            parts,
            manifest,
            ..Cost::default()
        };
        (done, cost)
    }

    /// Merges what the store would merge by itself now, or, if `quiet`, all of it as if no events
    /// were to come.
    pub(crate) fn compact(&self, quiet: bool) -> Cost {
        let (report, cost) = self.cost(|store| store.compact_tiles(quiet));
        cost.merged(report.expect("compacted"))
    }

    /// Writes, then seals.
    pub(crate) fn seal(&self, batches: Vec<Batch>) -> Step {
        self.write(batches);
        let (report, seal) = self.cost(Store::seal);
        Step {
            events: report.expect("sealed").events,
            seal,
            compaction: Cost::default(),
        }
    }

    /// Writes, then seals, then compacts.
    pub(crate) fn step(&self, batches: Vec<Batch>) -> Step {
        let mut step = self.seal(batches);
        step.compaction = self.compact(false);
        step
    }
}
