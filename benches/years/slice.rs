//! One client on one day, as the page queries it.

use std::path::Path;
use std::sync::Arc;

use storage::{ReadOnlyStore, RealFs};

use crate::ask::{Answer, Asker};
use crate::fill::STREAM;
use crate::machine::median;
use crate::{RUNS, Settings, generator, stamp};

/// Prints the cost of the slice; `when` names the state of the store.
pub(crate) fn measure(s: &Settings, data: &Path, when: &str) {
    let reader = ReadOnlyStore::open(Arc::new(RealFs), data).expect("a reader");
    let (asker, snapshot) = (Asker::new(), reader.snapshot());
    let ask = |sql: &str| asker.ask(Arc::clone(&snapshot), sql);
    let middle = generator::DEFAULT_START + i64::from(s.days / 2) * 86_400;
    let day = format!(
        "time >= '{}' AND time < '{}'",
        stamp(middle),
        stamp(middle + 86_400)
    );
    let host = ask(&format!("SELECT min(host) FROM {STREAM} WHERE {day}")).text();
    let sql = format!("SELECT * FROM {STREAM} WHERE host = '{host}' AND {day}");
    let runs: Vec<Answer> = (0..RUNS).map(|_| ask(&sql)).collect();
    let first = &runs[0];
    println!(
        "  host and day {when} quiet compaction: first {:.1} ms, median {:.1} of {RUNS}; {} rows, looked at {} in {} of {} parts",
        first.ms,
        median(runs.iter().map(|r| r.ms).collect()),
        first.rows,
        first.figures.rows_examined,
        first.figures.parts.examined,
        first.figures.parts.total
    );
}
