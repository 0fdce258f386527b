//! The environment: clock and file system.
//!
//! All calls of storage to the machine go through [`Clock`] and [`Fs`], so that a test can stop
//! time or cut the power. The contract of [`Fs`] is the weakest that a journalling file system
//! has: unsynced data may be lost, torn or reordered, and a name may be lost whose directory was
//! not synced.

mod descriptors;
mod freeing;
mod uncached;

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use uncached::Uncached;

/// Attempts to open a file when no descriptor is left, one second in all. A failure is harmless,
/// since nothing has changed before.
const OPEN_TRIES: usize = 100;
/// Attempts to open a directory that is to be synced, one minute in all. They last longer because
/// the files in the directory exist by then, and a sync that cannot be made ends the writer.
const SYNC_TRIES: usize = 6000;
/// Permissions of a new file.
const MODE: u32 = 0o666;
/// The same of a file that only its owner may read.
const PRIVATE_MODE: u32 = 0o600;

/// Wall-clock time, and time that elapsed.
pub trait Clock: Send + Sync + Debug {
    /// Microseconds since 1970-01-01T00:00:00Z.
    fn now_us(&self) -> i64;
    /// Microseconds since some moment of this process. They pass evenly when the clock is set.
    fn elapsed_us(&self) -> i64;
}

/// The machine's own clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        }
    }
    fn elapsed_us(&self) -> i64 {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        i64::try_from(START.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

/// A clock that a test moves by hand.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_us: AtomicI64,
    elapsed_us: AtomicI64,
}

impl ManualClock {
    /// Returns a clock that stands at `now_us`, microseconds since 1970.
    pub fn at(now_us: i64) -> Self {
        Self {
            now_us: AtomicI64::new(now_us),
            elapsed_us: AtomicI64::new(0),
        }
    }

    /// Lets `us` microseconds pass.
    pub fn advance(&self, us: i64) {
        self.elapsed_us.fetch_add(us, Ordering::SeqCst);
        self.jump(us);
    }

    /// Sets the clock forward by `us` microseconds, or back; no time passes.
    pub fn jump(&self, us: i64) {
        self.now_us.fetch_add(us, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> i64 {
        self.now_us.load(Ordering::SeqCst)
    }
    fn elapsed_us(&self) -> i64 {
        self.elapsed_us.load(Ordering::SeqCst)
    }
}

/// True in a process that serves no clients.
static SERVES_NO_CLIENTS: AtomicBool = AtomicBool::new(false);

/// Declares that this process serves no clients: it runs a command, and its user waits for all of
/// its work. From now on background work keeps its priority, and large journal writes bypass the
/// page cache, at the speed of the disk.
pub fn serve_nobody() {
    SERVES_NO_CLIENTS.store(true, Ordering::SeqCst);
}

/// Lowers the priority of the calling thread, and of the threads that it starts, for background
/// work: other threads get the processor first. `by` is a step of `nice`, 1 to 19.
pub fn step_back(by: i32) {
    if SERVES_NO_CLIENTS.load(Ordering::SeqCst) {
        return;
    }
    // On Linux a priority belongs to a thread. A thread that cannot lower it works all the same.
    if let Err(error) = rustix::process::setpriority_process(None, by) {
        tracing::debug!(%error, "could not lower the priority of a background thread");
    }
}

/// A thread of this process, by the kernel's thread id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(rustix::thread::Pid);

impl ThreadId {
    /// Returns the id of the calling thread.
    pub fn own() -> Self {
        Self(rustix::thread::gettid())
    }

    /// Returns the bytes of memory that the kernel has mapped for this thread page by page on
    /// first touch (minor faults); 0 for a thread that has ended.
    pub fn faulted_bytes(self) -> u64 {
        let path = format!("/proc/self/task/{}/stat", self.0.as_raw_nonzero());
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        // The thread's name may hold spaces; minor faults are the eighth field after it.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let faults = fields.split_ascii_whitespace().nth(7);
        let faults = faults.and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        faults * *PAGE_BYTES
    }

    /// Lowers the priority of this thread, as [`step_back`]; no effect on one that has ended.
    pub fn step_back(self, by: i32) {
        if let Err(error) = rustix::process::setpriority_process(Some(self.0), by) {
            tracing::debug!(%error, "could not lower the priority of a background thread");
        }
    }
}

/// Bytes of a page, the unit of the kernel's memory counts. Every program finds them in its
/// auxiliary vector.
static PAGE_BYTES: LazyLock<u64> = LazyLock::new(|| {
    const AT_PAGESZ: usize = 6;
    const WORD: usize = size_of::<usize>();
    let auxv = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().expect("BUG: a word"));
    let mut pairs = auxv.chunks_exact(2 * WORD);
    let page = pairs.find(|pair| word(&pair[..WORD]) == AT_PAGESZ);
    page.map_or(4096, |pair| word(&pair[WORD..]) as u64)
});

/// Returns the memory that this process holds by the kernel's count, in bytes; 0 when unknown.
pub fn resident_bytes() -> u64 {
    resident_and_of_files().0
}

/// Returns the memory that this process holds and that belongs to no file, in bytes; 0 when
/// unknown. The pages of the program itself do not count: the kernel reads them when they are
/// needed, and may drop them at any time.
pub fn anonymous_bytes() -> u64 {
    let (resident, of_files) = resident_and_of_files();
    resident.saturating_sub(of_files)
}

/// Returns the bytes that are resident, and those of them that belong to files.
fn resident_and_of_files() -> (u64, u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = statm.split(' ').skip(1);
    let mut bytes = || {
        let pages = pages.next().and_then(|field| field.parse::<u64>().ok());
        pages.unwrap_or(0) * *PAGE_BYTES
    };
    (bytes(), bytes())
}

/// Returns the name of this machine, for messages.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "an unnamed machine".into(),
        name => name.into(),
    }
}

/// Returns freed memory to the kernel. The C library keeps much of it for later allocations, in
/// one arena per thread. A call takes milliseconds for some hundred megabytes.
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "nothing else reaches it")]
    // SAFETY: `malloc_trim` takes any number, locks the arenas, and changes free memory alone.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Runs background work on a thread of its own with lower priority (see [`step_back`]), and
/// returns its output. The caller keeps its priority: a thread that holds a lock for which others
/// wait must not wait for the processor.
pub(crate) fn aside<T: Send>(by: i32, name: &str, work: impl FnOnce() -> T + Send) -> T {
    let work = Mutex::new(Some(work));
    let run = || {
        let work = work.lock().take().expect("BUG: the work is done once");
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.into());
        let started = thread.spawn_scoped(scope, || {
            step_back(by);
            run()
        });
        match started.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(output)) => output,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // When no thread can be started the work runs here.
            Err(_) => run(),
        }
    })
}

/// An open file. All offsets and lengths are in bytes.
pub trait FsFile: Send + Sync + Debug {
    /// Writes the whole of `data` at `offset`. The data is durable only after
    /// [`FsFile::sync_data`].
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()>;
    /// Fills `into` from `offset`; an error when the file ends before that.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
    /// Makes content and length durable. After an error the state of all data written since the
    /// last success is unknown: the caller must not try again.
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Allocates disk space for `len` bytes of an empty file, which are zeros then.
    fn allocate(&self, len: u64) -> io::Result<()> {
        write_zeros(self, len)
    }
    /// Returns the file's length.
    fn len(&self) -> io::Result<u64>;
    /// Checks whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

fn write_zeros(file: &(impl FsFile + ?Sized), len: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 16];
    let mut at = 0;
    while at < len {
        let piece = usize::try_from(len - at).map_or(zeros.len(), |left| left.min(zeros.len()));
        file.write_all_at(&zeros[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}

/// Disk space, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that may still be written.
    pub free: u64,
    /// Bytes of the whole disk.
    pub total: u64,
}

/// A lock that is released when it is dropped.
pub trait Guard: Send + Sync + Debug {
    /// Returns true while the file that was locked is still at its path. Once it was removed or
    /// replaced, another process can lock the file that is there now.
    fn is_in_place(&self) -> io::Result<bool>;
}

/// A file system.
pub trait Fs: Send + Sync + Debug {
    /// Creates a directory and its parents; no error when it exists. The names are durable only
    /// after [`Fs::sync_dir`] on each parent.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Creates a file for reading and writing; an error when it exists.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// As [`Fs::create_new`], for a file that only its owner may read.
    fn create_private(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.create_new(path)
    }
    /// As [`Fs::create_new`], for a file that is read only after a crash.
    fn create_log(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.create_new(path)
    }
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Opens a file for reading.
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>>;
    /// Renames within one directory tree and replaces the file at `to`. A rename between two
    /// directories is one change too, durable once either is synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// As [`Fs::rename`] when there is nothing at `to`; otherwise
    /// [`io::ErrorKind::AlreadyExists`], and nothing has changed.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.exists(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }
    /// Links a file to a second name, at which there must be nothing. The file must not be written
    /// any more. The name is durable only after [`Fs::sync_dir`] on its directory.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns the names in a directory, unsorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Checks whether there is something at this path.
    fn exists(&self, path: &Path) -> bool;
    /// Checks whether there is a directory at this path.
    fn is_dir(&self, path: &Path) -> bool;
    /// Takes the exclusive lock of a file and creates it if necessary; `None` when another
    /// process holds the lock.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>>;
    /// Takes the exclusive lock of a directory, as [`Fs::try_lock`] takes that of a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where directories cannot be locked.
    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the path of something that exists, without links and dots.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.into())
    }

    /// Returns the space of the disk that holds this path.
    fn space(&self, path: &Path) -> io::Result<Space>;

    /// Reads the whole file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open_read(path)?;
        let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }
}

/// The machine's own file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealFs;

#[derive(Debug)]
struct RealFile(File);

impl RealFile {
    /// Creates a file; `mode` has its permissions, from which the process's mask is taken.
    fn create_new(path: &Path, mode: u32) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        descriptors::open(OPEN_TRIES, || options.open(path)).map(Self)
    }
}

/// A locked file. The kernel releases the lock when the file is closed.
#[derive(Debug)]
struct RealGuard {
    file: File,
    path: PathBuf,
}

impl RealGuard {
    /// Locks an open file, unless another process has locked it.
    fn take(file: File, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(Self {
                file,
                path: path.into(),
            }))),
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl Guard for RealGuard {
    fn is_in_place(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl FsFile for RealFile {
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        use rustix::io::Errno;
        match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => write_zeros(self, len),
            other => Ok(other?),
        }
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

impl Fs for RealFs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(RealFile::create_new(path, MODE)?))
    }
    fn create_private(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(RealFile::create_new(path, PRIVATE_MODE)?))
    }
    fn create_log(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let file = RealFile::create_new(path, MODE)?;
        Ok(match SERVES_NO_CLIENTS.load(Ordering::SeqCst) {
            true => Box::new(Uncached::of(file, path)),
            false => Box::new(file),
        })
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(RealFile(
            OpenOptions::new().read(true).write(true).open(path)?,
        )))
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(RealFile(File::open(path)?)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // This file system or kernel cannot check and rename in one call.
            Err(Errno::INVAL | Errno::NOSYS) if to.exists() => {
                Err(io::ErrorKind::AlreadyExists.into())
            }
            Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(from, to),
            other => Ok(other?),
        }
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        freeing::remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        descriptors::open(SYNC_TRIES, || File::open(path))?.sync_all()
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        let disk = rustix::fs::statvfs(path)?;
        Ok(Space {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            total: disk.f_blocks.saturating_mul(disk.f_frsize),
        })
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        descriptors::keep_some_back();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        RealGuard::take(file, path)
    }
    fn try_lock_dir(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        RealGuard::take(File::open(path)?, path)
    }
}

/// Adds the operation and the path to an I/O error.
pub(crate) trait IoContext<T> {
    fn at(self, op: &'static str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, op: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io {
            op,
            path: PathBuf::from(path),
            source,
        })
    }
}
