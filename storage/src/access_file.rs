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

use std::path::Path;

use crate::env::Fs;
use crate::error::Result;
use crate::file::replace_privately;
use crate::kept_text::KeptText;

pub(crate) const FILE: &str = "ACCESS";
/// The secret of the present writer; worthless once it has ended, so that it is not synced.
const OPERATOR: &str = "OPERATOR";
const ACCESS: KeptText = KeptText {
    file: FILE,
    mark: "logmill access 1",
    fault: "the users and tokens are not as they were written; restore the file from a backup, or remove it and create them again",
};

/// Reads the text; `None` when the store has no such file.
///
/// # Errors
/// [`crate::Error::Corrupt`] when the file is not as it was written, or the error of the disk.
pub(crate) fn read(fs: &dyn Fs, data: &Path) -> Result<Option<String>> {
    ACCESS.read(fs, data)
}

/// Replaces the text durably. `writer` is the epoch of the writer.
///
/// # Errors
/// The error of the disk; then the file has the old text or the new one.
pub(crate) fn replace(fs: &dyn Fs, data: &Path, text: &str, writer: u64) -> Result<()> {
    ACCESS.replace(fs, data, text, writer)
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
