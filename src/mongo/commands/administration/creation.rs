//! `create`: a stream is created by its first insert; only its retention may be set before.

use std::sync::Arc;

use bson::{Document, doc};
use ingest::TIME_FIELDS;

use super::retention::{AskedLimit, AskedRetention};
use super::{VALIDATION, VIEW, exists, invalid, names_of, refuse_options, require};
use crate::access::{Action, Target};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::namespace::Collection;
use crate::mongo::session::MongoConnection;

/// Fields of `create` that ask for retention, or for nothing that a stream has not.
const CREATE_FIELDS: [&str; 8] = [
    "capped",
    "size",
    "timeseries",
    "expireAfterSeconds",
    "autoIndexId",
    "idIndex",
    "storageEngine",
    "indexOptionDefaults",
];
/// Fields of `create` that a stream cannot keep.
const CREATE_REFUSED: [(&str, &str); 10] = [
    ("max", "retention counts bytes and age"),
    ("viewOn", VIEW),
    ("pipeline", VIEW),
    ("validator", VALIDATION),
    ("validationLevel", VALIDATION),
    ("validationAction", VALIDATION),
    ("collation", "texts compare by their bytes"),
    (
        "clusteredIndex",
        "order_by of [stream.NAME] is the order of a stream",
    ),
    ("changeStreamPreAndPostImages", "events are never changed"),
    ("encryptedFields", "encrypt values in the client"),
];
/// Fields of a time series. The others only place documents on the disk.
const TIMESERIES_FIELDS: [&str; 5] = [
    "timeField",
    "metaField",
    "granularity",
    "bucketMaxSpanSeconds",
    "bucketRoundingSeconds",
];

/// `create`
pub(super) async fn create(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    let known = [&CREATE_FIELDS[..], &names_of(&CREATE_REFUSED)].concat();
    command.check_fields(&known)?;
    refuse_options(command, &CREATE_REFUSED)?;
    let client = connection.client(command.name)?;
    let (database, named) = (command.database()?, command.collection()?);
    let serving = Arc::clone(connection.serving());
    let snapshot = serving.store.snapshot();
    let stream = match Collection::of(database, named, &snapshot)? {
        Collection::Stream(stream) => stream,
        Collection::Level { rollup, level } => {
            require(&client, command, Action::Ingest, Target::Visible)?;
            let message = format!("'{rollup}.{level}' is a level of the rollup {rollup}");
            return Err(CommandError::new(code::NAMESPACE_EXISTS, message));
        }
    };
    // A client that may insert creates the stream by its first insert.
    require(
        &client,
        command,
        Action::Ingest,
        Target::Stream(stream.as_str()),
    )?;
    let asked = asked_by_create(command)?;
    let manifest = snapshot.manifest();
    let changes = asked.changes(&serving.config.store(), manifest, &stream);
    if exists(&snapshot, &stream) && changes != Ok(false) {
        let message = format!("the stream {stream} exists, with another retention; see collMod");
        return Err(CommandError::new(code::NAMESPACE_EXISTS, message));
    }
    if changes? {
        require(&client, command, Action::Administer, Target::Store)?;
        asked.set(&serving, &stream).await?;
    }
    Ok(doc! {})
}

/// Returns the retention that `create` asks for.
fn asked_by_create(command: &MongoCommand<'_>) -> Result<AskedRetention> {
    let is_capped = command.boolean("capped")?.unwrap_or(false);
    let (size, series) = (command.integer("size")?, command.document("timeseries")?);
    let age_s = match (command.integer("expireAfterSeconds")?, series) {
        (Some(_), None) => {
            return Err(invalid(
                "'create.expireAfterSeconds' needs 'timeseries'; for other collections create an index of time with it",
            ));
        }
        (age_s, _) => age_s,
    };
    if let Some(series) = series {
        check_series(series)?;
        if is_capped {
            return Err(invalid("a collection is capped or a time series, not both"));
        }
    }
    let bytes = match (is_capped, size) {
        (true, None) => return Err(invalid("'create.capped' needs 'size', in bytes")),
        (false, Some(_)) => return Err(invalid("'create.size' needs 'capped: true'")),
        (_, size) => size,
    };
    let limit = |name, number: Option<i64>| match number {
        Some(number) => AskedLimit::most(name, number),
        None => Ok(AskedLimit::AsItIs),
    };
    Ok(AskedRetention {
        age_s: limit("create.expireAfterSeconds", age_s)?,
        bytes: limit("create.size", bytes)?,
    })
}

/// Checks that a time series is one by the time of its events.
fn check_series(series: &Document) -> Result<()> {
    let mut names = series.keys().map(String::as_str);
    if let Some(unknown) = names.find(|name| !TIMESERIES_FIELDS.contains(name)) {
        let message = format!("'create.timeseries' has the unknown field '{unknown}'");
        return Err(CommandError::new(code::UNKNOWN_FIELD, message));
    }
    match series.get_str("timeField") {
        Err(_) => Err(invalid(
            "'create.timeseries.timeField' is missing, or no text",
        )),
        Ok(field) if TIME_FIELDS.contains(&field) => Ok(()),
        Ok(field) => Err(CommandError::new(
            code::COMMAND_NOT_SUPPORTED,
            format!(
                "'create.timeseries.timeField' is '{field}': the time of an event is in one of {}",
                TIME_FIELDS.join(", ")
            ),
        )),
    }
}
