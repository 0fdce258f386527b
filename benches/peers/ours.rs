//! Our engine in this process, asked as the peers are.

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

/// An answer: how long each time took, milliseconds, what was looked at the last time, and its rows.
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

    /// Asks once, and then as often as `runs` says.
    pub(crate) fn ask(&self, sql: &str, runs: usize) -> Asked {
        let once = || self.asker.ask(Arc::clone(&self.snapshot), sql);
        let mut last = once();
        let mut ms = vec![last.ms];
        for _ in 0..runs {
            // Freed before the clock starts: a peer does not hold two answers either.
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
