//! `createIndexes`: the columns of a stream that get an index for the keys that a client asks for.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use ingest::TIME_FIELDS;
use storage::{ColumnType, IndexKind, Kind, Name, Snapshot, Store, StreamKind};

use super::index_key::{IndexKey, cannot};
use super::indexes::{listed, order_by};
use super::retention::{AskedLimit, AskedRetention};
use super::{administrator, few, on_disk};
use crate::mongo::command::{MongoCommand, number};
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;

/// Maximum indexes of a collection, as in MongoDB.
const INDEXES_MAX: usize = 64;
/// Options of an index that ask for nothing here.
const IGNORED: [&str; 7] = [
    "v",
    "ns",
    "background",
    "sparse",
    "storageEngine",
    "name",
    "key",
];

/// An index that a client asks for.
#[derive(Debug)]
struct AskedIndex {
    key: IndexKey,
    name: Option<String>,
    age_s: AskedLimit,
}

impl AskedIndex {
    /// Reads the specification of an index.
    fn parse(asked: &Document) -> Result<Self> {
        let key = asked.get_document("key");
        let key =
            key.map_err(|_| cannot("an index needs 'key': its fields with their directions"))?;
        let key = IndexKey::parse(key)?;
        let mut age_s = AskedLimit::AsItIs;
        for (name, value) in asked {
            let is_off = matches!(value, Bson::Null | Bson::Boolean(false));
            match name.as_str() {
                name if IGNORED.contains(&name) => {}
                _ if is_off => {}
                "expireAfterSeconds" => {
                    let number = number(value)
                        .ok_or_else(|| cannot("'expireAfterSeconds' is no whole number"))?;
                    age_s = AskedLimit::most("expireAfterSeconds", number)?;
                }
                name => return Err(unsupported(name)),
            }
        }
        if age_s != AskedLimit::AsItIs && !key.only().is_some_and(|f| TIME_FIELDS.contains(&f)) {
            return Err(cannot(format!(
                "events expire by their time, which is in one of {}; 'expireAfterSeconds' needs an index of that alone",
                TIME_FIELDS.join(", ")
            )));
        }
        let name = asked.get_str("name").ok().map(str::to_owned);
        Ok(Self { key, name, age_s })
    }

    /// Returns the columns that need an index for it.
    fn columns(&self, order_by: &[String]) -> Vec<String> {
        // The fields of the time are one: retention counts by it, and partitions have it.
        match self.age_s {
            AskedLimit::AsItIs => {
                let columns = self.key.columns(order_by).into_iter();
                columns.map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn unsupported(option: &str) -> CommandError {
    let why = match option {
        "unique" | "prepareUnique" | "dropDups" => {
            "an insert appends events, and does not look for equal ones, not by _id either"
        }
        "hidden" => "drop the index instead",
        "partialFilterExpression" => "leave it out: an index has all events",
        "collation" => "texts compare by their bytes",
        _ => {
            return CommandError::new(
                code::INVALID_INDEX_SPECIFICATION_OPTION,
                format!("an index has no option '{option}'"),
            );
        }
    };
    cannot(format!("'{option}' is not supported: {why}"))
}

/// Returns the indexes that a command asks for.
fn asked_by_create(command: &MongoCommand<'_>) -> Result<Vec<AskedIndex>> {
    let Some(Bson::Array(asked)) = command.get("indexes") else {
        return Err(command.missing("indexes"));
    };
    if asked.is_empty() || asked.len() > INDEXES_MAX {
        let message = format!("'createIndexes.indexes' has from 1 to {INDEXES_MAX} indexes");
        return Err(CommandError::new(code::BAD_VALUE, message));
    }
    let asked = asked.iter().map(|asked| match asked.as_document() {
        Some(asked) => AskedIndex::parse(asked),
        None => Err(CommandError::new(
            code::TYPE_MISMATCH,
            "'createIndexes.indexes' has something that is no object",
        )),
    });
    asked.collect()
}

/// Returns the age by which events expire as the indexes ask.
fn new_age(asked: &[AskedIndex]) -> Result<AskedRetention> {
    let limits = asked.iter().map(|index| index.age_s);
    let mut limits = limits.filter(|age_s| *age_s != AskedLimit::AsItIs);
    let first = limits.next().unwrap_or_default();
    match limits.all(|other| other == first) {
        true => Ok(AskedRetention::of_age(first)),
        false => Err(cannot(
            "events expire by one age; ask for one index of the time",
        )),
    }
}

/// `createIndexes`
pub(super) async fn create(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&["indexes", "commitQuorum", "ignoreUnknownIndexOptions"])?;
    let _client = administrator(connection, command)?;
    let asked = asked_by_create(command)?;
    let serving = Arc::clone(connection.serving());
    let snapshot = serving.store.snapshot();
    let stream = match Collection::of(command.database()?, command.collection()?, &snapshot)? {
        Collection::Stream(stream) => stream,
        Collection::Level { rollup, level } => {
            let note = format!("'{rollup}.{level}' is sorted by the keys of the rollup {rollup}");
            return Ok(created(1, 1, &[note]));
        }
    };
    let config = serving.config.store();
    let retention = config.retention(snapshot.manifest(), &stream);
    let age = new_age(&asked)?;
    let has_new_age = age.changes(&config, snapshot.manifest(), &stream)?;
    if has_new_age && retention.age_us.is_some() {
        let message = "events expire by another age already; change it by collMod";
        return Err(CommandError::new(code::INDEX_OPTIONS_CONFLICT, message));
    }
    on_disk(move || {
        let known = listed(&snapshot, &stream, retention);
        let indexed = known.iter().filter_map(|index| index.column.clone());
        let mut plan = IndexPlan::new(indexed.collect());
        for index in &asked {
            plan.add(index, &snapshot, &stream);
        }
        let after = known.len() + plan.wanted.len() + usize::from(has_new_age);
        if after > INDEXES_MAX {
            let message = format!("a collection has at most {INDEXES_MAX} indexes");
            return Err(cannot(message));
        }
        age.apply(&serving, &stream)?;
        for column in &plan.wanted {
            want(&serving.store, &stream, column)?;
        }
        if after == known.len() && plan.notes.is_empty() {
            plan.notes.push("every index is there already".to_owned());
        }
        Ok(created(known.len(), after, &plan.notes))
    })
    .await
}

/// The columns that are to get an index.
#[derive(Debug)]
struct IndexPlan {
    /// Columns that have one.
    indexed: Vec<String>,
    wanted: Vec<String>,
    notes: Vec<String>,
}

impl IndexPlan {
    fn new(indexed: Vec<String>) -> Self {
        Self {
            indexed,
            wanted: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds the columns of an index, but for those that have one or cannot have any.
    fn add(&mut self, index: &AskedIndex, snapshot: &Snapshot, stream: &Name) {
        let meta = snapshot.streams().get(stream);
        if meta.is_some_and(|meta| meta.kind == StreamKind::Counters) {
            let note = "documents of counters are sums of events, and need no index";
            return self.notes.push(note.to_owned());
        }
        let columns = index.columns(order_by(snapshot, stream));
        self.notes.extend(note(index, &columns));
        for column in columns {
            use ColumnType::{Int16, Int64, Text};
            match meta.and_then(|meta| meta.column_type(&column)) {
                None | Some(Text | Int16 | Int64) => {
                    if !self.indexed.contains(&column) && !self.wanted.contains(&column) {
                        self.wanted.push(column);
                    }
                }
                Some(_) => self.notes.push(format!(
                    "{column} needs no index: the bounds of parts and pages serve its conditions"
                )),
            }
        }
    }
}

/// Creates an index of a column, which the stream may not have yet.
fn want(store: &Store, stream: &Name, column: &str) -> Result<()> {
    match store.want_index(stream, column, IndexKind::Inverted) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == Kind::Invalid => Err(cannot(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Returns a note where an index is served by other means than one of its name.
fn note(index: &AskedIndex, columns: &[String]) -> Option<String> {
    let name = index.key.name();
    let named = index.name.as_ref().filter(|named| **named != name);
    match columns {
        [] => Some(format!(
            "{name} is served by the order and the partitions of the stream"
        )),
        [column] if index.key.only() == Some(column.as_str()) => named.map(|named| {
            format!(
                "{named} is listed as {}",
                IndexKey::of_column(column).name()
            )
        }),
        columns => Some(format!(
            "{name} is served by an index of each column: {}",
            columns.join(", ")
        )),
    }
}

fn created(before: usize, after: usize, notes: &[String]) -> Document {
    let mut answer = doc! {
        "numIndexesBefore": few(before),
        "numIndexesAfter": few(after),
        "createdCollectionAutomatically": false,
    };
    if !notes.is_empty() {
        answer.insert("note", notes.join("; "));
    }
    answer
}
