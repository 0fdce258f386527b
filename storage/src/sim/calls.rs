//! File system calls on the simulated disk; each is counted and may be made to fail.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::disk::{Entry, Node};
use super::{Call, SimFs, gone};
use crate::env::{Fs, FsFile, Guard, Space};

impl SimFs {
    fn node(&self, path: &Path) -> io::Result<u64> {
        let state = self.shared.0.lock();
        if state.halted {
            return Err(gone());
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
        let part = match &outcome {
            Ok(()) => data,
            Err(_) if state.halted => &[],
            // A write that fails with a full disk, or is cut short, has written some of its
            // bytes.
            Err(error) => match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::WriteZero => {
                    &data[..data.len() / 2]
                }
                _ => &[],
            },
        };
        outcome.and(state.disk.write(self.node, part, at))
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
            Err(_) if !halted => node.drop_dirty(),
            Err(_) => {}
        }
        outcome
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.fs.shared.0.lock();
        self.fs.call(&mut state, Call::SetLen, &self.path)?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let node = state.disk.nodes.get_mut(&self.node);
        node.ok_or(ErrorKind::NotFound)?.set_len(len);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|node| node.now.len() as u64)
    }
}

#[derive(Debug)]
struct SimGuard {
    node: u64,
    path: PathBuf,
    fs: SimFs,
}

impl Guard for SimGuard {
    fn is_in_place(&self) -> io::Result<bool> {
        match self.fs.node(&self.path) {
            Ok(node) => Ok(node == self.node),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

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
        let node = state.disk.create(path)?;
        drop(state);
        Ok(self.file(node, path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        Ok(self.file(self.node(path)?, path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.call(&mut self.shared.0.lock(), Call::Read, path)?;
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::Rename, to)?;
        let Some(entry) = state.disk.names.get(from).copied() else {
            return Err(ErrorKind::NotFound.into());
        };
        let Entry::File(_) = entry else {
            // The files in a directory would have to move with it.
            return Err(ErrorKind::Unsupported.into());
        };
        if state.disk.names.get(to) == Some(&Entry::Directory) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let changes = vec![(from.into(), None), (to.into(), Some(entry))];
        state.disk.change(to, changes)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.shared.0.lock();
        self.call(&mut state, Call::Create, to)?;
        match state.disk.names.get(from).copied() {
            _ if state.disk.names.contains_key(to) => Err(ErrorKind::AlreadyExists.into()),
            Some(entry @ Entry::File(_)) => state.disk.change(to, vec![(to.into(), Some(entry))]),
            Some(Entry::Directory) => Err(ErrorKind::PermissionDenied.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
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

    fn space(&self, _: &Path) -> io::Result<Space> {
        let disk = &self.shared.0.lock().disk;
        let total = disk.capacity.unwrap_or(u64::MAX);
        Ok(Space {
            free: total.saturating_sub(disk.used()),
            total,
        })
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
        Ok(Some(Box::new(SimGuard {
            node,
            path: path.into(),
            fs: self.clone(),
        })))
    }
}
