//! The users and tokens of an open store.

use super::Store;
use crate::access_file;
use crate::error::Result;

impl Store {
    /// Reads the text that [`Store::replace_access`] wrote last; `None` when there is none.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when the file is damaged, or the error of the disk.
    pub fn access(&self) -> Result<Option<String>> {
        access_file::read(self.shared.fs(), &self.shared.data)
    }

    /// Replaces the text durably. On a full disk it uses the reserve, so that a token can be
    /// revoked.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`], or the error of the disk; then the old text or the new one is
    /// there.
    pub fn replace_access(&self, text: &str) -> Result<()> {
        let shared = &self.shared;
        let _one_writer = shared.access.lock();
        shared.check_lock()?;
        let (fs, writer) = (shared.fs(), shared.epoch.into());
        shared.with_reserve(|| access_file::replace(fs, &shared.data, text, writer))
    }
}
