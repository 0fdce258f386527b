//! The commands: one table of their names and rights.

mod find;
mod insert;
mod login;

use bson::{DateTime, Document, doc};

use self::insert::insert;
use super::command::MongoCommand;
use super::error::{CommandError, Result, code};
use super::hello::{HelloOptions, build_info, hello};
use super::login::mechanisms;
use super::message::MongoMessage;
use super::session::MongoConnection;

/// Answers a command.
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
        "startSession" => Err(refused(command, "drivers make sessions by themselves")),
        "insert" => insert(connection, command, message).await,
        "find" => find::find(connection, command).await,
        "getMore" => find::get_more(connection, command).await,
        "killCursors" => find::kill_cursors(connection, command),
        "count" => find::count(connection, command).await,
        "distinct" => find::distinct(connection, command).await,
        "connectionStatus" => login::status(connection),
        name => {
            connection.principal(name)?;
            Err(CommandError::new(
                code::COMMAND_NOT_FOUND,
                format!("no such command: '{name}'{}", hint(name)),
            ))
        }
    }
}

/// Returns the hint for a command of MongoDB that has no place here.
fn hint(name: &str) -> &'static str {
    match name {
        "update" | "delete" | "findAndModify" | "findandmodify" => {
            "; events are immutable: insert another one, and let a rollup count"
        }
        "mapReduce" | "mapreduce" => "; a rollup keeps such results up to date: see [rollup.NAME]",
        "commitTransaction" | "abortTransaction" => {
            "; there are no transactions: an insert is one batch, stored whole or not at all"
        }
        _ => "",
    }
}

fn refused(command: &MongoCommand<'_>, hint: &str) -> CommandError {
    let message = format!("'{}' is not supported; {hint}", command.name);
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
    answer.insert("localTime", DateTime::now());
    Ok(answer)
}
