//! The requests of a small real store with an object store in memory: a seal, the compaction after
//! it, and the deletions. Their number depends on the files of a seal, not on their size.

use std::sync::Arc;

use storage::{Batch, Config, Depot, Options, Store, WriteConcern, writer_address};

use super::base::{BATCH, Base, options};
use super::memory_depot::{MemoryDepot, Requests};

/// Seals before the first that counts.
const WARM: usize = 4;
/// Level of zstd's compression of a message: its default.
const ZSTD_LEVEL: i32 = 3;

/// Requests for one seal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PerSeal {
    pub(crate) puts: f64,
    pub(crate) gets: f64,
    pub(crate) lists: f64,
    pub(crate) deletes: f64,
    pub(crate) commits: f64,
}

impl PerSeal {
    fn of(all: &[Requests]) -> Self {
        let mean =
            |of: fn(&Requests) -> u64| all.iter().map(of).sum::<u64>() as f64 / all.len() as f64;
        Self {
            puts: mean(|r| r.puts),
            gets: mean(|r| r.gets),
            lists: mean(|r| r.lists),
            deletes: mean(|r| r.deletes),
            commits: mean(|r| r.commits),
        }
    }
}

/// Figures of the small store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    pub(crate) seal: PerSeal,
    pub(crate) compaction: PerSeal,
    pub(crate) tending: PerSeal,
    /// Gets of a node that looks for the server of a shard.
    pub(crate) look_gets: f64,
    /// Gets of a reader that sees a new version.
    pub(crate) version_gets: f64,
    /// Bytes of an event in memory until it is sealed.
    pub(crate) memtable_bytes: f64,
    /// Bytes of an event in a message of the journal, and compressed there.
    pub(crate) record_bytes: f64,
    pub(crate) message_bytes: f64,
}

impl Trial {
    /// Returns the rows that a shard seals at once, at a rate: those of the longest wait, or those
    /// for which the memtable has room.
    pub(crate) fn rows_per_seal(&self, events_per_second: f64) -> f64 {
        let config = Config::default();
        let room = config.memtable_bytes_max as f64 / self.memtable_bytes;
        room.min(events_per_second * config.lag_us as f64 / 1e6)
    }

    /// Returns all requests for one seal.
    pub(crate) fn all(&self) -> PerSeal {
        let sum =
            |of: fn(&PerSeal) -> f64| of(&self.seal) + of(&self.compaction) + of(&self.tending);
        PerSeal {
            puts: sum(|r| r.puts),
            gets: sum(|r| r.gets),
            lists: sum(|r| r.lists),
            deletes: sum(|r| r.deletes),
            commits: sum(|r| r.commits),
        }
    }

    pub(crate) fn run(base: &Base) -> Self {
        let depot = Arc::new(MemoryDepot::default());
        let data = base.empty();
        let store = Store::open(data.path(), with(&depot)).expect("a store");
        let mut steps: [Vec<Requests>; 3] = Default::default();
        let mut memtable_bytes = 0.0;
        for batch in &base.batches {
            let ack = store.write(batch.clone(), WriteConcern::ACKNOWLEDGED);
            ack.expect("acknowledged");
            memtable_bytes = store.status().memtable_bytes as f64 / BATCH as f64;
            let done = step(&store, &depot);
            steps.iter_mut().zip(done).for_each(|(of, it)| of.push(it));
        }
        let [seal, compaction, tending] = steps.map(|of| PerSeal::of(&of[WARM..]));
        let (look_gets, version_gets) = looks(base, &depot);
        store.close().expect("closed");
        let (record_bytes, message_bytes) = message(&base.batches[0]);
        Self {
            seal,
            compaction,
            tending,
            look_gets,
            version_gets,
            memtable_bytes,
            record_bytes,
            message_bytes,
        }
    }
}

/// Returns options with the object store, which deletes at once.
fn with(depot: &Arc<MemoryDepot>) -> Options {
    let options = options();
    Options {
        depot: Some(Arc::clone(depot) as Arc<dyn Depot>),
        config: Config {
            grace_us: 0,
            ..options.config.clone()
        },
        ..options
    }
}

/// Seals, compacts and deletes; returns the requests of each.
fn step(store: &Store, depot: &MemoryDepot) -> [Requests; 3] {
    let start = depot.counted();
    store.seal().expect("sealed");
    let sealed = depot.counted();
    store.compact_tiles(false).expect("compacted");
    store.compact_parts(None, false).expect("compacted");
    let compacted = depot.counted();
    store.tend_objects().expect("tended");
    let tended = depot.counted();
    [sealed - start, compacted - sealed, tended - compacted]
}

/// Returns the gets of a look at `CURRENT`, and of a reader that has seen another version there.
fn looks(base: &Base, depot: &Arc<MemoryDepot>) -> (f64, f64) {
    let start = depot.counted();
    let _address = writer_address(&**depot).expect("read");
    let looked = depot.counted();
    let data = base.empty();
    let reader = Store::open_reader(data.path(), with(depot)).expect("a reader");
    let opened = depot.counted();
    drop(reader);
    let gets = |r: Requests| r.gets as f64;
    (gets(looked - start), gets(opened - looked))
}

/// Returns the bytes of an event in a message of the journal, and the same compressed.
fn message(batch: &Batch) -> (f64, f64) {
    let bytes = batch.clone().encode().expect("a batch");
    let packed = zstd::bulk::compress(&bytes, ZSTD_LEVEL).expect("compressed in memory");
    let events = BATCH as f64;
    (bytes.len() as f64 / events, packed.len() as f64 / events)
}
