//! Our engine in this process, without the limits of a server: some answers have millions of rows.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use query::{Engine, EngineOptions, Figures, Limits, NoSystemInfo};
use storage::Snapshot;
use tokio::runtime::{Builder, Runtime};

pub(crate) struct Ours {
    engine: Engine,
    runtime: Runtime,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// An answer: how long each time took, milliseconds, what was looked at the last time, and its rows.
pub(crate) struct Asked {
    pub(crate) ms: Vec<f64>,
    pub(crate) figures: Figures,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Ours {
    pub(crate) fn new(snapshot: Arc<Snapshot>, threads: usize) -> Self {
        let limits = Limits {
            time: None,
            rows: None,
            bytes: None,
            ..Limits::default()
        };
        let options = EngineOptions {
            target_partitions: threads,
            limits,
            ..EngineOptions::default()
        };
        Self {
            engine: Engine::new(options).expect("an engine"),
            runtime: Builder::new_multi_thread()
                .enable_all()
                .worker_threads(threads)
                .thread_stack_size(8 << 20)
                .build()
                .expect("a runtime"),
            snapshot,
        }
    }

    /// Asks once, and then as often as `runs` says.
    pub(crate) fn ask(&self, sql: &str, runs: usize) -> Asked {
        let mut ms = Vec::new();
        let mut last = self.once(sql, &mut ms);
        for _ in 0..runs {
            // Freed before the clock starts: a peer does not hold two answers either.
            last.1.clear();
            last = self.once(sql, &mut ms);
        }
        Asked {
            ms,
            figures: last.0,
            batches: last.1,
        }
    }

    fn once(&self, sql: &str, ms: &mut Vec<f64>) -> (Figures, Vec<RecordBatch>) {
        let snapshot = Arc::clone(&self.snapshot);
        let began = Instant::now();
        let answer = self.engine.sql(snapshot, Arc::new(NoSystemInfo), sql, None);
        let answer = self
            .runtime
            .block_on(async { answer.await?.collect().await });
        let (_, batches, figures) = answer.unwrap_or_else(|e| panic!("{sql}: {e}"));
        ms.push(began.elapsed().as_secs_f64() * 1e3);
        (figures, batches)
    }

    /// The first row of an answer, as text.
    pub(crate) fn row(&self, sql: &str) -> Vec<String> {
        let asked = self.ask(sql, 0);
        let batch = asked.batches.iter().find(|b| b.num_rows() > 0);
        let batch = batch.unwrap_or_else(|| panic!("{sql}: nothing"));
        let columns = batch.columns().iter();
        columns
            .map(|column| array_value_to_string(column, 0).expect("text"))
            .collect()
    }

    /// The names of an answer's columns.
    pub(crate) fn columns(&self, sql: &str) -> Vec<String> {
        let asked = self.ask(sql, 0);
        let batch = asked.batches.first().expect("a row");
        let schema = batch.schema();
        schema.fields().iter().map(|f| f.name().clone()).collect()
    }
}
