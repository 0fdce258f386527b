//! The catalog of a cluster, in the store of the first shard.

use super::Store;
use crate::error::Result;
use crate::kept_text::CATALOG;

impl Store {
    /// Reads the text that [`Store::replace_catalog`] wrote last; `None` when there is none.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when the file is damaged, or the error of the disk.
    pub fn catalog(&self) -> Result<Option<String>> {
        CATALOG.read(self.shared.fs(), &self.shared.data)
    }

    /// Replaces the text durably if it is still `expected`. Returns whether it was.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`], or the error of the disk; then the old text or the new one is
    /// there.
    pub fn replace_catalog(&self, expected: Option<&str>, text: &str) -> Result<bool> {
        let shared = &self.shared;
        let _one_writer = shared.access.lock();
        shared.check_lock()?;
        if self.catalog()?.as_deref() != expected {
            return Ok(false);
        }
        let (fs, data) = (shared.fs(), &shared.data);
        shared.with_reserve(|| CATALOG.replace(fs, data, text, shared.epoch.into()))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::error::Error;
    use crate::store::Options;

    fn shard(number: Option<u16>, data: &Path) -> Result<Store> {
        let options = Options {
            shard: number,
            ..Options::default()
        };
        Store::open(data, options)
    }

    #[test]
    fn a_catalog_is_replaced_by_who_knows_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = shard(Some(0), dir.path()).expect("opens");
        assert_eq!(store.catalog().expect("reads"), None);
        let replace = |expected, text| store.replace_catalog(expected, text).expect("writes");
        assert!(!replace(Some("a"), "b"));
        assert!(replace(None, "a"));
        assert!(!replace(None, "b"));
        assert!(replace(Some("a"), "b"));
        assert_eq!(store.catalog().expect("reads").as_deref(), Some("b"));
    }

    #[test]
    fn a_shard_stays_the_shard_that_it_was_born_as() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = shard(Some(0x1ab), dir.path()).expect("opens");
        let id = store.snapshot().manifest().store_id.clone();
        assert_eq!(&id[..4], "01ab");
        store.close().expect("closes");
        for other in [None, Some(2)] {
            let refused = shard(other, dir.path()).expect_err("another shard");
            assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
            assert!(refused.to_string().contains("shard 427"), "{refused}");
        }
        let again = shard(Some(0x1ab), dir.path()).expect("opens");
        assert_eq!(again.snapshot().manifest().store_id, id);
        again.close().expect("closes");
        let alone = tempfile::tempdir().expect("a directory");
        shard(None, alone.path())
            .expect("opens")
            .close()
            .expect("closes");
        // One of 65,536 stores has the digits of a shard.
        let refused = (1..=2).filter(|n| shard(Some(*n), alone.path()).is_err());
        assert!(refused.count() > 0);
    }
}
