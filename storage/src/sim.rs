//! A simulated disk: what it has not synced it may lose, tear, zero or reorder when the power fails.
//!
//! Two layers. The *volatile* one is what a process reads: contents and names as last written. The
//! *durable* one is what was synced: contents by [`FsFile::sync_data`], names by [`Fs::sync_dir`] on
//! their directory. [`SimFs::kill`] ends the process and keeps the volatile layer; [`SimFs::crash`]
//! ends the power and makes of both layers one disk, as an [`Image`] says.
//!
//! # Invariants
//! 1. A sector of 512 bytes that no unsynced write has touched survives as it is. One that was
//!    touched may be as before, as written, zeros or garbage, the synced bytes in it included.
//! 2. Each unsynced change of a directory survives or not, independently of the others and of the
//!    file's contents. A rename is one change, durable once the directory of either name is synced.
//! 3. After a failed sync the contents stay readable and never become durable by a later sync: the
//!    kernel has marked the pages as clean.
//! 4. Every decision follows from the image's seed, the file's number and the sector's: the same
//!    calls and the same image give the same disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::env::{Fs, FsFile, Guard};

/// The unit in which a disk writes, bytes.
const SECTOR: usize = 512;

/// The kinds of calls that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Any of those below but reading.
    Any,
    /// Creating a file or a directory.
    Create,
    /// Writing, or setting the length.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Renaming.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// Reading.
    Read,
}

/// A call that fails.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Which kind of call.
    pub call: Call,
    /// How many such calls succeed before, from now on.
    pub after: u64,
    /// Whether all later ones fail too.
    pub forever: bool,
    /// What they fail with. A write that fails for want of room, or with
    /// [`ErrorKind::WriteZero`], has written half of its bytes.
    pub error: ErrorKind,
}

/// What a power cut leaves of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// Nothing: the durable layer alone.
    Nothing,
    /// Everything, as if it had been synced.
    Everything,
    /// All names and all lengths, but zeros where contents were not synced.
    Zeros,
    /// All contents, but no name whose directory was not synced.
    NoNames,
    /// All names, but no contents that were not synced.
    NoContents,
    /// A mixture, by this seed.
    Seed(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    File(u64),
    Directory,
}

/// One unsynced change of names, whole or not at all: what each of them is from then on.
#[derive(Debug, Clone)]
struct NameChange(Vec<(PathBuf, Option<Entry>)>);

impl NameChange {
    /// Whether one of the names lies in this directory.
    fn is_in(&self, directory: &Path) -> bool {
        self.0.iter().any(|(p, _)| p.parent() == Some(directory))
    }
}

#[derive(Debug, Clone, Default)]
struct Node {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors written since the last sync.
    dirty: BTreeSet<usize>,
    /// Sectors that a failed sync has dropped: they are read as written and never get durable.
    dropped: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
struct Disk {
    nodes: BTreeMap<u64, Node>,
    next_node: u64,
    names: BTreeMap<PathBuf, Entry>,
    durable_names: BTreeMap<PathBuf, Entry>,
    changes: Vec<NameChange>,
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    locks: BTreeSet<u64>,
    faults: Vec<Fault>,
    operations: u64,
    /// The operation before which everything stops.
    halt_at: Option<u64>,
    halted: bool,
    failed: bool,
    capacity: Option<u64>,
    /// Writes to paths with this in them wait.
    held: Option<String>,
    waiting: usize,
    log: Option<Vec<(Call, PathBuf)>>,
}

/// An in-memory disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimFs {
    shared: Arc<(Mutex<State>, Condvar)>,
}

/// A generator of pseudo-random numbers that gives the same for the same seed everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A number that follows from these three.
fn decide(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(mix(seed.wrapping_add(1)).wrapping_add(a)).wrapping_add(b.wrapping_mul(31)))
}

impl SimFs {
    /// An empty disk without limit.
    pub fn new() -> Self {
        Self::default()
    }

    fn of(disk: Disk) -> Self {
        let fs = Self::new();
        fs.shared.0.lock().disk = disk;
        fs
    }

    /// How many calls have changed or synced something, or have tried to.
    pub fn operations(&self) -> u64 {
        self.shared.0.lock().operations
    }

    /// Stops everything before the operation with this number, counted from 0: from then on each call
    /// fails and changes nothing, as for a process that is no more.
    pub fn halt_at(&self, operation: u64) {
        self.shared.0.lock().halt_at = Some(operation);
    }

    /// Whether everything has stopped.
    pub fn halted(&self) -> bool {
        self.shared.0.lock().halted
    }

    /// Makes a call fail.
    pub fn fail(&self, fault: Fault) {
        self.shared.0.lock().faults.push(fault);
    }

    /// Takes all faults back.
    pub fn mend(&self) {
        self.shared.0.lock().faults.clear();
    }

    /// Sets the size of the disk, bytes of contents; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.0.lock().capacity = bytes;
    }

    /// Bytes of contents that are there.
    pub fn used(&self) -> u64 {
        self.shared.0.lock().disk.used()
    }

    /// Writes down each operation from now on, for [`SimFs::log`].
    pub fn record(&self) {
        self.shared.0.lock().log = Some(Vec::new());
    }

    /// What was written down.
    pub fn log(&self) -> Vec<(Call, PathBuf)> {
        self.shared.0.lock().log.clone().unwrap_or_default()
    }

    /// Lets writes to paths with `path_part` in them wait, until [`SimFs::release`].
    pub fn hold_writes(&self, path_part: &str) {
        self.shared.0.lock().held = Some(path_part.to_owned());
    }

    /// Whether a write waits.
    pub fn is_held(&self) -> bool {
        self.shared.0.lock().waiting > 0
    }

    /// Whether a call has failed as [`SimFs::fail`] asked for.
    pub fn failed(&self) -> bool {
        self.shared.0.lock().failed
    }

    /// Lets writes go on.
    pub fn release(&self) {
        self.shared.0.lock().held = None;
        self.shared.1.notify_all();
    }

    /// The disk as the next process finds it when this one is killed: nothing is lost. This one's
    /// calls fail from now on.
    pub fn kill(&self) -> Self {
        let mut state = self.shared.0.lock();
        self.halt(&mut state);
        let mut disk = state.disk.clone();
        disk.forget_unnamed();
        Self::of(disk)
    }

    /// The disk as it is found after a power cut. This one's calls fail from now on; it can be asked
    /// for other images.
    pub fn crash(&self, image: Image) -> Self {
        let mut state = self.shared.0.lock();
        self.halt(&mut state);
        Self::of(state.disk.after_power_cut(image))
    }

    fn halt(&self, state: &mut State) {
        state.halted = true;
        state.held = None;
        self.shared.1.notify_all();
    }

    /// Counts a call, and says whether it fails.
    fn call(&self, state: &mut State, call: Call, path: &Path) -> io::Result<()> {
        if call != Call::Read {
            if state.halt_at.is_some_and(|at| state.operations >= at) {
                self.halt(state);
            }
            if !state.halted {
                state.operations += 1;
                if let Some(log) = &mut state.log {
                    log.push((call, path.into()));
                }
            }
        }
        if state.halted {
            return Err(io::Error::other("the process is no more"));
        }
        let mut error = None;
        for fault in &mut state.faults {
            if fault.call != call && (fault.call != Call::Any || call == Call::Read) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                // From here on it has run out: `MAX` is never counted down to 0 again.
            } else {
                error = Some(fault.error);
                if !fault.forever {
                    fault.after = u64::MAX;
                }
            }
        }
        state.failed |= error.is_some();
        error.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn node(&self, path: &Path) -> io::Result<u64> {
        let state = self.shared.0.lock();
        if state.halted {
            return Err(io::Error::other("the process is no more"));
        }
        match state.disk.names.get(path) {
            Some(Entry::File(node)) => Ok(*node),
            Some(Entry::Directory) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn file(&self, node: u64, path: &Path) -> Box<dyn FsFile> {
        Box::new(SimFile {
            node,
            path: path.into(),
            fs: self.clone(),
        })
    }
}

impl Disk {
    fn used(&self) -> u64 {
        let files = self.names.values().filter_map(|entry| match entry {
            Entry::File(node) => self.nodes.get(node),
            Entry::Directory => None,
        });
        files.map(|n| n.now.len() as u64).sum()
    }

    fn forget_unnamed(&mut self) {
        let mut named = BTreeSet::new();
        let changes = self.changes.iter().flat_map(|c| &c.0);
        let entries = self.names.values().chain(self.durable_names.values());
        for entry in entries.chain(changes.filter_map(|c| c.1.as_ref())) {
            if let Entry::File(node) = entry {
                named.insert(*node);
            }
        }
        self.nodes.retain(|node, _| named.contains(node));
    }

    fn directory_exists(&self, path: &Path) -> bool {
        path.parent().is_none() || self.names.get(path) == Some(&Entry::Directory)
    }

    fn change(&mut self, path: &Path, changes: Vec<(PathBuf, Option<Entry>)>) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        if !self.directory_exists(directory) {
            return Err(ErrorKind::NotFound.into());
        }
        let change = NameChange(changes);
        apply(&mut self.names, &change);
        self.changes.push(change);
        Ok(())
    }

    /// Makes the changes of a directory durable, and with them what has happened to their names
    /// before in others: a file that came from there does not come back.
    fn sync_names(&mut self, directory: &Path) {
        let mut touched = BTreeSet::new();
        let (mut synced, mut kept) = (Vec::new(), Vec::new());
        for change in std::mem::take(&mut self.changes).into_iter().rev() {
            let names = change.0.iter().map(|(path, _)| path.clone());
            if change.is_in(directory) || names.clone().any(|n| touched.contains(&n)) {
                touched.extend(names);
                synced.push(change);
            } else {
                kept.push(change);
            }
        }
        kept.reverse();
        self.changes = kept;
        for change in synced.iter().rev() {
            apply(&mut self.durable_names, change);
        }
    }

    fn after_power_cut(&self, image: Image) -> Self {
        let mut names = self.durable_names.clone();
        for (i, change) in self.changes.iter().enumerate() {
            let kept = match image {
                Image::Nothing | Image::NoNames => false,
                Image::Everything | Image::Zeros | Image::NoContents => true,
                Image::Seed(seed) => decide(seed, 1 << 40, i as u64) & 1 == 1,
            };
            if kept {
                apply(&mut names, change);
            }
        }
        // What lies in a directory that is not there is not there either.
        let all = names.clone();
        names.retain(|path, _| {
            let mut above = path.ancestors().skip(1);
            above.all(|p| p.parent().is_none() || all.get(p) == Some(&Entry::Directory))
        });
        let mut disk = Self {
            nodes: BTreeMap::new(),
            next_node: self.next_node,
            durable_names: names.clone(),
            names,
            changes: Vec::new(),
        };
        for (number, node) in &self.nodes {
            let bytes = node.after_power_cut(image, *number);
            disk.nodes.insert(
                *number,
                Node {
                    now: bytes.clone(),
                    durable: bytes,
                    ..Node::default()
                },
            );
        }
        disk.forget_unnamed();
        disk
    }
}

fn apply(names: &mut BTreeMap<PathBuf, Entry>, change: &NameChange) {
    for (path, to) in &change.0 {
        match to {
            Some(entry) => names.insert(path.clone(), *entry),
            None => names.remove(path),
        };
    }
}

/// Copies a sector of `from` into `into`, zeros where `from` ends before.
fn copy_sector(into: &mut [u8], from: &[u8], sector: usize) {
    let start = sector * SECTOR;
    let end = (start + SECTOR).min(into.len());
    if start >= end {
        return;
    }
    let there = from.len().clamp(start, end);
    if there > start {
        into[start..there].copy_from_slice(&from[start..there]);
    }
    into[there..end].fill(0);
}

impl Node {
    fn write(&mut self, data: &[u8], at: usize) {
        if data.is_empty() {
            return;
        }
        let end = at + data.len();
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[at..end].copy_from_slice(data);
        for sector in at / SECTOR..=(end - 1) / SECTOR {
            self.dirty.insert(sector);
            self.dropped.remove(&sector);
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.now.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            copy_sector(&mut self.durable, &self.now, sector);
        }
    }

    fn after_power_cut(&self, image: Image, number: u64) -> Vec<u8> {
        let (old, new) = (self.durable.len(), self.now.len());
        let (style, length) = match image {
            Image::Nothing | Image::NoContents => (1, old),
            Image::Everything | Image::NoNames => (0, new),
            Image::Zeros => (6, new),
            Image::Seed(seed) => {
                let between = old.min(new)
                    + (decide(seed, number, 1 << 41) % (old.abs_diff(new) as u64 + 1)) as usize;
                match decide(seed, number, 1 << 42) % 6 {
                    0 => (0, new),
                    1 => (1, old),
                    2 => (0, between),
                    3 => (3, new),
                    4 => (4, new),
                    _ => (5, between),
                }
            }
        };
        let mut bytes = self.durable.clone();
        bytes.resize(length, 0);
        for sector in &self.dirty {
            let choice = match image {
                Image::Seed(seed) => decide(seed, number, *sector as u64),
                _ => 0,
            };
            // 0: as before, 1: as written, 2: zeros, 3: garbage.
            let what = match style {
                0 => 1,
                1 => 0,
                3 => choice % 2,
                4 => choice % 3,
                5 => choice % 4,
                _ => 2,
            };
            match what {
                0 => {}
                1 => copy_sector(&mut bytes, &self.now, *sector),
                2 => copy_sector(&mut bytes, &[], *sector),
                _ => {
                    let garbage = vec![(choice >> 8) as u8 | 1; (sector + 1) * SECTOR];
                    copy_sector(&mut bytes, &garbage, *sector);
                }
            }
        }
        bytes
    }
}

#[derive(Debug)]
struct SimFile {
    node: u64,
    path: PathBuf,
    fs: SimFs,
}

impl SimFile {
    fn with<T>(&self, look: impl FnOnce(&Node) -> T) -> io::Result<T> {
        let state = self.fs.shared.0.lock();
        let node = state.disk.nodes.get(&self.node);
        node.map(look).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl FsFile for SimFile {
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let (state, changed) = &*self.fs.shared;
        let mut state = state.lock();
        let name = self.path.to_string_lossy();
        while state.held.as_ref().is_some_and(|h| name.contains(&**h)) && !state.halted {
            state.waiting += 1;
            changed.wait(&mut state);
            state.waiting -= 1;
        }
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let outcome = self.fs.call(&mut state, Call::Write, &self.path);
        let used = state.disk.used();
        let capacity = state.capacity;
        let halted = state.halted;
        let Some(node) = state.disk.nodes.get_mut(&self.node) else {
            return Err(ErrorKind::NotFound.into());
        };
        if let Err(error) = outcome {
            let short = matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::WriteZero
            );
            if short && !halted {
                node.write(&data[..data.len() / 2], at);
            }
            return Err(error);
        }
        let grows = (at + data.len()).saturating_sub(node.now.len()) as u64;
        if capacity.is_some_and(|capacity| used + grows > capacity) {
            let room = (capacity.unwrap_or(0).saturating_sub(used)) as usize;
            let fits = (node.now.len() + room).saturating_sub(at).min(data.len());
            node.write(&data[..fits], at);
            return Err(ErrorKind::StorageFull.into());
        }
        node.write(data, at);
        Ok(())
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        {
            let mut state = self.fs.shared.0.lock();
            self.fs.call(&mut state, Call::Read, &self.path)?;
        }
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let end = at + into.len();
        self.with(|node| match node.now.get(at..end) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(ErrorKind::UnexpectedEof.into()),
        })?
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.fs.shared.0.lock();
        let outcome = self.fs.call(&mut state, Call::Sync, &self.path);
        let halted = state.halted;
        let Some(node) = state.disk.nodes.get_mut(&self.node) else {
            return Err(ErrorKind::NotFound.into());
        };
        match outcome {
            Ok(()) => node.sync(),
            Err(_) if !halted => {
                let dirty = std::mem::take(&mut node.dirty);
                node.dropped.extend(dirty);
            }
            Err(_) => {}
        }
        outcome
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.fs.shared.0.lock();
        self.fs.call(&mut state, Call::Write, &self.path)?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        if let Some(node) = state.disk.nodes.get_mut(&self.node) {
            node.now.resize(len, 0);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|node| node.now.len() as u64)
    }
}

#[derive(Debug)]
struct SimGuard {
    node: u64,
    fs: SimFs,
}

impl Guard for SimGuard {}

impl Drop for SimGuard {
    fn drop(&mut self) {
        self.fs.shared.0.lock().locks.remove(&self.node);
    }
}

impl Fs for SimFs {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.shared.0.lock();
        let mut missing: Vec<&Path> = path
            .ancestors()
            .take_while(|p| !state.disk.directory_exists(p))
            .collect();
        while let Some(next) = missing.pop() {
            self.call(&mut state, Call::Create, next)?;
            let change = (next.to_path_buf(), Some(Entry::Directory));
            state.disk.change(next, vec![change])?;
        }
        Ok(())
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::Create, path)?;
        if state.disk.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = state.disk.next_node;
        state
            .disk
            .change(path, vec![(path.into(), Some(Entry::File(node)))])?;
        state.disk.next_node += 1;
        state.disk.nodes.insert(node, Node::default());
        drop(state);
        Ok(self.file(node, path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(self.file(self.node(path)?, path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::Rename, to)?;
        let Some(entry) = state.disk.names.get(from).copied() else {
            return Err(ErrorKind::NotFound.into());
        };
        let Entry::File(_) = entry else {
            // What lies in a directory would have to move with it.
            return Err(ErrorKind::Unsupported.into());
        };
        if state.disk.names.get(to) == Some(&Entry::Directory) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let changes = vec![(from.into(), None), (to.into(), Some(entry))];
        state.disk.change(to, changes)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::Remove, path)?;
        match state.disk.names.get(path) {
            Some(Entry::File(_)) => state.disk.change(path, vec![(path.into(), None)]),
            Some(Entry::Directory) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::Remove, path)?;
        if state.disk.names.keys().any(|p| p.parent() == Some(path)) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        match state.disk.names.get(path) {
            Some(Entry::Directory) => state.disk.change(path, vec![(path.into(), None)]),
            Some(Entry::File(_)) => Err(ErrorKind::NotADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::SyncDir, path)?;
        if !state.disk.directory_exists(path) {
            return Err(ErrorKind::NotFound.into());
        }
        state.disk.sync_names(path);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::Read, path)?;
        if !state.disk.directory_exists(path) {
            return Err(ErrorKind::NotFound.into());
        }
        let inside = state.disk.names.keys().filter(|p| p.parent() == Some(path));
        let names = inside.filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned()));
        Ok(names.collect())
    }

    fn exists(&self, path: &Path) -> bool {
        let state = self.shared.0.lock();
        !state.halted && (path.parent().is_none() || state.disk.names.contains_key(path))
    }

    fn is_dir(&self, path: &Path) -> bool {
        let state = self.shared.0.lock();
        !state.halted && state.disk.directory_exists(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        let node = match self.node(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                drop(self.create_new(path)?);
                self.node(path)?
            }
            other => other?,
        };
        if !self.shared.0.lock().locks.insert(node) {
            return Ok(None);
        }
        let fs = self.clone();
        Ok(Some(Box::new(SimGuard { node, fs })))
    }
}

#[cfg(test)]
mod tests;
