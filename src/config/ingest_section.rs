//! The section `[ingest]`.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ingest::HashKey;
use secrecy::zeroize::Zeroizing;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// Bits of a file's mode: the group or others can read it.
const OTHERS_READ: u32 = 0o044;

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

/// A key that cannot be used: why, and whether the configuration is at fault.
pub(super) struct BadKey {
    pub(super) why: String,
    pub(super) is_problem: bool,
}

/// Reads the key of hashes. Returns it with a warning, if others than its owner can read the file.
pub(super) fn read_hash_key(file: &Path) -> Result<(HashKey, Option<String>), BadKey> {
    let named = |why: &str| format!("[ingest] hash_key_file = {file:?}: {why}");
    let bytes = std::fs::read(file).map_err(|error| {
        let is_problem = error.kind() != ErrorKind::PermissionDenied;
        let why = match is_problem {
            true => named(&error.to_string()),
            false => {
                named("this user may not read it, so batches of streams that hash are refused")
            }
        };
        BadKey { why, is_problem }
    })?;
    let bytes = Zeroizing::new(bytes);
    let key = HashKey::new(&bytes).ok_or_else(|| BadKey {
        why: named("write 32 random bytes or more, as with `head -c 32 /dev/urandom`"),
        is_problem: true,
    })?;
    let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.mode());
    let warning = (mode & OTHERS_READ != 0).then(|| {
        let mode = mode & 0o777;
        named(&format!(
            "others can read the key (mode {mode:o}) and so find out whose hash a value is; run chmod 600"
        ))
    });
    Ok((key, warning))
}
