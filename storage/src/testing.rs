//! Helpers that the tests of this crate share: a disk that fails on request, and batches.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use parking_lot::{Condvar, Mutex};

use crate::env::{Fs, FsFile, Guard, ManualClock, RealFs, Space};
use crate::model::{
    Batch, Column, ColumnType, Identity, Name, Quarantined, StreamKind, TIME, arrow_schema,
};
use crate::store::Options;

/// Calls that can be made to fail, and that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Create,
    Link,
    Write,
    Sync,
    SyncDir,
    Rename,
    Remove,
}

#[derive(Debug)]
struct Fault {
    op: Op,
    path_part: String,
    error: Failing,
    times: usize,
}

/// Error of a fault: a kind, or a system error number for which Rust has no kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failing {
    Kind(ErrorKind),
    Number(rustix::io::Errno),
}

impl From<ErrorKind> for Failing {
    fn from(kind: ErrorKind) -> Self {
        Self::Kind(kind)
    }
}

impl From<rustix::io::Errno> for Failing {
    fn from(number: rustix::io::Errno) -> Self {
        Self::Number(number)
    }
}

/// An action that runs once, just before a call.
struct Hook(Op, String, Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "before {:?} of {}", self.0, self.1)
    }
}

#[derive(Debug, Default)]
struct Script {
    hook: Option<Hook>,
    faults: Vec<Fault>,
    calls: Vec<(Op, PathBuf)>,
    /// Syncs of files with this text in their path wait until it is removed.
    held: Option<String>,
    waiting: usize,
}

/// The machine's disk, with faults. Syncs are recorded but not executed: no test here cuts the
/// power.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultFs {
    script: Arc<(Mutex<Script>, Condvar)>,
}

impl FaultFs {
    /// Makes the next `times` calls of `op` on a path with `path_part` in it fail.
    pub(crate) fn fail(&self, op: Op, path_part: &str, error: impl Into<Failing>, times: usize) {
        let (path_part, error) = (path_part.to_owned(), error.into());
        self.script.0.lock().faults.push(Fault {
            op,
            path_part,
            error,
            times,
        });
    }

    /// Runs `act` just before the next call of `op` on a path with `path_part` in it.
    pub(crate) fn before(&self, op: Op, path_part: &str, act: impl FnOnce() + Send + 'static) {
        self.script.0.lock().hook = Some(Hook(op, path_part.to_owned(), Box::new(act)));
    }

    /// Removes all faults.
    pub(crate) fn mend(&self) {
        self.script.0.lock().faults.clear();
    }

    /// Returns the calls since the last time this was called, in order.
    pub(crate) fn calls(&self) -> Vec<(Op, PathBuf)> {
        std::mem::take(&mut self.script.0.lock().calls)
    }

    /// Makes syncs wait until [`FaultFs::release`].
    pub(crate) fn hold_syncs(&self, path_part: &str) {
        self.script.0.lock().held = Some(path_part.to_owned());
    }

    /// Blocks until a sync waits.
    pub(crate) fn wait_for_held(&self) {
        let mut script = self.script.0.lock();
        while script.waiting == 0 {
            self.script.1.wait(&mut script);
        }
    }

    pub(crate) fn release(&self) {
        self.script.0.lock().held = None;
        self.script.1.notify_all();
    }

    fn called(&self, op: Op, path: &Path) -> io::Result<()> {
        let name = path.to_string_lossy();
        let now = |h: &mut Hook| h.0 == op && name.contains(h.1.as_str());
        let hook = self.script.0.lock().hook.take_if(now);
        if let Some(Hook(_, _, act)) = hook {
            act();
        }
        let mut script = self.script.0.lock();
        script.calls.push((op, path.into()));
        let fits =
            |f: &&mut Fault| f.op == op && f.times > 0 && name.contains(f.path_part.as_str());
        match script.faults.iter_mut().find(fits) {
            Some(fault) => {
                fault.times -= 1;
                Err(match fault.error {
                    Failing::Kind(kind) => kind.into(),
                    Failing::Number(number) => number.into(),
                })
            }
            None => Ok(()),
        }
    }

    fn file(&self, inner: Box<dyn FsFile>, path: &Path) -> Box<dyn FsFile> {
        Box::new(FaultFile {
            inner,
            path: path.into(),
            fs: self.clone(),
        })
    }
}

#[derive(Debug)]
struct FaultFile {
    inner: Box<dyn FsFile>,
    path: PathBuf,
    fs: FaultFs,
}

impl FsFile for FaultFile {
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if let Err(e) = self.fs.called(Op::Write, &self.path) {
            // Write half of the bytes, as a full disk does.
            self.inner.write_all_at(&data[..data.len() / 2], offset)?;
            return Err(e);
        }
        self.inner.write_all_at(data, offset)
    }
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.fs.called(Op::Sync, &self.path)?;
        let (script, changed) = &*self.fs.script;
        let mut script = script.lock();
        let name = self.path.to_string_lossy();
        while script
            .held
            .as_ref()
            .is_some_and(|h| name.contains(h.as_str()))
        {
            script.waiting += 1;
            changed.notify_all();
            changed.wait(&mut script);
            script.waiting -= 1;
        }
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

impl Fs for FaultFs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFs.create_dir_all(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.called(Op::Create, path)?;
        Ok(self.file(RealFs.create_new(path)?, path))
    }
    fn create_private(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.called(Op::Create, path)?;
        Ok(self.file(RealFs.create_private(path)?, path))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(self.file(RealFs.open(path)?, path))
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        RealFs.open_read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.called(Op::Rename, to)?;
        RealFs.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.called(Op::Link, to)?;
        RealFs.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.called(Op::Remove, path)?;
        RealFs.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealFs.remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.called(Op::SyncDir, path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        RealFs.list(path)
    }
    fn exists(&self, path: &Path) -> bool {
        RealFs.exists(path)
    }
    fn is_dir(&self, path: &Path) -> bool {
        RealFs.is_dir(path)
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        RealFs.resolve(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        RealFs.space(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        RealFs.try_lock(path)
    }
    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        RealFs.try_lock_dir(path)
    }
}

/// Arrival time of the batches of [`batch`], microseconds since 1970.
pub(crate) const RECEIVED_US: i64 = 1_000_000;

/// Returns options for a store on `fs` that does no work on its own except the journal's sync:
/// its clock stands.
pub(crate) fn options(fs: &FaultFs) -> Options {
    Options {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(RECEIVED_US)),
        ..Options::default()
    }
}

/// Returns a batch for the stream `events` with a row for each time and quarantined items of
/// these ranks.
pub(crate) fn batch(times: &[i64], bad: &[u32], identity: Option<Identity>) -> Batch {
    let columns = [
        Column::new(TIME, ColumnType::Time),
        Column::new("host", ColumnType::Text),
        Column::new("n", ColumnType::Int64),
    ];
    let hosts = times
        .iter()
        .map(|t| (t % 3 != 0).then(|| format!("host{}", t % 7)));
    let events = RecordBatch::try_new(
        arrow_schema(&columns),
        vec![
            Arc::new(TimestampMicrosecondArray::from(times.to_vec()).with_timezone("UTC")),
            Arc::new(StringArray::from_iter(hosts)),
            Arc::new(Int64Array::from_iter_values(times.iter().copied())),
        ],
    )
    .expect("columns fit");
    let quarantine = bad
        .iter()
        .map(|rank| Quarantined {
            rank: *rank,
            index: u64::from(*rank),
            reason: "bad",
            detail: "no".into(),
            line: 1,
            byte: 0,
            raw: b"\xff\0raw".to_vec(),
            event: None,
        })
        .collect();
    Batch {
        stream: Name::new("events").expect("a name"),
        kind: StreamKind::Documents,
        received_us: RECEIVED_US,
        source: "test".into(),
        events,
        quarantine,
        identity,
    }
}
