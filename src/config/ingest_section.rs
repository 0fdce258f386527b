//! The section `[ingest]`.

use std::path::PathBuf;

use ingest::HashKey;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// `[ingest]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Ingest {
    /// An event whose timestamp is further than this after its receipt is quarantined.
    pub(crate) max_future: Span,
    /// Maximum columns of a request, and of a stream that is created from now on.
    pub(crate) columns_max: usize,
    /// File with the key of `anonymise = { … = "hash" }`: at least 32 random bytes.
    pub(crate) hash_key_file: Option<PathBuf>,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            max_future: Span(std::time::Duration::from_micros(
                ingest::MAX_FUTURE_US.cast_unsigned(),
            )),
            columns_max: storage::COLUMNS_MAX,
            hash_key_file: None,
        }
    }
}

impl Ingest {
    /// Reads the key of hashes; `None` if no file is named.
    ///
    /// # Errors
    /// If the file cannot be read or is too short.
    pub(super) fn hash_key(&self) -> Result<Option<HashKey>, String> {
        let Some(path) = &self.hash_key_file else {
            return Ok(None);
        };
        let named = |why: &str| format!("[ingest] hash_key_file = {path:?}: {why}");
        let bytes = std::fs::read(path).map_err(|e| named(&e.to_string()))?;
        let key = HashKey::new(&bytes).ok_or_else(|| {
            named("write 32 random bytes or more, as with `head -c 32 /dev/urandom`")
        })?;
        Ok(Some(key))
    }
}
