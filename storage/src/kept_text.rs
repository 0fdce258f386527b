//! Texts that a store keeps beside its manifest, as the users and tokens: each a file of its own
//! that is replaced as a whole.
//!
//! ```text
//! <the file's mark> <crc32c of the text, 8 hex digits>
//! <the text, UTF-8, to the end of the file>
//! ```

use std::io::ErrorKind;
use std::path::Path;

use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::replace_privately;

/// A kind of such files.
pub(crate) struct KeptText {
    pub(crate) file: &'static str,
    pub(crate) mark: &'static str,
    /// The description of a damaged file, and the advice.
    pub(crate) fault: &'static str,
}

/// `CATALOG`: the shard keys and columns upon which the shards of a cluster have agreed, in the
/// store of the first shard.
pub(crate) const CATALOG: KeptText = KeptText {
    file: "CATALOG",
    mark: "logmill catalog 1",
    fault: "the catalog of the cluster is not as it was written; restore the file from a backup of this shard",
};

impl KeptText {
    pub(crate) fn encode(&self, text: &str) -> String {
        format!(
            "{} {:08x}\n{text}",
            self.mark,
            crc32c::crc32c(text.as_bytes())
        )
    }

    /// Reads the text; `None` when the store has no such file.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file is not as it was written, or the error of the disk.
    pub(crate) fn read(&self, fs: &dyn Fs, data: &Path) -> Result<Option<String>> {
        let path = data.join(self.file);
        let bytes = match fs.read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.at("read", &path)?,
        };
        let text = std::str::from_utf8(&bytes).ok();
        let text = text.and_then(|all| {
            let (_, text) = all.split_once('\n')?;
            (self.encode(text) == all).then(|| text.to_owned())
        });
        match text {
            Some(text) => Ok(Some(text)),
            None => Err(Error::Corrupt {
                path,
                offset: 0,
                what: self.fault.into(),
            }),
        }
    }

    /// Replaces the text durably. `writer` is the epoch of the writer.
    ///
    /// # Errors
    /// The error of the disk; then the file has the old text or the new one.
    pub(crate) fn replace(&self, fs: &dyn Fs, data: &Path, text: &str, writer: u64) -> Result<()> {
        let bytes = self.encode(text);
        replace_privately(fs, &data.join(self.file), bytes.as_bytes(), writer)?;
        fs.sync_dir(data).at("sync", data)
    }
}
