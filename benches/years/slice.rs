//! One client on one day, as the page asks for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::util::display::array_value_to_string;
use query::{Engine, EngineOptions, Figures, NoSystemInfo};
use storage::{Reader, RealFs, Snapshot};
use tokio::runtime::Runtime;

use crate::fill::STREAM;
use crate::machine::median;
use crate::{RUNS, Settings, generator, stamp};

struct Asker {
    snapshot: Arc<Snapshot>,
    engine: Engine,
    runtime: Runtime,
}

struct Answer {
    rows: usize,
    figures: Figures,
    ms: f64,
    /// The first value of the first row.
    first: String,
}

impl Asker {
    fn ask(&self, sql: &str) -> Answer {
        let began = Instant::now();
        let snapshot = Arc::clone(&self.snapshot);
        let answer = self.engine.sql(snapshot, Arc::new(NoSystemInfo), sql, None);
        let (_, batches, figures) = self
            .runtime
            .block_on(async { answer.await?.collect().await })
            .expect("answered");
        Answer {
            rows: batches.iter().map(|b| b.num_rows()).sum(),
            figures,
            ms: began.elapsed().as_secs_f64() * 1e3,
            first: array_value_to_string(batches[0].column(0), 0).unwrap_or_default(),
        }
    }
}

/// Prints what the slice costs; `when` says of which store.
pub(crate) fn measure(s: &Settings, data: &Path, when: &str) {
    let reader = Reader::open(Arc::new(RealFs), data).expect("a reader");
    let asker = Asker {
        snapshot: reader.snapshot(),
        engine: Engine::new(EngineOptions::default()).expect("an engine"),
        runtime: tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_stack_size(8 << 20)
            .build()
            .expect("a runtime"),
    };
    let middle = generator::DEFAULT_START + i64::from(s.days / 2) * 86_400;
    let day = format!(
        "time >= '{}' AND time < '{}'",
        stamp(middle),
        stamp(middle + 86_400)
    );
    let host = asker
        .ask(&format!("SELECT min(host) FROM {STREAM} WHERE {day}"))
        .first;
    let sql = format!("SELECT * FROM {STREAM} WHERE host = '{host}' AND {day}");
    let runs: Vec<Answer> = (0..RUNS).map(|_| asker.ask(&sql)).collect();
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
