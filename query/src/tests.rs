//! Queries over stores on a real disk.

mod accuracy;
mod arithmetic;
mod compacted;
mod conclusions;
mod documents;
mod grammar;
mod indexes;
mod levels;
mod limits;
mod prepared;
mod published;
#[path = "../../tests/fuzz/src/replay.rs"]
pub(crate) mod replay;
mod rot;
mod sharded;
mod streams;
pub(crate) mod support;
mod top_k;
mod zones;
