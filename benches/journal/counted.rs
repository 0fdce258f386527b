//! The real disk, with its syncs of open files counted and timed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use storage::{Fs, FsFile, Guard, RealFs, Space};

#[derive(Debug, Default)]
struct Totals {
    syncs: AtomicU64,
    sync_ns: AtomicU64,
    writes: AtomicU64,
}

/// A disk that counts.
#[derive(Debug, Default, Clone)]
pub(crate) struct CountedFs(Arc<Totals>);

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn FsFile>,
    totals: Arc<Totals>,
}

/// Counts up to a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) syncs: u64,
    pub(crate) sync_time: Duration,
    pub(crate) writes: u64,
}

impl CountedFs {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            syncs: self.0.syncs.load(Relaxed),
            sync_time: Duration::from_nanos(self.0.sync_ns.load(Relaxed)),
            writes: self.0.writes.load(Relaxed),
        }
    }

    fn count(&self, file: Box<dyn FsFile>) -> Box<dyn FsFile> {
        let totals = Arc::clone(&self.0);
        Box::new(CountedFile { file, totals })
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            syncs: self.syncs - earlier.syncs,
            sync_time: self.sync_time - earlier.sync_time,
            writes: self.writes - earlier.writes,
        }
    }
}

impl FsFile for CountedFile {
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.totals.writes.fetch_add(1, Relaxed);
        self.file.write_all_at(data, offset)
    }
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        let began = Instant::now();
        let outcome = self.file.sync_data();
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.totals.syncs.fetch_add(1, Relaxed);
        self.totals.sync_ns.fetch_add(ns, Relaxed);
        outcome
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Fs for CountedFs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dir_all(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        RealFs.create_new(path).map(|file| self.count(file))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        RealFs.open(path).map(|file| self.count(file))
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        RealFs.open_read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFs.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealFs.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.sync_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        RealFs.list(path)
    }
    fn is_dir(&self, path: &Path) -> bool {
        RealFs.is_dir(path)
    }
    fn exists(&self, path: &Path) -> bool {
        RealFs.exists(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        RealFs.space(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        RealFs.try_lock(path)
    }
}
