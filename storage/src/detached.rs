//! The folder of a detached partition, `detached/NAME/date=…/`: its parts and `partition.json`,
//! the card, which describes the parts to a reader of the folder.
//!
//! The store that the partition came from does not rely on the card: there the manifest's record
//! decides. The card is one JSON value,
//! `{"format": 1, "crc32c": "<of the text that follows, hex>", "partition": {…}}`.
//! A card that is spelled in another way, even with other spaces, is refused.

mod folder;

pub use folder::DetachedFolder;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::manifest::{DetachedPartition, Manifest, PartMeta, PartitionWidth};
use crate::model::{Column, Name, StreamKind};

pub(crate) const DIR: &str = "detached";
const FILE: &str = "partition.json";
/// The newest format that this program reads, and the one it writes.
const FORMAT: u32 = 1;
const FORMAT_KEY: &str = "{\"format\": ";
const CRC_KEY: &str = ", \"crc32c\": \"";
const BODY_KEY: &str = "\", \"partition\": ";
const END: &str = "}\n";

/// Content of `partition.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Card {
    /// Id of the store that the partition came from.
    pub store_id: String,
    /// Creation time of that store, seconds since 1970. Every `_id` begins with it and the
    /// store's id.
    pub created_s: u32,
    /// Stream of the partition.
    pub stream: Name,
    /// Kind of that stream.
    pub kind: StreamKind,
    /// Width of the stream's partitions.
    pub width: PartitionWidth,
    /// Columns of the stream when the partition was detached.
    pub columns: Vec<Column>,
    /// Start of the partition, microseconds since 1970.
    pub partition_us: i64,
    /// Parts of the partition, with file names in place of paths.
    pub parts: Vec<PartMeta>,
}

impl Card {
    /// Returns the card of a partition that is detached in `manifest`, or is about to be.
    pub(crate) fn of(manifest: &Manifest, detached: &DetachedPartition) -> Self {
        let stream = &manifest.streams[&detached.stream];
        Self {
            store_id: manifest.store_id.clone(),
            created_s: manifest.created_s,
            stream: detached.stream.clone(),
            kind: stream.kind,
            width: stream.partition,
            columns: stream.columns.clone(),
            partition_us: detached.partition_us,
            parts: parts_by_name(detached),
        }
    }

    /// Checks that the card describes the partition as the manifest does. Columns are not
    /// compared, since the stream may have gained some meanwhile.
    pub(crate) fn is_of(&self, manifest: &Manifest, detached: &DetachedPartition) -> bool {
        (&self.store_id, &self.stream) == (&manifest.store_id, &detached.stream)
            && self.parts == parts_by_name(detached)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string_pretty(self).expect("BUG: a card is plain data");
        encode(FORMAT, &body).into_bytes()
    }

    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let corrupt = |what: &str| Error::Corrupt {
            path: path.into(),
            offset: 0,
            what: what.into(),
        };
        let text = std::str::from_utf8(bytes).map_err(|_| corrupt("the file is not UTF-8 text"))?;
        let head = text.strip_prefix(FORMAT_KEY);
        let format = head.and_then(|head| head.split_once(CRC_KEY));
        let (format, rest) =
            format.ok_or_else(|| corrupt("the file does not begin like a partition.json"))?;
        let format: u32 = format.parse().map_err(|_| corrupt("no format number"))?;
        if format > FORMAT {
            return Err(Error::FormatTooNew {
                path: path.into(),
                found: format,
                known: FORMAT,
            });
        }
        let body = rest.split_once(BODY_KEY).map(|(_, body)| body);
        let body = body.and_then(|body| body.strip_suffix(END));
        let body = body.ok_or_else(|| corrupt("the file is truncated"))?;
        if format == 0 || text != encode(format, body) {
            return Err(corrupt("its checksum differs"));
        }
        serde_json::from_str(body).map_err(|e| corrupt(&e.to_string()))
    }
}

fn encode(format: u32, body: &str) -> String {
    let crc = crc32c::crc32c(body.as_bytes());
    format!("{FORMAT_KEY}{format}{CRC_KEY}{crc:08x}{BODY_KEY}{body}{END}")
}

/// Returns the parts with file names in place of paths.
fn parts_by_name(detached: &DetachedPartition) -> Vec<PartMeta> {
    let mut parts = detached.parts.clone();
    for part in &mut parts {
        let name = part.file.path.rsplit('/').next();
        part.file.path = name.unwrap_or_default().to_owned();
    }
    parts
}

/// Returns the path of a live part once its partition is detached.
pub(crate) fn place(live: &str) -> String {
    let within = live.strip_prefix("streams/").unwrap_or(live);
    format!("{DIR}/{within}")
}

/// Returns the path of a folder's card.
pub(crate) fn card_path(folder: &str) -> String {
    format!("{folder}/{FILE}")
}

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
