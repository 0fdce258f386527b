//! Execution of plans and its resources: threads, memory, limits, and the registry of running
//! queries.

pub(crate) mod admission;
pub(crate) mod batch_size;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod occupancy;
pub(crate) mod query_threads;
pub(crate) mod registry;
pub(crate) mod sessions;
pub(crate) mod yielding;
