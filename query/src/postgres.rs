//! PostgreSQL's view of a store: types, `information_schema`, `pg_catalog`, and the functions over
//! them that SQL clients call.
//!
//! # Invariants
//! * Every object comes from the catalog of one query, so a client finds no trace of a stream that
//!   it may not read.
//! * The number of an object follows from its name alone, except where two names collide.

pub(crate) mod columns;
pub(crate) mod comments;
pub(crate) mod functions;
mod information_schema;
pub(crate) mod objects;
mod pg_catalog;
pub(crate) mod session;
pub(crate) mod tables;
pub(crate) mod types;
