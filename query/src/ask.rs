//! What commands ask beside SQL: a slice of one host and date, a tail, a schema, random questions
//! that compare rollups with raw events.

pub(crate) mod random_questions;
pub(crate) mod schema;
pub(crate) mod slice;
pub(crate) mod tail;
