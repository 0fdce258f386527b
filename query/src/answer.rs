//! The answer to a client: rows in its format, documents and statistics.

pub(crate) mod document;
pub mod output;
pub(crate) mod query_stats;
pub(crate) mod rows;
