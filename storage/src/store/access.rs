//! The users and tokens of an open store.

use super::Store;
use crate::access_file;
use crate::error::{Error, Result};

impl Store {
    /// Reads the text that [`Store::replace_access`] wrote last; `None` when there is none.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when the file is damaged, or the error of the disk.
    pub fn access(&self) -> Result<Option<String>> {
        let elsewhere = self.shared.options.config.accounts_in.as_deref();
        access_file::read(self.shared.fs(), elsewhere.unwrap_or(&self.shared.data))
    }

    /// Returns whether the users and tokens are those of another store, which replaces them.
    #[must_use]
    pub fn shares_access(&self) -> bool {
        self.shared.options.config.accounts_in.is_some()
    }

    /// Replaces the text durably. On a full disk it uses the reserve, so that a token can be
    /// revoked.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the users and tokens are another store's,
    /// [`crate::Error::ReadOnly`], or the error of the disk; then the old text or the new one is
    /// there.
    pub fn replace_access(&self, text: &str) -> Result<()> {
        let shared = &self.shared;
        if let Some(place) = &shared.options.config.accounts_in {
            return Err(Error::invalid(format!(
                "the users and tokens are those of {}; change them there",
                place.display()
            )));
        }
        let _one_writer = shared.access.lock();
        shared.check_lock()?;
        let (fs, writer) = (shared.fs(), shared.epoch.into());
        shared.with_reserve(|| access_file::replace(fs, &shared.data, text, writer))
    }
}
