//! `ACCESS`: the users and tokens of a store, as a text that the program writes and reads.
//!
//! The file is kept apart from the manifest: a repair that rebuilds the manifest must not open the
//! store to everyone.
//!
//! # Invariants
//! 1. A reader gets one whole text, or an error. A damaged file is never taken for a missing one,
//!    under which listeners would ask for no password.
//! 2. After a write has returned, a power cut does not bring an older text back: a revoked token
//!    stays revoked.
//! 3. Only the owner of the file can read it, in a backup too.
//!
//! ```text
//! logmill access 1 <crc32c of the text, 8 hex digits>
//! <the text, UTF-8, to the end of the file>
//! ```

use std::io::ErrorKind;
use std::path::Path;

use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::replace_privately;

pub(crate) const FILE: &str = "ACCESS";
/// The secret of the present writer; worthless once it has ended, so that it is not synced.
const OPERATOR: &str = "OPERATOR";
const MARK: &str = "logmill access 1";

fn encode(text: &str) -> String {
    format!("{MARK} {:08x}\n{text}", crc32c::crc32c(text.as_bytes()))
}

/// Reads the text; `None` when the store has no such file.
///
/// # Errors
/// [`Error::Corrupt`] when the file is not as it was written, or the error of the disk.
pub(crate) fn read(fs: &dyn Fs, data: &Path) -> Result<Option<String>> {
    let path = data.join(FILE);
    let bytes = match fs.read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.at("read", &path)?,
    };
    let text = std::str::from_utf8(&bytes).ok();
    let text = text.and_then(|all| all.split_once('\n').filter(|(_, text)| encode(text) == all));
    match text {
        Some((_, text)) => Ok(Some(text.to_owned())),
        None => Err(Error::Corrupt {
            path,
            offset: 0,
            what: "the users and tokens are not as they were written; restore the file from a backup, or remove it and create them again".into(),
        }),
    }
}

/// Replaces the text durably. `writer` is the epoch of the writer.
///
/// # Errors
/// The error of the disk; then the file has the old text or the new one.
pub(crate) fn replace(fs: &dyn Fs, data: &Path, text: &str, writer: u64) -> Result<()> {
    replace_privately(fs, &data.join(FILE), encode(text).as_bytes(), writer)?;
    fs.sync_dir(data).at("sync", data)
}

/// Writes the secret by which the writer recognises commands that can read the store.
///
/// # Errors
/// The error of the disk.
pub(crate) fn write_operator(fs: &dyn Fs, data: &Path, secret: &str, writer: u64) -> Result<()> {
    replace_privately(fs, &data.join(OPERATOR), secret.as_bytes(), writer)
}

/// Returns the secret of the store's present writer; `None` when there is none that this user may
/// read.
pub fn operator_secret(fs: &dyn Fs, data: &Path) -> Option<String> {
    let bytes = fs.read(&data.join(OPERATOR)).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
