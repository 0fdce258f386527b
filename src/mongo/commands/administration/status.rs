//! The state of the server: `serverStatus`, `hostInfo`, and the small commands of shells and tools.

use std::sync::atomic::Ordering;

use bson::{Bson, DateTime, Document, doc};

use super::{few, long, require};
use crate::access::{Action, Target};
use crate::mongo::command::MongoCommand;
use crate::mongo::error::{CommandError, Result, code};
use crate::mongo::hello::MONGODB_VERSION;
use crate::mongo::session::MongoConnection;

/// The version of MongoDB's features.
const FEATURES: &str = "7.0";
/// The commands, each with whether it needs a login.
const COMMANDS: [(&str, bool); 45] = [
    ("authenticate", false),
    ("buildInfo", false),
    ("collMod", true),
    ("collStats", true),
    ("connectionStatus", false),
    ("count", true),
    ("create", true),
    ("createIndexes", true),
    ("currentOp", true),
    ("dbStats", true),
    ("distinct", true),
    ("drop", true),
    ("dropDatabase", true),
    ("dropIndexes", true),
    ("endSessions", false),
    ("find", true),
    ("getCmdLineOpts", true),
    ("getLog", true),
    ("getMore", true),
    ("getParameter", true),
    ("hello", false),
    ("hostInfo", true),
    ("insert", true),
    ("isMaster", false),
    ("killCursors", true),
    ("killOp", true),
    ("killSessions", false),
    ("listCollections", true),
    ("listCommands", true),
    ("listDatabases", true),
    ("listIndexes", true),
    ("logout", false),
    ("ping", false),
    ("refreshSessions", false),
    ("renameCollection", true),
    ("saslContinue", false),
    ("saslStart", false),
    ("serverStatus", true),
    ("shardCollection", true),
    ("usersInfo", true),
    ("validate", true),
    ("whatsmyip", true),
    // Known, and refused with the way to the same end.
    ("compact", true),
    ("convertToCapped", true),
    ("reIndex", true),
];

/// Checks that a client may read the state of the server, as at `/metrics`.
fn reads_store(connection: &mut MongoConnection, command: &MongoCommand<'_>) -> Result<()> {
    let client = connection.client(command.name)?;
    require(&client, command, Action::Read, Target::Store)
}

/// Returns the name of this machine.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.unwrap_or_default().trim().to_owned();
    match name.is_empty() {
        true => "localhost".to_owned(),
        false => name,
    }
}

/// `serverStatus`. All sections come, whichever a client leaves out or asks for.
pub(super) fn server(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    reads_store(connection, command)?;
    let serving = connection.serving();
    let uptime = serving.started.elapsed();
    let inserted: u64 = serving.store.counters().values().map(|c| c.stored).sum();
    let open = serving.connections.open.load(Ordering::Relaxed);
    let (running, status) = (serving.queries().len(), serving.store.status());
    Ok(doc! {
        "host": machine(),
        "version": MONGODB_VERSION,
        "process": "mongos",
        "logmill": env!("CARGO_PKG_VERSION"),
        "pid": i64::from(std::process::id()),
        "uptime": uptime.as_secs() as f64,
        "uptimeMillis": i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX),
        "uptimeEstimate": long(uptime.as_secs()),
        "localTime": DateTime::now(),
        "connections": {
            "current": few(open),
            "available": few(serving.connections.free.available_permits()),
        },
        // Events of every listener since the start.
        "opcounters": { "insert": long(inserted) },
        "globalLock": { "activeClients": { "readers": few(running) } },
        "mem": {
            "bits": 64,
            "resident": long(storage::resident_bytes() >> 20),
            "supported": true,
        },
        "storageEngine": {
            "name": "logmill",
            "persistent": true,
            "readOnly": status.read_only,
        },
    })
}

/// `hostInfo`
pub(super) fn host(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&[])?;
    reads_store(connection, command)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(doc! {
        "system": {
            "currentTime": DateTime::now(),
            "hostname": machine(),
            "cpuAddrSize": 64,
            "numCores": few(cores),
            "cpuArch": std::env::consts::ARCH,
        },
        "os": { "type": std::env::consts::OS },
        "extra": {},
    })
}

/// `getParameter`
pub(super) fn parameters(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    connection.principal(command.name)?;
    let known = doc! {
        "authenticationMechanisms": ["SCRAM-SHA-256", "PLAIN", "MONGODB-X509"],
        "featureCompatibilityVersion": { "version": FEATURES },
        "requireApiVersion": false,
    };
    let is_all = match command.get(command.name) {
        Some(Bson::String(all)) => all == "*",
        Some(Bson::Document(options)) => options.get_bool("allParameters").unwrap_or(false),
        _ => false,
    };
    if is_all {
        return Ok(known);
    }
    let mut found = Document::new();
    for (name, _) in command.own_fields() {
        let value = known.get(name).ok_or_else(|| {
            let names = known.keys().map(String::as_str).collect::<Vec<_>>();
            let names = names.join(", ");
            CommandError::new(
                code::INVALID_OPTIONS,
                format!("there is no parameter '{name}'; there are {names}. `logmill config show` has the settings"),
            )
        })?;
        found.insert(name, value);
    }
    match found.is_empty() {
        true => Err(CommandError::new(
            code::INVALID_OPTIONS,
            "getParameter names a parameter in a field of its own, or asks for '*'",
        )),
        false => Ok(found),
    }
}

/// `getLog`: the log goes to standard error alone.
pub(super) fn log(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&[])?;
    connection.principal(command.name)?;
    match command.collection()? {
        "*" => Ok(doc! { "names": ["global", "startupWarnings"] }),
        "global" | "startupWarnings" => Ok(doc! { "totalLinesWritten": 0, "log": [] }),
        other => Err(CommandError::new(
            code::BAD_VALUE,
            format!("there is no log '{other}'; there are global and startupWarnings"),
        )),
    }
}

/// `getCmdLineOpts`: the arguments may hold paths, and are told to nobody.
pub(super) fn options(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    command.check_fields(&[])?;
    connection.principal(command.name)?;
    Ok(doc! { "argv": ["logmill"], "parsed": {} })
}

/// `whatsmyip`
pub(super) fn address(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    connection.principal(command.name)?;
    Ok(doc! { "you": connection.client.to_string() })
}

/// `listCommands`
pub(super) fn commands(
    connection: &mut MongoConnection,
    command: &MongoCommand<'_>,
) -> Result<Document> {
    connection.principal(command.name)?;
    let commands = COMMANDS.into_iter().map(|(name, needs_login)| {
        let about = doc! {
            "help": "see docs/clients/mongodb.md",
            "requiresAuth": needs_login,
            "secondaryOk": true,
            "adminOnly": false,
        };
        (name.to_owned(), Bson::Document(about))
    });
    Ok(doc! { "commands": commands.collect::<Document>() })
}
