//! Our engine in this process, queried as the peers are.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
use query::QueryStats;
use storage::Snapshot;

use crate::ask::{Answer, Asker};

pub(crate) struct Ours {
    asker: Asker,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// An answer: the milliseconds of each run, the figures of the last run, and its rows.
pub(crate) struct Asked {
    pub(crate) ms: Vec<f64>,
    pub(crate) figures: QueryStats,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Ours {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            asker: Asker::new(),
            snapshot,
        }
    }

    /// Runs a query once, and then `runs` times.
    pub(crate) fn ask(&self, sql: &str, runs: usize) -> Asked {
        let once = || self.asker.ask(Arc::clone(&self.snapshot), sql);
        let mut last = once();
        let mut ms = vec![last.ms];
        for _ in 0..runs {
            // The last answer is freed before the clock starts: a peer does not hold two answers
            // either.
            last.batches.clear();
            last = once();
            ms.push(last.ms);
        }
        let Answer {
            figures, batches, ..
        } = last;
        Asked {
            ms,
            figures,
            batches,
        }
    }

    /// Returns the first row of an answer, as text.
    pub(crate) fn row(&self, sql: &str) -> Vec<String> {
        let asked = self.ask(sql, 0);
        let batch = asked.batches.iter().find(|b| b.num_rows() > 0);
        let batch = batch.unwrap_or_else(|| panic!("{sql}: nothing"));
        let columns = batch.columns().iter();
        columns
            .map(|column| array_value_to_string(column, 0).expect("text"))
            .collect()
    }

    /// Returns the names of an answer's columns.
    pub(crate) fn columns(&self, sql: &str) -> Vec<String> {
        let asked = self.ask(sql, 0);
        let batch = asked.batches.first().expect("a row");
        let schema = batch.schema();
        schema.fields().iter().map(|f| f.name().clone()).collect()
    }
}
