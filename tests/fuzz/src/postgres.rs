//! The reader of messages of the program's `postgres`.

#[path = "../../../src/postgres/message.rs"]
pub(crate) mod message;
