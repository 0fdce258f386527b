//! Administration: the commands that list, create, change, measure and watch.
//!
//! # Invariants
//! * A command needs the right of the HTTP route that does the same. Streams that its client may
//!   not read do not exist for it.
//! * A command succeeds only if the store is then as it asks. Settings that only `logmill.toml` has
//!   are refused with the lines to write there, unless they are so already.

mod change;
mod creation;
mod index_creation;
mod index_key;
mod indexes;
mod listing;
mod operations;
mod refusals;
mod retention;
mod sharding;
mod sizes;
mod status;
mod users;
mod validation;

use bson::{Bson, DateTime, Document};
use query::mongo::{ExpressionContext, Filter};
use storage::{Name, Snapshot, StreamKind, StreamMeta};

use crate::access::{Action, Target};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::session::MongoConnection;
use crate::serve::Client;

/// The reason against rules for documents.
const VALIDATION: &str = "a stream takes every document; keep and drop of [stream.NAME] choose the fields that it stores";
/// The reason against other views.
const VIEW: &str = "a rollup is the view of a stream: see [rollup.NAME]";

/// Commands about the streams and files of one store.
const OF_ONE_STORE: [&str; 13] = [
    "create",
    "collMod",
    "drop",
    "dropDatabase",
    "createIndexes",
    "listIndexes",
    "dropIndexes",
    "deleteIndexes",
    "collStats",
    "collstats",
    "dbStats",
    "dbstats",
    "validate",
];

/// Answers a command of administration; `None` if there is none of this name.
pub(super) async fn run(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Option<Result<Document>> {
    if OF_ONE_STORE.contains(&command.name)
        && let Err(why) = connection.serving().has_events()
    {
        return Some(Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, why)));
    }
    Some(match command.name {
        "listDatabases" => listing::databases(connection, command),
        "listCollections" => listing::collections(connection, command),
        "create" => creation::create(connection, command).await,
        "collMod" => change::modify(connection, command).await,
        "drop" => change::drop(connection, command).await,
        "dropDatabase" => change::drop_database(connection, command),
        "renameCollection" => change::rename(connection, command),
        "createIndexes" => index_creation::create(connection, command).await,
        "listIndexes" => indexes::list(connection, command).await,
        "dropIndexes" | "deleteIndexes" => indexes::drop(connection, command).await,
        "collStats" | "collstats" => sizes::of_collection(connection, command).await,
        "dbStats" | "dbstats" => sizes::of_database(connection, command).await,
        "validate" => validation::of_collection(connection, command).await,
        "shardCollection" => sharding::of_collection(connection, command).await,
        "serverStatus" => status::server(connection, command),
        "hostInfo" => status::host(connection, command),
        "getParameter" => status::parameters(connection, command),
        "getLog" => status::log(connection, command),
        "getCmdLineOpts" => status::options(connection, command),
        "whatsmyip" => status::address(connection, command),
        "listCommands" => status::commands(connection, command),
        "currentOp" => operations::list(connection, command),
        "killOp" => operations::kill(connection, command),
        "usersInfo" => users::info(connection, command),
        name => {
            let hint = refusals::hint(name)?;
            refusals::refuse(connection, command, hint)
        }
    })
}

/// Checks a right of a client.
///
/// # Errors
/// If the client does not have it.
fn require(
    client: &Client,
    command: &MongoCommand<'_>,
    action: Action,
    target: Target<'_>,
) -> Result<()> {
    if client.may(action, target) {
        return Ok(());
    }
    let role = match action {
        Action::Public | Action::Ingest => "ingest",
        Action::Read => "read",
        Action::TakeParts => "peer",
        Action::Maintain | Action::Administer => "admin",
    };
    let of = match target {
        Target::Stream(stream) => format!(" of the stream {stream}"),
        Target::Visible => String::new(),
        Target::Store => " of the whole store".to_owned(),
    };
    Err(CommandError::new(
        code::UNAUTHORIZED,
        format!(
            "{} may not run {}: it needs the role {role}{of}",
            client.name(),
            command.name
        ),
    ))
}

/// Returns the client of a command of administrators.
fn administrator(connection: &mut MongoConnection, command: &MongoCommand<'_>) -> Result<Client> {
    let client = connection.client(command.name)?;
    require(&client, command, Action::Administer, Target::Store)?;
    Ok(client)
}

/// Returns the client of a command that reads, and leaves out what it may not read.
fn reader(connection: &mut MongoConnection, command: &MongoCommand<'_>) -> Result<Client> {
    let client = connection.client(command.name)?;
    require(&client, command, Action::Read, Target::Visible)?;
    Ok(client)
}

/// Returns the streams that a client may read.
fn visible<'a>(
    client: &'a Client,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = (&'a Name, &'a StreamMeta)> {
    snapshot.streams().iter().filter(move |(name, meta)| {
        meta.kind != StreamKind::Quarantine
            && client.may(Action::Read, Target::Stream(name.as_str()))
    })
}

/// Returns a stream, if it exists for a client.
fn visible_stream<'a>(
    client: &Client,
    snapshot: &'a Snapshot,
    stream: &Name,
) -> Option<&'a StreamMeta> {
    let meta = snapshot.streams().get(stream)?;
    let is_visible = client.may(Action::Read, Target::Stream(stream.as_str()));
    (is_visible && meta.kind != StreamKind::Quarantine).then_some(meta)
}

/// Returns whether a stream has events, or a retention that a command has set before the first.
fn exists(snapshot: &Snapshot, stream: &Name) -> bool {
    snapshot.streams().contains_key(stream) || snapshot.manifest().retention.contains_key(stream)
}

fn no_collection(named: &str) -> CommandError {
    CommandError::new(
        code::NAMESPACE_NOT_FOUND,
        format!("there is no collection {named}"),
    )
}

/// Returns whether a document of an answer matches the filter of a command.
fn is_wanted(filter: Option<&Filter>, document: &Document) -> Result<bool> {
    let expressions = ExpressionContext::new(DateTime::now());
    let matches = |filter: &Filter| filter.matches(document, &expressions);
    Ok(filter.map_or(Ok(true), matches)?)
}

/// Runs work that waits for the disk on a thread that may block.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        let message = "the command failed; see the server's log";
        Err(CommandError::new(code::INTERNAL_ERROR, message))
    })
}

/// Returns a number of 64 bits.
fn long(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns the number of a few objects.
fn few(number: usize) -> Bson {
    Bson::Int32(i32::try_from(number).unwrap_or(i32::MAX))
}

/// Checks that a command has none of these options, each with the reason.
fn refuse_options(command: &MongoCommand<'_>, options: &[(&str, &str)]) -> Result<()> {
    for (name, hint) in options {
        let is_set = match command.get(name) {
            None | Some(Bson::Boolean(false)) => false,
            Some(Bson::Document(value)) => !value.is_empty(),
            Some(Bson::Array(value)) => !value.is_empty(),
            Some(_) => true,
        };
        if is_set {
            return Err(CommandError::new(
                code::COMMAND_NOT_SUPPORTED,
                format!("'{}.{name}' is not supported: {hint}", command.name),
            ));
        }
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> CommandError {
    CommandError::new(code::INVALID_OPTIONS, message)
}

/// Returns the names of refused options.
fn names_of<const N: usize>(refused: &[(&'static str, &str); N]) -> [&'static str; N] {
    refused.map(|(name, _)| name)
}
