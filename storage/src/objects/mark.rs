//! `OBJECTS`: which object store a data directory belongs to, and how far that has come.
//!
//! ```text
//! logmill objects <id, 32 hex digits> <attaching | attached | adopting> <crc32c, hex> <url>
//! ```
//!
//! The id is that of the data directory. `CURRENT` names it, so a writer knows whether it was the
//! last one to commit.

use std::path::Path;

use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::write_durably;

pub(crate) const FILE: &str = "OBJECTS";

/// The state of a data directory towards its object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachStage {
    /// It brings its files there, and has not committed anything there for sure.
    Attaching,
    /// It has committed there.
    Attached,
    /// It was empty, and takes over the store that is there. It holds nothing of its own until it
    /// has committed.
    Adopting,
}

impl AttachStage {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Attaching, "attaching"),
        (Self::Attached, "attached"),
        (Self::Adopting, "adopting"),
    ];

    fn word(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(stage, _)| *stage == self).map_or("", |s| s.1)
    }
}

/// The mark of a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) id: String,
    pub(crate) stage: AttachStage,
    pub(crate) url: String,
}

impl Mark {
    fn line(&self) -> String {
        let Self { id, stage, url } = self;
        let what = format!("{id} {} {url}", stage.word());
        let crc = crc32c::crc32c(what.as_bytes());
        format!("logmill objects {id} {} {crc:08x} {url}\n", stage.word())
    }

    /// Reads the mark; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged.
    pub(crate) fn read(fs: &dyn Fs, data: &Path) -> Result<Option<Self>> {
        let path = data.join(FILE);
        let bytes = match fs.read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.at("read", &path)?,
        };
        let text = String::from_utf8_lossy(&bytes);
        match Self::parse(&text) {
            Some(mark) => Ok(Some(mark)),
            None => Err(Error::Corrupt {
                path,
                offset: 0,
                what: "it is no mark of an object store".into(),
            }),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("logmill objects ")?;
        let mut words = rest.trim_end().splitn(4, ' ');
        let id = words.next()?.to_owned();
        let stage = words.next()?;
        let (stage, _) = *AttachStage::ALL.iter().find(|(_, word)| *word == stage)?;
        let url = words.nth(1)?.to_owned();
        let mark = Self { id, stage, url };
        (mark.line() == text).then_some(mark)
    }

    /// Writes the mark durably.
    pub(crate) fn keep(&self, fs: &dyn Fs, data: &Path) -> Result<()> {
        write_durably(fs, &data.join(FILE), self.line().as_bytes())?;
        fs.sync_dir(data).at("sync", data)
    }
}

/// Returns the id of a data directory.
#[cfg(test)]
pub(crate) fn owner_id(fs: &dyn Fs, data: &Path) -> Option<String> {
    Mark::read(fs, data)
        .expect("a whole mark")
        .map(|mark| mark.id)
}

/// Refuses what works only on a store whose files are all on the disk.
pub(crate) fn refuse_marked(fs: &dyn Fs, data: &Path, (what, remedy): (&str, &str)) -> Result<()> {
    match Mark::read(fs, data)? {
        None => Ok(()),
        Some(mark) => Err(Error::invalid(format!(
            "{what} needs all files of a store on the disk, and {} keeps its sealed files in {}; {remedy}",
            data.display(),
            mark.url
        ))),
    }
}

/// Refuses to write to a store that keeps its files in an object store without that one.
pub(crate) fn refuse_without_depot(fs: &dyn Fs, data: &Path) -> Result<()> {
    match Mark::read(fs, data)? {
        None => Ok(()),
        Some(mark) => Err(Error::invalid(format!(
            "{} keeps its sealed files in {}; set objects of [storage] to it",
            data.display(),
            mark.url
        ))),
    }
}
