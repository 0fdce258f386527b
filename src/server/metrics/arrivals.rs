//! Metrics of what came in, by protocol and stream.

use query::Arrived;

use super::exposition::Exposition;
use crate::serve::Arrivals;

type ValueOf = fn(&Arrived) -> u64;

const FAMILIES: [(&str, &str, ValueOf); 6] = [
    (
        "received",
        "Items that came, each a line or a record.",
        |a| a.received,
    ),
    ("stored", "Items that were stored as events.", |a| a.stored),
    ("quarantined", "Items that were kept in quarantine.", |a| {
        a.quarantined
    }),
    (
        "duplicates",
        "Items that came again and were left out.",
        |a| a.duplicates,
    ),
    ("refused", "Deliveries of which nothing was stored.", |a| {
        a.refused
    }),
    (
        "bytes",
        "Bytes of the items as they came, decompressed.",
        |a| a.bytes,
    ),
];

pub(super) fn write(text: &mut Exposition, arrivals: &Arrivals) {
    let counts = arrivals.counts();
    if counts.is_empty() {
        return;
    }
    for (name, help, value) in FAMILIES {
        let name = format!("logmill_arrivals_{name}_total");
        text.family(&name, "counter", help);
        for (protocol, arrived) in &counts {
            let labels = [("protocol", *protocol), ("stream", arrived.stream.as_str())];
            text.sample(&labels, value(arrived));
        }
    }
}
