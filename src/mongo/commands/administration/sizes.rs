//! `collStats` and `dbStats`.
//!
//! Sizes are those of files: parts are compressed, so that `size`, which counts the documents, is
//! that of the parts and of the memory of events that are in none yet.

use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::Arc;

use aggregator::Level;
use bson::{Bson, Document, doc};
use storage::{Name, Retention, Snapshot, TIME, index_use};

use super::indexes::listed;
use super::listing::{visible_rollups, without_collections};
use super::{few, long, on_disk, reader, visible, visible_stream};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;

/// The documents of a collection and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CollectionSize {
    pub(super) documents: u64,
    /// Bytes of files.
    pub(super) stored_bytes: u64,
    /// Bytes of memory.
    held_bytes: u64,
}

impl AddAssign for CollectionSize {
    fn add_assign(&mut self, other: Self) {
        self.documents += other.documents;
        self.stored_bytes += other.stored_bytes;
        self.held_bytes += other.held_bytes;
    }
}

impl CollectionSize {
    /// Returns the size of a stream.
    pub(super) fn of_stream(snapshot: &Snapshot, stream: &Name) -> Self {
        let mut size = Self::default();
        for part in snapshot.manifest().parts_of(stream) {
            size.documents += part.rows;
            size.stored_bytes += part.file.len;
        }
        for chunk in snapshot.chunks(stream.as_str()) {
            size.documents += chunk.events.num_rows() as u64;
            size.held_bytes += chunk.bytes() as u64;
        }
        size
    }

    /// Returns the size of a level: its cells.
    pub(super) fn of_level(snapshot: &Snapshot, rollup: u32, level: Level) -> Self {
        let mut size = Self::default();
        let files = snapshot.manifest().tiles_of(rollup).flat_map(|t| &t.files);
        for section in files.flat_map(|file| &file.sections) {
            if section.level == level.as_str() {
                size.documents += section.cells;
                size.stored_bytes += section.len;
            }
        }
        size
    }

    fn bytes(self) -> u64 {
        self.stored_bytes + self.held_bytes
    }

    /// Returns the mean bytes of a document; none without documents.
    fn mean(self) -> Option<u64> {
        self.bytes().checked_div(self.documents)
    }
}

/// Returns the bytes that a client counts as one.
fn scale(command: &MongoCommand<'_>) -> Result<u64> {
    let scale = command.integer("scale")?.unwrap_or(1);
    match u64::try_from(scale) {
        Ok(scale) if scale > 0 => Ok(scale),
        _ => Err(CommandError::new(
            code::BAD_VALUE,
            format!("'scale' is {scale}; it must be 1 or more"),
        )),
    }
}

/// `collStats`
pub(super) async fn of_collection(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["scale", "verbose"])?;
    let client = reader(connection, command)?;
    let (database, named) = (command.database()?, command.collection()?);
    let scale = scale(command)?;
    let serving = Arc::clone(connection.serving());
    let snapshot = serving.store.snapshot();
    let mut answer = doc! { "ns": format!("{database}.{named}") };
    let stream = match Collection::of(database, named, &snapshot)? {
        Collection::Stream(stream) => stream,
        Collection::Level { rollup, level } => {
            let known = visible_rollups(&client, &snapshot);
            let mut known = known.filter(|known| known.name.as_str() == rollup);
            let size = known.next().zip(Level::from_table(&level));
            let size =
                size.map(|(rollup, level)| CollectionSize::of_level(&snapshot, rollup.id, level));
            put_size(&mut answer, size.unwrap_or_default(), scale);
            put_indexes(&mut answer, IndexSizes::default(), scale);
            return Ok(answer);
        }
    };
    let is_there = visible_stream(&client, &snapshot, &stream).is_some();
    let retention = serving
        .config
        .store()
        .retention(snapshot.manifest(), &stream);
    // A collection that is not there has no documents, as in MongoDB.
    let (size, indexes) = match is_there {
        false => (CollectionSize::default(), IndexSizes::default()),
        true => {
            on_disk(move || {
                let size = CollectionSize::of_stream(&snapshot, &stream);
                Ok((size, IndexSizes::of_stream(&snapshot, &stream, retention)))
            })
            .await?
        }
    };
    put_size(&mut answer, size, scale);
    put_indexes(&mut answer, indexes, scale);
    if let Some(bytes) = retention.bytes.filter(|_| is_there) {
        answer.insert("capped", true);
        answer.insert("maxSize", long(bytes / scale));
    } else {
        answer.insert("capped", false);
    }
    Ok(answer)
}

/// The names of indexes, with their bytes, and of those that are being built.
#[derive(Debug, Default)]
struct IndexSizes {
    bytes: Vec<(String, u64)>,
    building: Vec<String>,
}

impl IndexSizes {
    fn of_stream(snapshot: &Snapshot, stream: &Name, retention: Retention) -> Self {
        let mut sizes = Self::default();
        for index in listed(snapshot, stream, retention) {
            if index.is_building {
                sizes.building.push(index.name.clone());
            }
            sizes.bytes.push((index.name, index.bytes));
        }
        sizes
    }
}

fn put_size(answer: &mut Document, size: CollectionSize, scale: u64) {
    answer.insert("size", long(size.bytes() / scale));
    answer.insert("count", long(size.documents));
    if let Some(mean) = size.mean() {
        answer.insert("avgObjSize", long(mean));
    }
    answer.insert("numOrphanDocs", 0);
    answer.insert("storageSize", long(size.stored_bytes / scale));
    answer.insert("freeStorageSize", 0);
}

fn put_indexes(answer: &mut Document, indexes: IndexSizes, scale: u64) {
    let total: u64 = indexes.bytes.iter().map(|(_, bytes)| bytes).sum();
    let stored = answer.get_i64("storageSize").unwrap_or(0).unsigned_abs();
    answer.insert("nindexes", few(indexes.bytes.len()));
    answer.insert("indexBuilds", indexes.building);
    answer.insert("totalIndexSize", long(total / scale));
    answer.insert("totalSize", long(stored + total / scale));
    let sizes = indexes.bytes.into_iter();
    let sizes: Document = sizes
        .map(|(name, bytes)| (name, long(bytes / scale)))
        .collect();
    answer.insert("indexSizes", sizes);
    answer.insert("scaleFactor", long(scale));
}

/// `dbStats`
pub(super) async fn of_database(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["scale", "freeStorage"])?;
    let client = reader(connection, command)?;
    let database = command.database()?;
    let scale = scale(command)?;
    let snapshot = connection.serving().store.snapshot();
    let (mut sum, mut streams) = (CollectionSize::default(), BTreeSet::new());
    let (mut own_indexes, mut views) = (0, 0);
    if !without_collections(database) {
        for (name, meta) in visible(&client, &snapshot) {
            sum += CollectionSize::of_stream(&snapshot, name);
            // The indexes of its `_id` and its time, and its order.
            own_indexes += 2 + usize::from(meta.order_by.iter().any(|column| column != TIME));
            streams.insert(name.clone());
        }
        views = visible_rollups(&client, &snapshot)
            .map(|r| r.levels.len())
            .sum();
    }
    let collections = streams.len();
    let indexes = on_disk(move || {
        let own = index_use(&snapshot).into_iter();
        let own = own.filter(|index| streams.contains(&index.name.stream));
        Ok(own.map(|index| index.disk_bytes).collect::<Vec<u64>>())
    })
    .await?;
    let index_bytes: u64 = indexes.iter().sum();
    Ok(doc! {
        "db": database,
        "collections": few(collections),
        "views": few(views),
        "objects": long(sum.documents),
        "avgObjSize": sum.mean().map_or(Bson::Double(0.0), |mean| Bson::Double(mean as f64)),
        "dataSize": long(sum.bytes() / scale),
        "storageSize": long(sum.stored_bytes / scale),
        "indexes": few(indexes.len() + own_indexes),
        "indexSize": long(index_bytes / scale),
        "totalSize": long((sum.stored_bytes + index_bytes) / scale),
        "scaleFactor": long(scale),
    })
}
