//! Queries on an engine in this process, each answer read whole.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use query::{Engine, EngineOptions, Limits, NoSystemInfo, QueryStats};
use storage::Snapshot;
use tokio::runtime::{Builder, Runtime};

pub(crate) struct Asker {
    engine: Engine,
    runtime: Runtime,
}

/// An answer, and its duration from the question to the last row.
pub(crate) struct Answer {
    pub(crate) ms: f64,
    pub(crate) rows: usize,
    pub(crate) figures: QueryStats,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Makes an engine without the limits of a server, and a runtime for it: some answers have millions
/// of rows.
pub(crate) fn unlimited() -> (Engine, Runtime) {
    let options = EngineOptions {
        limits: Limits {
            time: None,
            rows: None,
            bytes: None,
            ..Limits::default()
        },
        ..EngineOptions::default()
    };
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(8 << 20)
        .build();
    let engine = Engine::new(options).expect("an engine");
    (engine, runtime.expect("a runtime"))
}

impl Asker {
    pub(crate) fn new() -> Self {
        let (engine, runtime) = unlimited();
        Self { engine, runtime }
    }

    pub(crate) fn ask(&self, snapshot: Arc<Snapshot>, sql: &str) -> Answer {
        let began = Instant::now();
        let answer = self.engine.sql(snapshot, Arc::new(NoSystemInfo), sql, None);
        let answer = self
            .runtime
            .block_on(async { answer.await?.collect().await });
        let (_, batches, figures) = answer.unwrap_or_else(|e| panic!("{sql}: {e}"));
        Answer {
            ms: began.elapsed().as_secs_f64() * 1e3,
            rows: batches.iter().map(RecordBatch::num_rows).sum(),
            figures,
            batches,
        }
    }
}

impl Answer {
    /// Returns the first value of the first row.
    pub(crate) fn text(&self) -> String {
        let batch = self.batches.iter().find(|b| b.num_rows() > 0);
        array_value_to_string(batch.expect("a row").column(0), 0).expect("text")
    }
}
