//! `listIndexes` and `dropIndexes`.
//!
//! A stream has the indexes `_id_` and `time_1`, that of its order, and one for each indexed
//! column. All are listed under the names that drivers give by default.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use storage::{ID, Name, Retention, Snapshot, TIME, index_use};

use super::index_key::IndexKey;
use super::listing::cursor;
use super::retention::{AskedLimit, AskedRetention, seconds};
use super::{administrator, exists, few, no_collection, on_disk, reader};
use crate::access::{Action, Target};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;

/// The index of `_id`.
const ID_INDEX: &str = "_id_";

/// An index as clients see it.
#[derive(Debug, Clone)]
pub(super) struct ListedIndex {
    pub(super) name: String,
    pub(super) key: Document,
    pub(super) bytes: u64,
    pub(super) is_building: bool,
    expire_after_s: Option<i64>,
    /// The column, if the index is one of a column.
    pub(super) column: Option<String>,
}

impl ListedIndex {
    fn of_key(key: &IndexKey) -> Self {
        Self {
            name: key.name(),
            key: key.document(),
            bytes: 0,
            is_building: false,
            expire_after_s: None,
            column: None,
        }
    }

    fn document(&self) -> Document {
        let mut document = doc! { "v": 2, "key": &self.key, "name": &self.name };
        if let Some(age_s) = self.expire_after_s {
            document.insert("expireAfterSeconds", age_s);
        }
        document
    }
}

/// Returns the indexes of a stream, which may not exist yet. It reads from the disk.
pub(super) fn listed(snapshot: &Snapshot, stream: &Name, retention: Retention) -> Vec<ListedIndex> {
    let of_id = ListedIndex {
        name: ID_INDEX.to_owned(),
        ..ListedIndex::of_key(&IndexKey::of_column(ID))
    };
    let of_time = ListedIndex {
        expire_after_s: retention.age_us.map(seconds),
        ..ListedIndex::of_key(&IndexKey::of_column(TIME))
    };
    let mut all = vec![of_id, of_time];
    let order_by = order_by(snapshot, stream);
    if order_by.iter().any(|column| column != TIME) {
        all.push(ListedIndex::of_key(&IndexKey::of_order(order_by)));
    }
    let columns = index_use(snapshot).into_iter();
    let columns = columns.filter(|index| index.name.stream == *stream);
    all.extend(columns.map(|index| ListedIndex {
        bytes: index.disk_bytes,
        is_building: index.parts_waiting > 0,
        column: Some(index.name.field.clone()),
        ..ListedIndex::of_key(&IndexKey::of_column(&index.name.field))
    }));
    all
}

/// Returns the columns by which a stream is sorted; none if it does not exist.
pub(super) fn order_by<'a>(snapshot: &'a Snapshot, stream: &Name) -> &'a [String] {
    let meta = snapshot.streams().get(stream);
    meta.map_or(&[], |meta| meta.order_by.as_slice())
}

/// `listIndexes`
pub(super) async fn list(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["cursor", "includeBuildUUIDs", "includeIndexBuildInfo"])?;
    let client = reader(connection, command)?;
    let (database, named) = (command.database()?, command.collection()?);
    let namespace = format!("{database}.{named}");
    let serving = Arc::clone(connection.serving());
    let snapshot = serving.store.snapshot();
    let stream = match Collection::of(database, named, &snapshot)? {
        Collection::Stream(stream) => stream,
        Collection::Level { .. } => {
            let of_id = doc! { "v": 2, "key": { "_id": 1 }, "name": ID_INDEX };
            return cursor(&namespace, vec![of_id]);
        }
    };
    if !client.may(Action::Read, Target::Stream(stream.as_str())) {
        return Err(no_collection(named));
    }
    let retention = serving
        .config
        .store()
        .retention(snapshot.manifest(), &stream);
    let exists = exists(&snapshot, &stream);
    let all = on_disk(move || Ok(listed(&snapshot, &stream, retention))).await?;
    // An index may be wanted of a stream before its first event.
    match exists || all.iter().any(|index| index.column.is_some()) {
        true => cursor(&namespace, all.iter().map(ListedIndex::document).collect()),
        false => Err(no_collection(named)),
    }
}

/// The indexes that a command drops.
#[derive(Debug, PartialEq)]
enum DroppedIndexes {
    All,
    These(Vec<IndexKey>),
}

impl DroppedIndexes {
    fn parse(command: &MongoCommand<'_>) -> Result<Self> {
        let by_name = |name: &str| match (name, IndexKey::of_name(name)) {
            (ID_INDEX, _) => Err(stays()),
            (_, Some(key)) => Ok(key),
            (_, None) => Err(not_found(name)),
        };
        match command.get("index") {
            Some(Bson::String(name)) if name == "*" => Ok(Self::All),
            Some(Bson::String(name)) => Ok(Self::These(vec![by_name(name)?])),
            Some(Bson::Document(key)) => {
                let key = IndexKey::parse(key)?;
                match key.only() == Some(ID) {
                    true => Err(stays()),
                    false => Ok(Self::These(vec![key])),
                }
            }
            Some(Bson::Array(names)) => {
                let keys = names.iter().map(|name| match name.as_str() {
                    Some(name) => by_name(name),
                    None => Err(command.missing("index")),
                });
                Ok(Self::These(keys.collect::<Result<_>>()?))
            }
            _ => Err(command.missing("index")),
        }
    }

    /// Returns the retention without the indexes: the one of the time expires events. Those of the
    /// configuration stay where all indexes are dropped.
    fn retention(&self, is_configured: bool) -> AskedRetention {
        let is_of_time = |key: &IndexKey| key.only() == Some(TIME);
        let expires = match self {
            Self::All => !is_configured,
            Self::These(keys) => keys.iter().any(is_of_time),
        };
        AskedRetention::of_age(match expires {
            true => AskedLimit::Unlimited,
            false => AskedLimit::AsItIs,
        })
    }

    /// Returns the columns whose indexes are dropped, and a note.
    fn columns(
        &self,
        known: &[ListedIndex],
        (order_by, configured): (&[String], &[String]),
    ) -> Result<(Vec<String>, Option<String>)> {
        let indexed = || known.iter().filter_map(|index| index.column.clone());
        let keys = match self {
            Self::All => {
                let (stay, go) = indexed().partition::<Vec<_>, _>(|c| configured.contains(c));
                let note = (!stay.is_empty())
                    .then(|| format!("indexes in logmill.toml stay: {}", stay.join(", ")));
                return Ok((go, note));
            }
            Self::These(keys) => keys,
        };
        let mut dropped = Vec::new();
        let mut note = None;
        for key in keys {
            let columns = key.columns(order_by);
            if columns.is_empty() {
                note = Some("the order and the partitions of a stream stay".to_owned());
            }
            let found = indexed().filter(|column| columns.contains(&column.as_str()));
            let found: Vec<String> = found.collect();
            if found.is_empty() && !columns.is_empty() {
                return Err(not_found(&key.name()));
            }
            dropped.extend(found);
        }
        dropped.sort_unstable();
        dropped.dedup();
        Ok((dropped, note))
    }
}

fn stays() -> CommandError {
    CommandError::new(code::INVALID_OPTIONS, "the index of _id stays")
}

fn not_found(name: &str) -> CommandError {
    CommandError::new(
        code::INDEX_NOT_FOUND,
        format!("there is no index {name}; listIndexes has the names"),
    )
}

/// `dropIndexes`
pub(super) async fn drop(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["index"])?;
    let _client = administrator(connection, command)?;
    let (database, named) = (command.database()?, command.collection()?);
    let asked = DroppedIndexes::parse(command)?;
    let serving = Arc::clone(connection.serving());
    let snapshot = serving.store.snapshot();
    let stream = match Collection::of(database, named, &snapshot)? {
        Collection::Stream(stream) => stream,
        Collection::Level { .. } => return Err(not_found("of a level but _id_")),
    };
    let config = serving.config.store();
    let retention = config.retention(snapshot.manifest(), &stream);
    let without = asked.retention(config.sets_retention(&stream));
    without.changes(&config, snapshot.manifest(), &stream)?;
    let exists = exists(&snapshot, &stream);
    let missing = no_collection(named);
    on_disk(move || {
        let known = listed(&snapshot, &stream, retention);
        if !exists && known.iter().all(|index| index.column.is_none()) {
            return Err(missing);
        }
        let own = config.streams.get(&stream);
        let own = own.map(|own| [&own.indexes[..], &own.covering[..]].concat());
        let own = own.unwrap_or_default();
        let (columns, note) = asked.columns(&known, (order_by(&snapshot, &stream), &own[..]))?;
        without.apply(&serving, &stream)?;
        for column in &columns {
            serving.store.drop_index(&stream, column)?;
        }
        let mut answer = doc! { "nIndexesWas": few(known.len()) };
        if let Some(note) = note {
            answer.insert("note", note);
        }
        Ok(answer)
    })
    .await
}
