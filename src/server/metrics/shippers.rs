//! Counts of the listeners for log shippers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::exposition::Exposition;
use crate::serve::ShipperCounts;

pub(super) fn write(text: &mut Exposition, counts: &ShipperCounts) {
    let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
    text.family(
        "logmill_syslog_dropped_total",
        "counter",
        "Datagrams that were not stored: the listener's queue was full, or the kernel's.",
    );
    for (queue, dropped) in [
        ("listener", &counts.udp_queue_dropped),
        ("kernel", &counts.udp_kernel_dropped),
    ] {
        text.sample(&[("queue", queue)], now(dropped));
    }
    text.single(
        "logmill_shippers_refused_total",
        "counter",
        "Connections and batches of datagrams whose sender may not write.",
        now(&counts.refused),
    );
    text.single(
        "logmill_shippers_malformed_total",
        "counter",
        "Connections that ended with bytes that are none of their protocol.",
        now(&counts.malformed),
    );
}
