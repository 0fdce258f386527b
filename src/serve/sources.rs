//! The state of sources that the server itself reads, for metrics and `system.sources`.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use query::SourceInfo;

/// The reports of all sources, by the names under which the store knows them.
#[derive(Debug, Default)]
pub(crate) struct SourceBoard(Mutex<BTreeMap<String, SourceReport>>);

/// The state of one source.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceReport {
    /// Labels in metrics: names and values.
    pub(crate) labels: Vec<(&'static str, String)>,
    /// `reading`, `waiting` or `stopped`; `idle` where another member of its group reads it.
    pub(crate) state: &'static str,
    /// End of the records that the store has.
    pub(crate) position: Option<u64>,
    /// Records that exist and are not in the store yet.
    pub(crate) lag: Option<u64>,
    /// Records of this run of the server, each once.
    pub(crate) records: u64,
    /// Bytes of their values.
    pub(crate) bytes: u64,
    /// Records among them without a value.
    pub(crate) tombstones: u64,
    /// Records that came again and were left out.
    pub(crate) repeated: u64,
    /// Errors of this run.
    pub(crate) errors: u64,
    /// The last error, until the source works again.
    pub(crate) error: Option<String>,
}

impl SourceBoard {
    /// Changes the report of a source, which is created at first.
    #[cfg_attr(
        not(feature = "kafka"),
        allow(dead_code, reason = "the Kafka source is the only one so far")
    )]
    pub(crate) fn change(&self, producer: &str, change: impl FnOnce(&mut SourceReport)) {
        let mut reports = self.0.lock();
        match reports.get_mut(producer) {
            Some(report) => change(report),
            None => change(reports.entry(producer.to_owned()).or_default()),
        }
    }

    /// Adds the states to positions in the store, which are sorted by their sources.
    pub(crate) fn add_to(&self, positions: &mut Vec<SourceInfo>) {
        for (producer, report) in self.0.lock().iter() {
            let at = positions.binary_search_by(|source| source.producer.cmp(producer));
            let at = at.unwrap_or_else(|at| {
                let source = SourceInfo {
                    producer: producer.clone(),
                    position: report.position,
                    ..SourceInfo::default()
                };
                positions.insert(at, source);
                at
            });
            let source = &mut positions[at];
            source.state = Some(report.state);
            source.lag = report.lag;
            source.error.clone_from(&report.error);
        }
    }

    /// Returns all reports.
    pub(crate) fn reports(&self) -> BTreeMap<String, SourceReport> {
        self.0.lock().clone()
    }
}
