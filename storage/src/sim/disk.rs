//! The content of the simulated disk, and the effect of a power cut on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Image;
use super::random::decide;

/// Unit in which a disk writes, bytes.
const SECTOR: usize = 512;
/// Unit in which a disk allocates space, bytes.
const BLOCK: u64 = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    File(u64),
    Directory,
}

impl Entry {
    fn file(self) -> Option<u64> {
        match self {
            Self::File(node) => Some(node),
            Self::Directory => None,
        }
    }
}

/// One unsynced change of names, applied whole or not at all: the new entry of each name.
#[derive(Debug, Clone)]
struct NameChange(Vec<(PathBuf, Option<Entry>)>);

impl NameChange {
    /// Checks whether one of the names lies in this directory.
    fn is_in(&self, directory: &Path) -> bool {
        self.0.iter().any(|(p, _)| p.parent() == Some(directory))
    }
}

/// The contents of a file, shared with copies of the disk until they are written to.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) now: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    /// Sectors written since the last sync. Sectors that a failed sync has dropped are not among
    /// them: they are read as written and never become durable.
    dirty: BTreeSet<usize>,
}

/// Files and names. A copy is cheap.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub(super) nodes: BTreeMap<u64, Node>,
    next_node: u64,
    pub(super) names: BTreeMap<PathBuf, Entry>,
    durable_names: BTreeMap<PathBuf, Entry>,
    changes: Vec<NameChange>,
    /// Size of the disk, bytes; `None` for no limit.
    pub(super) capacity: Option<u64>,
}

impl Disk {
    /// Returns the bytes of the blocks in use.
    pub(super) fn used(&self) -> u64 {
        // Count a file with two names once.
        let files: BTreeSet<u64> = self.names.values().filter_map(|e| e.file()).collect();
        let nodes = files.iter().filter_map(|node| self.nodes.get(node));
        nodes
            .map(|n| (n.now.len() as u64).next_multiple_of(BLOCK))
            .sum()
    }

    /// Writes as much as fits; fails when that is not everything.
    pub(super) fn write(&mut self, node: u64, data: &[u8], at: usize) -> io::Result<()> {
        let free = self.capacity.map(|all| all.saturating_sub(self.used()));
        let Some(node) = self.nodes.get_mut(&node) else {
            return Err(ErrorKind::NotFound.into());
        };
        let len = node.now.len();
        let room = free.map_or(usize::MAX, |free| {
            (len as u64).next_multiple_of(BLOCK).saturating_add(free) as usize
        });
        let fits = room.saturating_sub(at).min(data.len());
        node.write(&data[..fits], at);
        if fits < data.len() {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Creates a file of this name.
    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
        if self.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let node = self.next_node;
        self.change(path, vec![(path.into(), Some(Entry::File(node)))])?;
        self.next_node += 1;
        self.nodes.insert(node, Node::default());
        Ok(node)
    }

    pub(super) fn forget_unnamed(&mut self) {
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

    pub(super) fn directory_exists(&self, path: &Path) -> bool {
        path.parent().is_none() || self.names.get(path) == Some(&Entry::Directory)
    }

    pub(super) fn change(
        &mut self,
        path: &Path,
        changes: Vec<(PathBuf, Option<Entry>)>,
    ) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        if !self.directory_exists(directory) {
            return Err(ErrorKind::NotFound.into());
        }
        let change = NameChange(changes);
        apply(&mut self.names, &change);
        self.changes.push(change);
        Ok(())
    }

    /// Makes the changes of a directory durable, together with earlier changes of the same names
    /// in other directories: a file that was moved away from there does not come back.
    pub(super) fn sync_names(&mut self, directory: &Path) {
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

    pub(super) fn after_power_cut(&self, image: Image) -> Self {
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
        // Files in a directory that does not exist do not exist either.
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
            capacity: self.capacity,
        };
        for (number, node) in &self.nodes {
            let bytes = Arc::new(node.after_power_cut(image, *number));
            disk.nodes.insert(
                *number,
                Node {
                    now: Arc::clone(&bytes),
                    durable: bytes,
                    dirty: BTreeSet::new(),
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

/// Copies a sector of `from` into `into`, with zeros after the end of `from`.
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
    pub(super) fn write(&mut self, data: &[u8], at: usize) {
        if data.is_empty() {
            return;
        }
        let end = at + data.len();
        if self.now.len() < end {
            self.set_len(end);
        }
        Arc::make_mut(&mut self.now)[at..end].copy_from_slice(data);
        self.dirty.extend(at / SECTOR..=(end - 1) / SECTOR);
    }

    /// Sets the length. A cut writes the sector of the new end and changes those beyond; growth
    /// writes nothing.
    pub(super) fn set_len(&mut self, len: usize) {
        self.dirty
            .extend(len / SECTOR..self.now.len().div_ceil(SECTOR));
        Arc::make_mut(&mut self.now).resize(len, 0);
    }

    pub(super) fn sync(&mut self) {
        let durable = Arc::make_mut(&mut self.durable);
        durable.resize(self.now.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            copy_sector(durable, &self.now, sector);
        }
    }

    /// Drops the dirty sectors after a failed sync: the kernel treats the pages as clean.
    pub(super) fn drop_dirty(&mut self) {
        self.dirty.clear();
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
        let mut bytes = Vec::clone(&self.durable);
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
