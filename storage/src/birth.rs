//! `STORE`: id and creation time of the store, kept apart from the manifest.
//!
//! Every `_id` begins with both. A repair that has to rebuild the manifest from the parts reads
//! them here, so that events keep their `_id`s. The file is one line. A writer that opens the
//! store writes it when it is missing; only a repair reads it.
//!
//! ```text
//! logmill id <32 hex digits> <seconds since 1970> <crc32c of both, hex>
//! ```

use std::path::Path;

use crate::env::{Fs, IoContext};
use crate::error::Result;
use crate::file::write_durably;
use crate::manifest::Manifest;

pub(crate) const FILE: &str = "STORE";

/// Id and creation time of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Birth {
    pub(crate) store_id: String,
    /// Seconds since 1970.
    pub(crate) created_s: u32,
}

impl Birth {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self {
            store_id: manifest.store_id.clone(),
            created_s: manifest.created_s,
        }
    }

    fn line(&self) -> String {
        let both = format!("{} {}", self.store_id, self.created_s);
        format!(
            "logmill id {both} {:08x}\n",
            crc32c::crc32c(both.as_bytes())
        )
    }

    /// Reads the file; `None` when it is missing or damaged.
    pub(crate) fn read(fs: &dyn Fs, data: &Path) -> Option<Self> {
        let text = String::from_utf8(fs.read(&data.join(FILE)).ok()?).ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["logmill", "id", store_id, created_s, _] = words[..] else {
            return None;
        };
        let is_id = store_id.len() == 32 && store_id.bytes().all(|b| b.is_ascii_hexdigit());
        let birth = Self {
            store_id: store_id.to_owned(),
            created_s: created_s.parse().ok()?,
        };
        (is_id && birth.line() == text).then_some(birth)
    }

    /// Writes the file, unless it has this content already.
    pub(crate) fn keep(&self, fs: &dyn Fs, data: &Path) -> Result<()> {
        if Self::read(fs, data).as_ref() == Some(self) {
            return Ok(());
        }
        write_durably(fs, &data.join(FILE), self.line().as_bytes())?;
        fs.sync_dir(data).at("sync", data)
    }
}
