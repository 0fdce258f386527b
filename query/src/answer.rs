//! The answer to a client: rows in its format, statistics, the schema, slices and tails.

pub(crate) mod document;
pub mod output;
pub(crate) mod query_stats;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod slice;
pub(crate) mod tail;
