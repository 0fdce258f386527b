//! Detached partitions: no query reads them, and they lie in folders of their own.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Manifest, PartMeta};
use crate::file::FileRef;
use crate::model::Name;

/// The raw events of one partition, up to the moment at which it was detached. Events that
/// arrived later are live; the rollups count both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachedPartition {
    /// Stream of the partition.
    pub stream: Name,
    /// Start of the partition, microseconds since 1970.
    pub partition_us: i64,
    /// First sequence number from which the partition's raw events are complete without the
    /// folder.
    pub complete_from: u64,
    /// Folder of the partition, relative to the data directory.
    pub folder: String,
    /// Parts of the partition; their files lie in that folder.
    pub parts: Vec<PartMeta>,
}

impl DetachedPartition {
    /// Returns the number of events.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|p| p.rows).sum()
    }

    /// Returns the bytes of the parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.file.len).sum()
    }
}

impl Manifest {
    /// Returns the detached partitions of a stream.
    pub fn detached_of<'a>(
        &'a self,
        stream: &'a Name,
    ) -> impl Iterator<Item = &'a DetachedPartition> {
        self.detached.iter().filter(move |d| &d.stream == stream)
    }

    /// Returns the files of detached partitions. They are not among [`Manifest::files`]: nothing
    /// needs them until they are attached, and an operator may have removed them.
    pub fn detached_files(&self) -> impl Iterator<Item = &FileRef> {
        let parts = self.detached.iter().flat_map(|d| &d.parts);
        parts.map(|p| &p.file)
    }

    /// Returns the first sequence number from which the raw events of a partition are complete,
    /// when some were dropped or are detached.
    pub fn complete_from(&self, stream: &Name, partition_us: i64) -> Option<u64> {
        let dropped = self.streams.get(stream).into_iter();
        let dropped = dropped.flat_map(|s| &s.dropped);
        let dropped = dropped.filter(|d| d.partition_us == partition_us);
        let detached = self.detached_of(stream);
        let detached = detached.filter(|d| d.partition_us == partition_us);
        let dropped = dropped.map(|d| d.complete_from);
        dropped.chain(detached.map(|d| d.complete_from)).max()
    }

    /// Returns the starts of the partitions of a stream whose raw events were dropped or are
    /// detached.
    pub fn incomplete<'a>(&'a self, stream: &'a Name) -> impl Iterator<Item = i64> + 'a {
        let dropped = self.streams.get(stream).into_iter();
        let dropped = dropped.flat_map(|s| &s.dropped).map(|d| d.partition_us);
        dropped.chain(self.detached_of(stream).map(|d| d.partition_us))
    }

    /// Checks that each partition is detached at most once and has only parts of its own.
    pub(super) fn check_detached(&self) -> Result<(), String> {
        let mut known = BTreeSet::new();
        for detached in &self.detached {
            let (stream, folder) = (&detached.stream, &detached.folder);
            if !self.streams.contains_key(stream) {
                return Err(format!(
                    "{folder} belongs to stream {stream}, which does not exist"
                ));
            }
            if !known.insert((stream, detached.partition_us)) {
                return Err(format!(
                    "stream {stream}: a partition was detached twice: {folder}"
                ));
            }
            let own = |p: &PartMeta| {
                let file = p.file.path.rsplit_once('/');
                (&p.stream, p.partition_us) == (stream, detached.partition_us)
                    && file.is_some_and(|(parent, _)| parent == folder)
            };
            if detached.parts.is_empty() || !detached.parts.iter().all(own) {
                return Err(format!(
                    "{folder} has no parts, or parts of another partition"
                ));
            }
        }
        Ok(())
    }
}
