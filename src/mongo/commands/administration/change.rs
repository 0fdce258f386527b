//! `collMod`, `drop`, `dropDatabase` and `renameCollection`.
//!
//! Only the retention of a stream changes at run time. Any other command succeeds where nothing is
//! to be done, and names the way to the same end otherwise.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use ingest::TIME_FIELDS;
use storage::Name;

use super::listing::without_collections;
use super::retention::{AskedLimit, AskedRetention, retention_of, seconds};
use super::{
    VALIDATION, VIEW, administrator, exists, invalid, names_of, no_collection, refuse_options,
    visible,
};
use crate::mongo::command::{MongoCommand, number};
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;

const MODIFY_FIELDS: [&str; 3] = ["index", "expireAfterSeconds", "cappedSize"];
/// Fields of `collMod` that a stream cannot keep.
const MODIFY_REFUSED: [(&str, &str); 8] = [
    ("cappedMax", "retention counts bytes and age"),
    ("validator", VALIDATION),
    ("validationLevel", VALIDATION),
    ("validationAction", VALIDATION),
    ("viewOn", VIEW),
    ("pipeline", VIEW),
    (
        "timeseries",
        "partition of [stream.NAME] is the width of a stream's partitions",
    ),
    ("changeStreamPreAndPostImages", "events are never changed"),
];

/// `collMod`
pub(super) async fn modify(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let known = [&MODIFY_FIELDS[..], &names_of(&MODIFY_REFUSED)].concat();
    command.check_fields(&known)?;
    refuse_options(command, &MODIFY_REFUSED)?;
    administrator(connection, command)?;
    let stream = existing(connection, command)?;
    let mut asked = AskedRetention::default();
    if let Some(bytes) = command.integer("cappedSize")? {
        asked.bytes = AskedLimit::most("collMod.cappedSize", bytes)?;
    }
    let index = command.document("index")?;
    asked.age_s = match (index, command.get("expireAfterSeconds")) {
        (Some(index), _) => age_of_index(index)?,
        (None, Some(Bson::String(off))) if off == "off" => AskedLimit::Unlimited,
        (None, Some(_)) => {
            let age_s = command.integer("expireAfterSeconds")?.unwrap_or(0);
            AskedLimit::most("collMod.expireAfterSeconds", age_s)?
        }
        (None, None) => AskedLimit::AsItIs,
    };
    let has_index = index.is_some();
    let serving = Arc::clone(connection.serving());
    let before = retention_of(&serving, &stream);
    asked.set(&serving, &stream).await?;
    let after = retention_of(&serving, &stream);
    let mut answer = Document::new();
    for (name, retention) in [
        ("expireAfterSeconds_old", before),
        ("expireAfterSeconds_new", after),
    ] {
        if let Some(age_us) = retention.age_us.filter(|_| has_index) {
            answer.insert(name, seconds(age_us));
        }
    }
    Ok(answer)
}

/// Returns the age that a change of an index asks for.
fn age_of_index(index: &Document) -> Result<AskedLimit> {
    let known = ["name", "keyPattern", "expireAfterSeconds"];
    if let Some(other) = index.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(CommandError::new(
            code::COMMAND_NOT_SUPPORTED,
            format!(
                "'collMod.index.{other}' is not supported: an index is visible, and not unique"
            ),
        ));
    }
    let is_of_time = match (index.get_document("keyPattern"), index.get_str("name")) {
        (Ok(key), _) => {
            key.len() == 1
                && key
                    .keys()
                    .all(|field| TIME_FIELDS.contains(&field.as_str()))
        }
        (Err(_), Ok(name)) => TIME_FIELDS.iter().any(|time| name == format!("{time}_1")),
        (Err(_), Err(_)) => return Err(invalid("'collMod.index' needs 'name' or 'keyPattern'")),
    };
    if !is_of_time {
        return Err(invalid(
            "'collMod.index' must be that of the time: events expire by their time",
        ));
    }
    match index.get("expireAfterSeconds").map(number) {
        Some(Some(age_s)) => AskedLimit::most("collMod.index.expireAfterSeconds", age_s),
        Some(None) => Err(invalid("'collMod.index.expireAfterSeconds' is no number")),
        None => Ok(AskedLimit::AsItIs),
    }
}

/// Returns the stream of a command that must exist.
fn existing(connection: &MongoConnection, command: &MongoCommand<'_>) -> Result<Name> {
    let (database, named) = (command.database()?, command.collection()?);
    let snapshot = connection.serving().store.snapshot();
    match Collection::of(database, named, &snapshot)? {
        Collection::Stream(stream) if exists(&snapshot, &stream) => Ok(stream),
        Collection::Stream(_) => Err(no_collection(named)),
        Collection::Level { rollup, level } => Err(CommandError::new(
            code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!(
                "'{rollup}.{level}' is a level of the rollup {rollup}: [rollup.{rollup}] of logmill.toml defines it"
            ),
        )),
    }
}

/// `drop`: only of a collection without events.
pub(super) async fn drop(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    administrator(connection, command)?;
    match existing(connection, command) {
        // A program may drop its collections before it begins.
        Err(error) if error.code == code::NAMESPACE_NOT_FOUND => Ok(doc! {}),
        Err(error) => Err(error),
        Ok(stream) if !has_events(connection, &stream) => {
            let limits = AskedRetention {
                age_s: AskedLimit::Unlimited,
                bytes: AskedLimit::Unlimited,
            };
            limits.set(connection.serving(), &stream).await?;
            Ok(doc! {})
        }
        Ok(stream) => Err(not_dropped(format!(
            "the stream {stream} stays, for its rollups count it; `logmill partition drop {stream} FROM..TO` drops its events"
        ))),
    }
}

fn has_events(connection: &MongoConnection, stream: &Name) -> bool {
    let snapshot = connection.serving().store.snapshot();
    snapshot.streams().contains_key(stream)
}

/// `dropDatabase`: only of one without streams.
pub(super) fn drop_database(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let client = administrator(connection, command)?;
    let database = command.database()?;
    let snapshot = connection.serving().store.snapshot();
    let has_streams = visible(&client, &snapshot).next().is_some();
    if without_collections(database) {
        let message = format!("the database {database} is MongoDB's own and cannot be dropped");
        return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
    }
    match has_streams {
        false => Ok(doc! { "dropped": database }),
        true => Err(not_dropped(
            "streams belong to no database, and stay; `logmill partition drop NAME FROM..TO` drops the events of one"
                .to_owned(),
        )),
    }
}

/// `renameCollection`
pub(super) fn rename(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    administrator(connection, command)?;
    Err(not_dropped(
        "a stream keeps its name; `logmill partition detach NAME FROM..TO` moves its events into folders, and `logmill import --format logmill FOLDER --stream OTHER` brings them into another stream"
            .to_owned(),
    ))
}

fn not_dropped(message: String) -> CommandError {
    CommandError::new(code::COMMAND_NOT_SUPPORTED, message)
}
