//! The real disk, with bytes, writes and syncs of open files counted by the kind of file.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use storage::{Fs, FsFile, Guard, RealFs, Space};

/// Kind of a file, by the folder of the data directory in which it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Part,
    Tile,
    Manifest,
    Journal,
    Identity,
    Other,
}

impl Kind {
    fn of(path: &Path) -> Self {
        let names = path.iter().rev().filter_map(|name| name.to_str());
        let mut kinds = names.filter_map(|name| match name {
            "streams" => Some(Self::Part),
            "rollups" => Some(Self::Tile),
            "manifest" => Some(Self::Manifest),
            "journal" => Some(Self::Journal),
            "identities" => Some(Self::Identity),
            _ => None,
        });
        kinds.next().unwrap_or(Self::Other)
    }
}

#[derive(Debug, Default)]
struct Totals {
    read: AtomicU64,
    written: AtomicU64,
    writes: AtomicU64,
    files: AtomicU64,
    syncs: AtomicU64,
    sync_ns: AtomicU64,
}

impl Totals {
    fn counts(&self) -> Counts {
        Counts {
            read: self.read.load(Relaxed),
            written: self.written.load(Relaxed),
            writes: self.writes.load(Relaxed),
            files: self.files.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            sync_time: Duration::from_nanos(self.sync_ns.load(Relaxed)),
        }
    }
}

/// A disk that counts.
#[derive(Debug, Default, Clone)]
pub(crate) struct CountedFs(Arc<[Totals; 6]>);

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn FsFile>,
    kind: Kind,
    /// A file just written is read once more, to compare it: that does not count as reading the
    /// store.
    is_new: bool,
    disk: CountedFs,
}

/// Counts up to a moment, or between two.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Bytes.
    pub(crate) read: u64,
    /// Bytes.
    pub(crate) written: u64,
    /// Calls that wrote.
    pub(crate) writes: u64,
    /// Files made.
    pub(crate) files: u64,
    pub(crate) syncs: u64,
    pub(crate) sync_time: Duration,
}

impl std::ops::Sub for Counts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            read: self.read - earlier.read,
            written: self.written - earlier.written,
            writes: self.writes - earlier.writes,
            files: self.files - earlier.files,
            syncs: self.syncs - earlier.syncs,
            sync_time: self.sync_time - earlier.sync_time,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.written += other.written;
        self.writes += other.writes;
        self.files += other.files;
        self.syncs += other.syncs;
        self.sync_time += other.sync_time;
    }
}

impl CountedFs {
    fn totals(&self, kind: Kind) -> &Totals {
        &self.0[kind as usize]
    }

    pub(crate) fn counts(&self, kind: Kind) -> Counts {
        self.totals(kind).counts()
    }

    /// Returns the counts of all kinds of files together.
    pub(crate) fn all_counts(&self) -> Counts {
        let mut all = Counts::default();
        self.0.iter().for_each(|totals| all += totals.counts());
        all
    }

    fn count(&self, path: &Path, file: Box<dyn FsFile>) -> Box<dyn FsFile> {
        Box::new(CountedFile {
            file,
            kind: Kind::of(path),
            is_new: path.extension().is_some_and(|e| e == "tmp"),
            disk: self.clone(),
        })
    }
}

impl FsFile for CountedFile {
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let totals = self.disk.totals(self.kind);
        totals.written.fetch_add(data.len() as u64, Relaxed);
        totals.writes.fetch_add(1, Relaxed);
        self.file.write_all_at(data, offset)
    }
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        if !self.is_new {
            let read = &self.disk.totals(self.kind).read;
            read.fetch_add(into.len() as u64, Relaxed);
        }
        self.file.read_exact_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        let began = Instant::now();
        let outcome = self.file.sync_data();
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let totals = self.disk.totals(self.kind);
        totals.syncs.fetch_add(1, Relaxed);
        totals.sync_ns.fetch_add(ns, Relaxed);
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
        let files = &self.totals(Kind::of(path)).files;
        files.fetch_add(1, Relaxed);
        RealFs.create_new(path).map(|file| self.count(path, file))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        RealFs.open(path).map(|file| self.count(path, file))
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        RealFs.open_read(path).map(|file| self.count(path, file))
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
