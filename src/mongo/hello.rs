//! The handshake: a driver learns what it talks to.

use bson::{DateTime, Document, doc};

use super::message::{BYTES_MAX, DOCUMENT_BYTES_MAX};

/// Maximum documents of one insert.
pub(super) const BATCH_DOCUMENTS_MAX: usize = 100_000;
/// Minutes for which a driver may use a session; identities are remembered for longer.
const SESSION_MINUTES: i32 = 30;
/// The versions of the protocol that the server speaks: from the first with OP_MSG, whose clients
/// begin at 0, to that of MongoDB 7.0.
const WIRE_VERSIONS: (i32, i32) = (0, 21);
/// The version of MongoDB that has the last of them.
pub(super) const MONGODB_VERSION: &str = "7.0.0";

/// The part of an answer that depends on the connection.
#[derive(Debug)]
pub(super) struct HelloOptions {
    /// The client used the old name of the command.
    pub(super) is_legacy: bool,
    pub(super) connection: i32,
    /// Maximum bytes of a message.
    pub(super) message_bytes_max: usize,
    /// The server takes no inserts.
    pub(super) read_only: bool,
}

/// Returns the answer of a `mongos`.
pub(super) fn hello(options: &HelloOptions) -> Document {
    let primary = match options.is_legacy {
        true => "ismaster",
        false => "isWritablePrimary",
    };
    let message_bytes = options.message_bytes_max.min(BYTES_MAX);
    let whole = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    doc! {
        primary: true,
        "helloOk": true,
        // Drivers retry at replica sets and at a mongos, which has no topology to follow.
        "msg": "isdbgrid",
        "maxBsonObjectSize": whole(DOCUMENT_BYTES_MAX),
        "maxMessageSizeBytes": whole(message_bytes),
        "maxWriteBatchSize": whole(BATCH_DOCUMENTS_MAX),
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": SESSION_MINUTES,
        "connectionId": options.connection,
        "minWireVersion": WIRE_VERSIONS.0,
        "maxWireVersion": WIRE_VERSIONS.1,
        "readOnly": options.read_only,
    }
}

/// Returns the answer to `buildInfo`.
pub(super) fn build_info() -> Document {
    let numbers = MONGODB_VERSION
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    let mut numbers: Vec<i32> = numbers.collect();
    numbers.resize(4, 0);
    doc! {
        "version": MONGODB_VERSION,
        "versionArray": numbers,
        "gitVersion": "logmill",
        "modules": [],
        "logmill": env!("CARGO_PKG_VERSION"),
        "maxBsonObjectSize": i32::try_from(DOCUMENT_BYTES_MAX).unwrap_or(i32::MAX),
        "debug": false,
        "bits": 64,
    }
}
