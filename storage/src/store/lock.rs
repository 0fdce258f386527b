//! One writer: the lock of the data directory, and who holds it.

use std::path::Path;

use crate::env::{Fs, Guard, IoContext};
use crate::error::{Error, Result};
use crate::file::write_durably;
use crate::manifest;

const LOCK: &str = "LOCK";
const WRITER: &str = "WRITER";

/// Takes the lock, making the data directory when it is not there.
///
/// # Errors
/// [`Error::Locked`] names the process that holds it; [`Error::FormatTooNew`], and but for the lock's
/// file the directory is as it was.
#[expect(
    clippy::disallowed_methods,
    reason = "above the data directory there is nothing of ours to sync but its name"
)]
pub(crate) fn take_lock(fs: &dyn Fs, data: &Path) -> Result<Box<dyn Guard>> {
    fs.create_dir_all(data).at("create directory", data)?;
    if let Some(parent) = data.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs.sync_dir(parent).at("sync", parent)?;
    }
    let path = data.join(LOCK);
    match fs.try_lock(&path).at("lock", &path)? {
        Some(lock) => {
            manifest::refuse_newer(fs, data)?;
            write_writer(fs, data, None)?;
            Ok(lock)
        }
        None => {
            let text = fs.read(&data.join(WRITER)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let mut words = text.split_whitespace();
            let pid = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
            Err(Error::Locked {
                path: data.into(),
                pid,
                address: words.next().map(str::to_owned),
            })
        }
    }
}

/// Says which process writes, and where it answers.
pub(crate) fn write_writer(fs: &dyn Fs, data: &Path, address: Option<&str>) -> Result<()> {
    let text = format!("{} {}\n", std::process::id(), address.unwrap_or(""));
    write_durably(fs, &data.join(WRITER), text.as_bytes()).map(|_| ())
}
