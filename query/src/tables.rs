//! Streams, levels of rollups and `system.*` as DataFusion tables over one snapshot.

mod byte_cache;
pub(crate) mod catalog;
pub(crate) mod level;
pub(crate) mod sharded;
pub(crate) mod stream;
pub(crate) mod system;
