//! The commands: one table of their names and rights.

mod administration;
mod aggregate;
mod explain;
mod find;
mod insert;
mod login;
mod read;
mod update;
mod write;

use aggregator::Level;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use self::insert::insert;
pub(super) use self::read::Caller;
use self::update::update;
use super::command::MongoCommand;
use super::document::AnswerDocument;
use super::error::{CommandError, Result, code};
use super::hello::{HelloOptions, build_info, hello};
use super::login::mechanisms;
use super::message::{DOCUMENT_BYTES_MAX, MongoMessage};
use super::session::MongoConnection;

/// Maximum bytes of a command that reads, as in MongoDB.
const READ_BYTES_MAX: usize = DOCUMENT_BYTES_MAX;
/// Maximum bytes of any other one, without the documents that it brings.
pub(super) const OTHER_BYTES_MAX: usize = 64 << 10;

/// Returns whether a command reads documents: [`compute`] answers it.
pub(super) fn is_read(name: &str) -> bool {
    let reads = [
        "find",
        "getMore",
        "killCursors",
        "aggregate",
        "count",
        "distinct",
        "explain",
    ];
    reads.contains(&name)
}

/// Answers a message whose command reads documents, or changes counters. It may compute for long.
///
/// # Errors
/// The reason for which it failed.
pub(super) async fn compute(caller: Caller, message: MongoMessage) -> Result<RawDocumentBuf> {
    let bytes_max = match message.name().is_some_and(is_read) {
        true => READ_BYTES_MAX,
        false => OTHER_BYTES_MAX,
    };
    let command = MongoCommand::of(&message, bytes_max)?;
    match command.name {
        "find" => find::find(&caller, &command).await,
        "getMore" => find::get_more(&caller, &command).await,
        "killCursors" => find::kill_cursors(&caller, &command).and_then(encoded),
        "aggregate" => aggregate::aggregate(&caller, &command).await,
        "count" => find::count(&caller, &command).await.and_then(encoded),
        "distinct" => find::distinct(&caller, &command).await.and_then(encoded),
        "explain" => explain::explain(&caller, &command).await.and_then(encoded),
        "update" => update(&caller, &command, &message).await.and_then(encoded),
        name => unreachable!("BUG: {name} is answered by its connection"),
    }
}

/// Returns an answer in BSON.
///
/// # Errors
/// If the name of a field in it cannot be written.
pub(super) fn encoded(answer: Document) -> Result<RawDocumentBuf> {
    AnswerDocument::new(answer).into_encoded()
}

/// Answers any other command.
///
/// # Errors
/// The reason for which it failed.
pub(super) async fn run(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
    message: &MongoMessage,
) -> Result<Document> {
    match command.name {
        "hello" => greet(connection, command, false).await,
        "isMaster" | "ismaster" => greet(connection, command, true).await,
        "saslStart" => login::start(connection, command).await,
        "saslContinue" => login::proceed(connection, command),
        "authenticate" => login::by_certificate(connection, command).await,
        "logout" => login::end(connection).await,
        "ping" | "endSessions" | "killSessions" | "refreshSessions" => Ok(doc! {}),
        "buildInfo" | "buildinfo" => Ok(build_info()),
        "insert" => insert(connection, command, message).await,
        "mapReduce" | "mapreduce" => Err(map_reduce(connection, command)),
        "connectionStatus" => login::status(connection),
        name => match administration::run(connection, command).await {
            Some(answered) => answered,
            None => {
                connection.principal(name)?;
                Err(CommandError::new(
                    code::COMMAND_NOT_FOUND,
                    format!("no such command: '{name}'{}", hint(name)),
                ))
            }
        },
    }
}

/// Returns the hint for a command of MongoDB that has no place here.
fn hint(name: &str) -> &'static str {
    match name {
        "delete" => "; events are immutable: insert another one, and let a rollup count",
        "findAndModify" | "findandmodify" => {
            "; it reads the value that it changes, so it does not commute: the store itself gives each event an _id, and $inc with upsert counts"
        }
        "commitTransaction" | "abortTransaction" => {
            "; there are no transactions: an insert is one batch, stored whole or not at all"
        }
        _ => "",
    }
}

/// Returns the refusal of `mapReduce`, with the rollup and the pipeline that do it.
fn map_reduce(connection: &mut MongoConnection, command: &MongoCommand<'_>) -> CommandError {
    if let Err(error) = connection.principal(command.name) {
        return error;
    }
    let stream = command.collection().unwrap_or("STREAM");
    let out = match command.get("out") {
        Some(Bson::String(out)) => Some(out.as_str()),
        Some(Bson::Document(out)) => out.values().next().and_then(Bson::as_str),
        _ => None,
    };
    let (rollup, level) = out
        .and_then(|out| out.split_once('.'))
        .unwrap_or(("NAME", "hourly"));
    let unit = Level::from_table(level).unwrap_or(Level::Hour).as_str();
    let message = format!(
        "mapReduce is not supported: no JavaScript runs here. A rollup keeps such results exact: [rollup.{rollup}] with stream = \"{stream}\", by = [\"KEY\"], levels = [\"{unit}\"] and its measures in logmill.toml; find() on '{rollup}.{level}' reads it. A single run is aggregate([{{$match: …}}, {{$group: {{_id: {{u: \"$KEY\", d: {{$dateTrunc: {{date: \"$time\", unit: \"{unit}\"}}}}}}, total: {{$sum: \"$FIELD\"}}, count: {{$sum: 1}}}}}}])"
    );
    CommandError::new(code::COMMAND_NOT_SUPPORTED, message)
}

async fn greet(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
    is_legacy: bool,
) -> Result<Document> {
    let mut answer = hello(&HelloOptions {
        is_legacy,
        connection: connection.number,
        message_bytes_max: connection.mongo.message_bytes_max(),
        read_only: connection.serving().config.server.read_only,
    });
    if command.get("saslSupportedMechs").is_some() {
        answer.insert("saslSupportedMechs", mechanisms());
    }
    if let Some(begin) = command.document("speculativeAuthenticate")? {
        // A driver that gets no answer to this begins the login by itself.
        if let Ok(answered) = login::speculate(connection, begin).await {
            answer.insert("speculativeAuthenticate", answered);
        }
    }
    Ok(answer)
}
