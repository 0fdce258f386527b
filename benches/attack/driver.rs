//! A client of the listener for MongoDB's drivers.

use std::io;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::door::Connection;

/// OP_MSG of MongoDB's wire protocol, and the bytes before its command.
const OP_MSG: i32 = 2013;
const HEAD_BYTES: usize = 21;
/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: usize = 48 << 20;

/// A connection that speaks as a driver does.
pub(crate) struct Driver(pub(crate) Connection);

impl Driver {
    /// Asks a command, and returns its answer.
    pub(crate) async fn ask(&mut self, command: &Document) -> io::Result<Document> {
        let command = command.to_vec().map_err(io::Error::other)?;
        let length = i32::try_from(HEAD_BYTES + command.len()).map_err(io::Error::other)?;
        let mut message = Vec::new();
        for number in [length, 1, 0, OP_MSG, 0] {
            message.extend(number.to_le_bytes());
        }
        message.push(0);
        message.extend(command);
        self.0.write_all(&message).await?;
        let length = self.0.read_u32_le().await? as usize;
        if !(HEAD_BYTES..ANSWER_BYTES_MAX).contains(&length) {
            return Err(io::Error::other("no answer has this length"));
        }
        let mut answer = vec![0; length - 4];
        self.0.read_exact(&mut answer).await?;
        Document::from_reader(&answer[HEAD_BYTES - 4..]).map_err(io::Error::other)
    }

    /// Logs in by PLAIN.
    pub(crate) async fn log_in(&mut self, user: &str, password: &str) -> io::Result<Document> {
        let payload = format!("\0{user}\0{password}").into_bytes();
        let command = doc! {
            "saslStart": 1, "mechanism": "PLAIN", "payload": binary(payload), "$db": "$external",
        };
        self.ask(&command).await
    }
}

/// Returns bytes as a command has them.
pub(crate) fn binary(bytes: Vec<u8>) -> Bson {
    let subtype = BinarySubtype::Generic;
    Bson::Binary(Binary { subtype, bytes })
}
