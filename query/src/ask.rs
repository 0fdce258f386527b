//! Questions of commands beside SQL: the slice of one host and date, a tail, a schema, the events
//! to erase, random questions that compare rollups with raw events, and the keys of shards.

pub(crate) mod matching;
pub(crate) mod random_questions;
pub(crate) mod schema;
pub(crate) mod shard_keys;
pub(crate) mod slice;
mod sql_text;
pub(crate) mod tail;
