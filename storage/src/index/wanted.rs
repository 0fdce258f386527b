//! `indexes/wanted.json`: the indexes that a store is configured to have.

use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::DIR;
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::{create_dir_durably, write_durably};
use crate::model::Name;

const FILE: &str = "wanted.json";
const FORMAT: u32 = 1;

/// Content of an index for each row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// Position of the row in its part.
    #[default]
    Inverted,
    /// The row itself: the index is as large as the part, and the rows of a value are side by
    /// side.
    Covering,
}

impl IndexKind {
    fn is_inverted(&self) -> bool {
        *self == Self::Inverted
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inverted => "inverted",
            Self::Covering => "covering",
        })
    }
}

/// An index: a column of a stream. A column has at most one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IndexName {
    /// Stream of the index.
    pub stream: Name,
    /// Column of the index.
    pub field: String,
    /// Kind of the index; inverted where the file has none.
    #[serde(default, skip_serializing_if = "IndexKind::is_inverted")]
    pub kind: IndexKind,
}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.field, self.stream)
    }
}

#[derive(Serialize, Deserialize)]
struct Wanted {
    format: u32,
    indexes: BTreeSet<IndexName>,
}

/// Returns the configured indexes; none when the file is missing or damaged.
pub(crate) fn read(fs: &dyn Fs, data: &Path) -> BTreeSet<IndexName> {
    let path = data.join(DIR).join(FILE);
    let read = || -> std::io::Result<Wanted> {
        let wanted: Wanted = serde_json::from_slice(&fs.read(&path)?)?;
        match wanted.format {
            FORMAT => Ok(wanted),
            other => Err(std::io::Error::other(format!("unknown format {other}"))),
        }
    };
    match read() {
        Ok(wanted) => wanted.indexes,
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "the list of created indexes cannot be read; repeat `logmill index create`, configured indexes are not affected");
            }
            BTreeSet::new()
        }
    }
}

pub(crate) fn write(fs: &dyn Fs, data: &Path, indexes: &BTreeSet<IndexName>) -> Result<()> {
    let wanted = Wanted {
        format: FORMAT,
        indexes: indexes.clone(),
    };
    let text = serde_json::to_vec(&wanted).map_err(|e| Error::invalid(e.to_string()))?;
    let dir = data.join(DIR);
    create_dir_durably(fs, data, &dir)?;
    write_durably(fs, &dir.join(FILE), &text)?;
    fs.sync_dir(&dir).at("sync", &dir)
}
