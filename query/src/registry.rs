//! Which queries are running.
//!
//! # Invariants
//! A query is entered when it is accepted, before it is planned, and leaves when its answer ends,
//! fails or is dropped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use serde::Serialize;
use storage::{Clock, SystemClock};
use tokio::sync::watch;

/// Text kept of a query, bytes.
const SQL_SHOWN: usize = 4096;

/// A query that is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueryInfo {
    /// Its number, given by this engine.
    pub id: u64,
    /// Its text, cut when it is long.
    pub sql: String,
    /// When it was accepted, microseconds since 1970.
    pub started_us: i64,
    /// Since then, milliseconds.
    pub elapsed_ms: u64,
    /// Rows given out so far.
    pub rows_returned: u64,
    /// Whether someone cancelled it.
    pub cancelled: bool,
}

/// The queries that are running.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Running>>,
}

#[derive(Debug)]
struct Running {
    sql: String,
    started_us: i64,
    progress: Arc<Progress>,
    cancel: watch::Sender<bool>,
}

/// How far a query is, for those who watch it and for its figures.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    ended_ms: OnceLock<u64>,
    pub(crate) rows: AtomicU64,
}

impl Progress {
    /// Since the query was accepted, until it ended, milliseconds.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        let now = || u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.ended_ms.get().copied().unwrap_or_else(now)
    }
}

/// Takes a query out of the registry when dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) id: u64,
    registry: Arc<Registry>,
    pub(crate) progress: Arc<Progress>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let elapsed = self.progress.elapsed_ms();
        self.progress.ended_ms.get_or_init(|| elapsed);
        self.registry.running.lock().remove(&self.id);
    }
}

impl Registry {
    /// Enters a query.
    pub(crate) fn register(self: &Arc<Self>, sql: &str, cancel: watch::Sender<bool>) -> Registered {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let progress = Arc::new(Progress {
            started: Instant::now(),
            ended_ms: OnceLock::new(),
            rows: AtomicU64::new(0),
        });
        let shown = sql[..sql.floor_char_boundary(SQL_SHOWN)].to_owned();
        let running = Running {
            sql: shown,
            started_us: SystemClock.now_us(),
            progress: progress.clone(),
            cancel,
        };
        self.running.lock().insert(id, running);
        Registered {
            id,
            registry: self.clone(),
            progress,
        }
    }

    /// The queries that are running, oldest first.
    pub(crate) fn queries(&self) -> Vec<QueryInfo> {
        let running = self.running.lock();
        running
            .iter()
            .map(|(id, query)| QueryInfo {
                id: *id,
                sql: query.sql.clone(),
                started_us: query.started_us,
                elapsed_ms: query.progress.elapsed_ms(),
                rows_returned: query.progress.rows.load(Ordering::Relaxed),
                cancelled: *query.cancel.borrow(),
            })
            .collect()
    }

    /// Cancels a query. Whether there was one of that number.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        let running = self.running.lock();
        running.get(&id).is_some_and(|query| {
            query.cancel.send_replace(true);
            true
        })
    }
}
