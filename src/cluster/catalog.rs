//! The catalog of a cluster: the streams with their shard keys, and the columns upon which all
//! shards agree.
//!
//! A server that takes a batch brings its columns into the catalog before it divides the batch, so
//! that no two shards have a column under two types.
//!
//! # Invariants
//! * The catalog changes by compare-and-swap, and only grows: a stream keeps its kind and its shard
//!   key, a column its type, but that integers become floats once. So an old copy of it is right
//!   in all that it says, and a change that came twice changes nothing.
//! * A batch is divided only when the catalog has its stream and all of its columns.
//! * Streams stand in the order in which they came. Each shard creates them in that order, so that
//!   all of them give the default rollups to the same streams.

mod place;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use storage::{Batch, Column, Division, HotValues, Name, ShardKey, StreamKind, agree};

use crate::config::Config;
pub(crate) use place::CatalogChange;
pub(super) use place::{CatalogPlace, FirstShard, ObjectCatalog, OwnCatalog, Replaced};

/// Layout of the catalog.
const FORMAT: u32 = 1;
/// Attempts to change the catalog while others change it, too.
const ATTEMPTS_MAX: u32 = 64;
/// Time after a failure in which a parser does not wait for the catalog again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The catalog of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalog {
    format: u32,
    /// The number of shards, for ever.
    shards: u16,
    streams: Vec<CatalogStream>,
}

/// A stream of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogStream {
    pub(super) name: Name,
    pub(super) kind: StreamKind,
    pub(super) shard_key: ShardKey,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hot_values: Vec<Vec<String>>,
    columns_max: usize,
    pub(super) columns: Vec<Column>,
}

impl CatalogStream {
    pub(super) fn hot_values(&self) -> HotValues {
        HotValues::of(&self.hot_values)
    }

    /// Returns the rule by which its events come to a shard.
    pub(super) fn division_at(&self, shard: u16, shards: u16) -> Option<Division> {
        Division::of(shard, shards, &self.shard_key, &self.hot_values)
    }
}

/// A version of the catalog as its place has it.
#[derive(Debug)]
struct KnownCatalog {
    catalog: Catalog,
    tag: Option<String>,
}

/// The catalog at its place, and the version that this server has read last.
#[derive(Debug)]
pub(super) struct SharedCatalog {
    place: Box<dyn CatalogPlace>,
    shards: u16,
    config: Config,
    known: Mutex<Option<Arc<KnownCatalog>>>,
    /// The time of the last failure to read it for a parser.
    failed: Mutex<Option<Instant>>,
}

impl SharedCatalog {
    pub(super) fn new(place: Box<dyn CatalogPlace>, shards: u16, config: &Config) -> Self {
        Self {
            place,
            shards,
            config: config.clone(),
            known: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Returns a stream as it was a moment ago; `None` if the cluster did not have it then. A
    /// parser chooses the columns of values by it, and moves others to `_rest`.
    pub(super) fn stream(&self, name: &Name) -> Option<CatalogStream> {
        let known = self.known.lock().clone();
        let is_near = self.place.is_near();
        let is_known = |known: &Arc<KnownCatalog>| {
            let stream = known.catalog.stream(name);
            // The columns of access logs never change.
            stream.is_some_and(|stream| !is_near || stream.kind == StreamKind::Access)
        };
        let known = match known {
            Some(known) if is_known(&known) => Some(known),
            // Without the catalog, an older version is right in all that it says.
            other => {
                let has_stream = |known: &KnownCatalog| known.catalog.stream(name).is_some();
                let failed = match other.as_deref().is_some_and(has_stream) {
                    // Another parser reads it.
                    true => self.failed.try_lock(),
                    false => Some(self.failed.lock()),
                };
                failed.and_then(|failed| self.read_after(failed)).or(other)
            }
        };
        known?.catalog.stream(name).cloned()
    }

    /// Reads the catalog, unless that has failed a moment ago.
    fn read_after(&self, mut failed: MutexGuard<'_, Option<Instant>>) -> Option<Arc<KnownCatalog>> {
        if failed.is_some_and(|at| at.elapsed() < AGAIN_AFTER) {
            return None;
        }
        let read = self.read();
        *failed = read.is_err().then(Instant::now);
        read.ok()
    }

    /// Reads the catalog for those who use it next. Returns its last stream.
    pub(super) fn follow(&self) -> Option<Name> {
        let known = self.read().ok()?;
        known
            .catalog
            .streams
            .last()
            .map(|stream| stream.name.clone())
    }

    /// Returns the streams up to this one, in the order in which the cluster got them.
    ///
    /// # Errors
    /// If the catalog cannot be read, or does not have the stream.
    pub(super) fn streams_to(&self, name: &Name) -> storage::Result<Vec<CatalogStream>> {
        let known = self.known.lock().clone();
        let found = known.and_then(|known| known.catalog.streams_to(name));
        let found = match found {
            Some(found) => Some(found),
            None => self.read()?.catalog.streams_to(name),
        };
        found.ok_or_else(|| storage::Error::Overloaded {
            what: format!("the catalog of the cluster does not have the stream {name} yet"),
        })
    }

    /// Brings the stream of a batch and its columns into the catalog, and fits the batch to them.
    ///
    /// # Errors
    /// [`storage::Error::Overloaded`] if the catalog cannot be read or changed; then nothing of the
    /// batch may be stored. [`storage::Error::Invalid`] if the values without a column are too
    /// long.
    pub(super) fn agree(&self, batch: &mut Batch) -> storage::Result<CatalogStream> {
        let known = self.known.lock().clone();
        let mut known = match known {
            Some(known) => known,
            None => self.read()?,
        };
        for _ in 0..ATTEMPTS_MAX {
            let stream = known.catalog.stream(&batch.stream).cloned();
            let (mut stream, is_new) = match stream {
                Some(stream) => (stream, false),
                None => (self.new_stream(&batch.stream, batch.kind), true),
            };
            // A change that fails leaves the batch as it is.
            let mut fitted = batch.clone();
            let (kind, most) = (stream.kind, stream.columns_max);
            let columns = agree(kind, &stream.columns, most, &mut fitted)?;
            let is_known = columns.is_none() && !is_new;
            stream.columns = columns.unwrap_or(stream.columns);
            if !is_known && !self.replace(&known, known.catalog.with(&stream))? {
                known = self.read()?;
                continue;
            }
            fitted.kind = stream.kind;
            *batch = fitted;
            return Ok(stream);
        }
        Err(unavailable("it changes too often"))
    }

    /// Returns a stream as the cluster has it, or as it would get it with its first event.
    ///
    /// # Errors
    /// [`storage::Error::Overloaded`] if the catalog cannot be read.
    pub(super) fn stream_to_be(
        &self,
        name: &Name,
        kind: StreamKind,
    ) -> storage::Result<CatalogStream> {
        let known = self.known.lock().clone();
        let stream = known.and_then(|known| known.catalog.stream(name).cloned());
        Ok(match stream {
            Some(stream) => stream,
            None => {
                let known = self.read()?;
                let stream = known.catalog.stream(name).cloned();
                stream.unwrap_or_else(|| self.new_stream(name, kind))
            }
        })
    }

    /// Returns the entry of a stream that appears.
    fn new_stream(&self, name: &Name, kind: StreamKind) -> CatalogStream {
        let configured = self.config.shard_key(name.as_str()).ok().flatten();
        let (shard_key, hot_values) = configured.unwrap_or_else(|| {
            let key = match kind {
                StreamKind::Access => "site, path",
                _ => "batch",
            };
            (key.parse().expect("BUG: a key"), Vec::new())
        });
        CatalogStream {
            name: name.clone(),
            kind,
            shard_key,
            hot_values,
            columns_max: self.config.ingest.columns_max,
            columns: storage::Config::first_columns(kind),
        }
    }

    /// Reads the catalog; without one, the first version.
    fn read(&self) -> storage::Result<Arc<KnownCatalog>> {
        let found = self.place.load().map_err(|why| unavailable(&why))?;
        let known = self.known.lock().clone();
        let is_it = |known: &Arc<KnownCatalog>| {
            let tag = found.as_ref().map(|(_, tag)| tag);
            known.tag.as_ref() == tag
        };
        if let Some(known) = known.filter(is_it) {
            return Ok(known);
        }
        let (catalog, tag) = match found {
            Some((text, tag)) => (Catalog::parse(&text)?, Some(tag)),
            None => (Catalog::new(self.shards), None),
        };
        if catalog.shards != self.shards {
            return Err(storage::Error::Invalid {
                what: format!(
                    "the cluster has {} shards, and shards of [cluster] is {} at this server: let them agree",
                    catalog.shards, self.shards
                ),
            });
        }
        let known = Arc::new(KnownCatalog { catalog, tag });
        *self.known.lock() = Some(Arc::clone(&known));
        Ok(known)
    }

    /// Replaces the catalog. Returns whether it was the known one.
    fn replace(&self, known: &KnownCatalog, next: Catalog) -> storage::Result<bool> {
        let text = serde_json::to_string(&next).expect("BUG: a catalog is plain values");
        let replaced = self.place.replace(known.tag.as_deref(), &text);
        match replaced {
            Ok(Replaced::Done(tag)) => {
                let known = Arc::new(KnownCatalog {
                    catalog: next,
                    tag: Some(tag),
                });
                *self.known.lock() = Some(known);
                Ok(true)
            }
            Ok(Replaced::Other) => Ok(false),
            // It may have happened: the next attempt finds it there, and changes nothing.
            Err(why) => Err(unavailable(&why)),
        }
    }
}

impl Catalog {
    fn new(shards: u16) -> Self {
        Self {
            format: FORMAT,
            shards,
            streams: Vec::new(),
        }
    }

    fn parse(text: &str) -> storage::Result<Self> {
        let parsed: serde_json::Result<Self> = serde_json::from_str(text);
        match parsed {
            Ok(catalog) if catalog.format == FORMAT => Ok(catalog),
            Ok(catalog) => Err(unavailable(&format!(
                "it has format {}; let all servers have one version of logmill",
                catalog.format
            ))),
            Err(why) => Err(unavailable(&format!("it cannot be read: {why}"))),
        }
    }

    fn stream(&self, name: &Name) -> Option<&CatalogStream> {
        self.streams.iter().find(|stream| stream.name == *name)
    }

    fn streams_to(&self, name: &Name) -> Option<Vec<CatalogStream>> {
        let end = self.streams.iter().position(|s| s.name == *name)?;
        Some(self.streams[..=end].to_vec())
    }

    /// Returns the catalog with a stream, in the place of the one of its name or at the end.
    fn with(&self, stream: &CatalogStream) -> Self {
        let mut next = self.clone();
        match next.streams.iter_mut().find(|s| s.name == stream.name) {
            Some(known) => known.clone_from(stream),
            None => next.streams.push(stream.clone()),
        }
        next
    }
}

fn unavailable(why: &str) -> storage::Error {
    storage::Error::Overloaded {
        what: format!("the catalog of the cluster: {why}"),
    }
}

#[cfg(test)]
mod tests;
