//! A real store of some events: its streams, rollups and definitions are those of every shard.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aggregator::{Cascade, CascadeConfig};
use storage::{
    Batch, Config, Manifest, Name, Options, ReadOnlyStore, RealFs, Snapshot, Store, WriteConcern,
};
use tempfile::TempDir;

use crate::common::events;

/// Events of a batch.
pub(crate) const BATCH: usize = 1000;
/// Batches that there are.
pub(crate) const BATCHES: usize = 24;

/// Events, and the manifest of a store of the first of them.
pub(crate) struct Base {
    pub(crate) batches: Vec<Batch>,
    pub(crate) manifest: Manifest,
    dir: PathBuf,
}

/// Returns the options of a store that seals and compacts on request only.
pub(crate) fn options() -> Options {
    Options {
        rollup_hook: Arc::new(cascade()),
        config: Config {
            lag_us: i64::MAX / 2,
            memtable_bytes_max: 1 << 30,
            tends: false,
            keeps_log: false,
            ..Config::default()
        },
        ..Options::default()
    }
}

/// Returns the two default rollups of an access log.
pub(crate) fn cascade() -> Cascade {
    Cascade::new(CascadeConfig::default()).expect("the defaults are right")
}

/// Returns the name of the stream.
pub(crate) fn stream() -> Name {
    Name::new(events::STREAM).expect("a good name")
}

/// Returns the sealed state of the store in a directory.
pub(crate) fn snapshot(data: &Path) -> Arc<Snapshot> {
    let store = ReadOnlyStore::open(Arc::new(RealFs), data).expect("a store");
    store.snapshot()
}

impl Base {
    /// Makes the events; stores are made in `dir` and removed again.
    pub(crate) fn new(dir: &Path) -> Self {
        let lines = events::lines(Path::new(crate::LOGMILL), BATCH * BATCHES);
        let batches = events::batches(&lines, BATCH);
        let data = tempfile::tempdir_in(dir).expect("a directory");
        fill(data.path(), &batches[0]);
        Self {
            manifest: (**snapshot(data.path()).manifest()).clone(),
            batches,
            dir: dir.into(),
        }
    }

    /// Makes the store again, in a directory of its own.
    pub(crate) fn store(&self) -> TempDir {
        let data = self.empty();
        fill(data.path(), &self.batches[0]);
        data
    }

    /// Makes a directory without a store.
    pub(crate) fn empty(&self) -> TempDir {
        tempfile::tempdir_in(&self.dir).expect("a directory")
    }
}

/// Makes a store of one batch, sealed and closed.
fn fill(data: &Path, batch: &Batch) {
    let store = Store::open(data, options()).expect("a store");
    let ack = store.write(batch.clone(), WriteConcern::ACKNOWLEDGED);
    ack.expect("acknowledged");
    store.seal().expect("sealed");
    store.close().expect("closed");
}
