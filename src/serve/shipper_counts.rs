//! Counts of the listeners for log shippers, for `/metrics`.

use std::sync::atomic::AtomicU64;

/// Counts of the listeners for log shippers since the start.
#[derive(Debug, Default)]
pub(crate) struct ShipperCounts {
    /// Datagrams that found the queue of the listener full.
    pub(crate) udp_queue_dropped: AtomicU64,
    /// Datagrams that the kernel dropped before the listener read them.
    pub(crate) udp_kernel_dropped: AtomicU64,
    /// Connections and datagrams of senders that may not write.
    pub(crate) refused: AtomicU64,
    /// Connections that ended with bytes that are none of their protocol.
    pub(crate) malformed: AtomicU64,
}
