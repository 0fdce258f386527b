//! Files on their way between the data directory and the object store.

use std::path::Path;

use crate::depot::{Content, Depot, failed};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::{FileRef, FileWriter, create_dir_durably};

/// Files that are open at once while they are put.
const PUT_FILES: usize = 64;
/// Bytes of a file that are fetched at once.
const PIECE_BYTES: u64 = 8 << 20;

/// Puts files of the data directory.
pub(super) fn put_files(fs: &dyn Fs, data: &Path, depot: &dyn Depot, names: &[&str]) -> Result<()> {
    for some in names.chunks(PUT_FILES) {
        let open = |name: &&str| {
            let path = data.join(name);
            fs.open_read(&path).at("open", &path)
        };
        let files: Vec<_> = some.iter().map(open).collect::<Result<_>>()?;
        let contents = files.iter().map(|file| Content::File(&**file));
        let objects: Vec<_> = some.iter().copied().zip(contents).collect();
        let named = some.first().copied().unwrap_or_default();
        depot
            .put_all(&objects)
            .map_err(|e| failed(depot, "put", named, e))?;
    }
    Ok(())
}

/// Fetches a file into the data directory, unless it is there.
pub(super) fn bring(fs: &dyn Fs, data: &Path, depot: &dyn Depot, file: &FileRef) -> Result<()> {
    if fs.exists(&data.join(&file.path)) {
        return Ok(());
    }
    match fetch(fs, data, depot, file) {
        // A cache may be damaged.
        Err(Error::Corrupt { .. }) => {
            depot.forget(&file.path);
            fetch(fs, data, depot, file)
        }
        fetched => fetched,
    }
}

fn fetch(fs: &dyn Fs, data: &Path, depot: &dyn Depot, file: &FileRef) -> Result<()> {
    let path = data.join(&file.path);
    let folder = path.parent().expect("BUG: a file lies in a directory");
    create_dir_durably(fs, data, folder)?;
    let mut writer = FileWriter::create(fs, &path)?;
    let mut at = 0;
    while at < file.len {
        let end = file.len.min(at + PIECE_BYTES);
        let piece: Vec<_> = std::iter::once(at..end).collect();
        let read = depot.get(&file.path, &piece);
        for piece in read.map_err(|e| failed(depot, "get", &file.path, e))? {
            writer.put(&piece)?;
        }
        at = end;
    }
    let found = writer.finish_as(file.path.clone())?;
    fs.sync_dir(folder).at("sync", folder)?;
    if (found.len, found.crc) == (file.len, file.crc) {
        return Ok(());
    }
    fs.remove(&path).at("remove", &path)?;
    Err(Error::Corrupt {
        path,
        offset: 0,
        what: "it came from the object store with another checksum than the manifest's".into(),
    })
}
