//! Metrics of the sources that the server itself reads.

use super::exposition::Exposition;
use crate::serve::{SourceBoard, SourceReport};

/// The value of one metric of a source.
type ValueOf = fn(&SourceReport) -> Option<u64>;

const FAMILIES: [(&str, &str, &str, ValueOf); 9] = [
    (
        "up",
        "gauge",
        "1 while a source, or a partition of one, is read; 0 while it waits or is stopped.",
        |r| Some(u64::from(r.state == "reading")),
    ),
    (
        "stopped",
        "gauge",
        "1 for a partition that cannot be read on without loss; the log says why.",
        |r| Some(u64::from(r.state == "stopped")),
    ),
    (
        "records_total",
        "counter",
        "Records stored, as events or in quarantine, and those without a value.",
        |r| Some(r.records),
    ),
    (
        "bytes_total",
        "counter",
        "Bytes of the values of these records.",
        |r| Some(r.bytes),
    ),
    (
        "tombstones_total",
        "counter",
        "Records without a value; they are not stored.",
        |r| Some(r.tombstones),
    ),
    (
        "repeated_total",
        "counter",
        "Records that came again and were left out.",
        |r| Some(r.repeated),
    ),
    (
        "errors_total",
        "counter",
        "Errors of reading or storing.",
        |r| Some(r.errors),
    ),
    (
        "position",
        "gauge",
        "End of the records that are stored, in the source's own counter.",
        |r| r.position,
    ),
    (
        "lag",
        "gauge",
        "Records that exist and are not stored yet.",
        |r| r.lag,
    ),
];

pub(super) fn write(text: &mut Exposition, board: &SourceBoard) {
    let reports = board.reports();
    if reports.is_empty() {
        return;
    }
    for (name, kind, help, value) in FAMILIES {
        let name = format!("logmill_source_{name}");
        text.family(&name, kind, help);
        for report in reports.values() {
            let labels = report.labels.iter();
            let labels: Vec<_> = labels.map(|(name, value)| (&**name, &**value)).collect();
            if let Some(value) = value(report) {
                text.sample(&labels, value);
            }
        }
    }
}
