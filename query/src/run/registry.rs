//! The list of waiting and running queries.
//!
//! # Invariants
//! A query is entered when it is accepted, before it is planned. It is removed when its answer has
//! ended, failed or was dropped, and none of its tasks computes any more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use storage::{Clock, SystemClock};
use tokio::sync::watch;

use crate::error::{Error, LESS};
use crate::question::Session;
use crate::stats::{QueryInfo, QueryState, ScanProgress, Stage, StageTime};

/// Maximum bytes of a listed query text.
const SQL_SHOWN: usize = 4096;

/// The reason why a query ends before its answer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A client cancelled the query.
    Cancelled,
    /// Queries held this many bytes of memory, and this one held most of them.
    Memory { held: u64 },
}

impl End {
    pub(crate) fn error(self, id: u64) -> Error {
        match self {
            Self::Cancelled => Error::Cancelled { id },
            Self::Memory { held } => Error::Limit {
                limit: "query.memory_bytes_max",
                message: format!(
                    "queries held {} MiB of memory, and this one held the largest share",
                    held >> 20
                ),
                hint: LESS,
            },
        }
    }
}

/// The list of waiting and running queries.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Running>>,
}

#[derive(Debug)]
struct Running {
    tag: Option<String>,
    client: Option<String>,
    sql: String,
    started_us: i64,
    progress: Arc<Progress>,
    end: watch::Sender<Option<End>>,
}

/// Reads the progress of a plan.
pub(crate) struct ReadProgress(pub(crate) Box<dyn Fn() -> ScanProgress + Send + Sync>);

impl fmt::Debug for ReadProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadProgress").finish_non_exhaustive()
    }
}

/// Progress of a query, for the list of running queries and for its statistics.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    ended: OnceLock<Duration>,
    pub(crate) rows: AtomicU64,
    /// End of each stage, as the time since the query was accepted.
    reached: [OnceLock<Duration>; 3],
    /// Reads the progress of the plan, once there is a plan.
    scanned: OnceLock<ReadProgress>,
}

impl Progress {
    /// Notes the end of a stage.
    pub(crate) fn reached(&self, stage: Stage) {
        if let Some(at) = self.reached.get(stage as usize) {
            at.get_or_init(|| self.started.elapsed());
        }
    }

    /// Notes that the query is planned, and the function that reads the progress of the plan.
    pub(crate) fn planned(&self, scanned: ReadProgress) {
        self.scanned.get_or_init(|| scanned);
        self.reached(Stage::Plan);
    }

    /// Notes the end of the answer.
    pub(crate) fn end(&self) {
        self.ended.get_or_init(|| self.started.elapsed());
    }

    fn state(&self) -> QueryState {
        match (self.ended.get(), self.reached[Stage::Queue as usize].get()) {
            (Some(_), _) => QueryState::Stopping,
            (None, Some(_)) => QueryState::Running,
            (None, None) => QueryState::Queued,
        }
    }

    /// Returns the duration of each stage that has begun.
    pub(crate) fn stages(&self) -> Vec<StageTime> {
        let now = || self.started.elapsed();
        let ended = self.ended.get().copied();
        let mut stages = Vec::new();
        let mut since = Duration::ZERO;
        for stage in Stage::ALL {
            let reached = self.reached.get(stage as usize);
            let reached = reached.and_then(|at| at.get().copied());
            let until = reached.or(ended).unwrap_or_else(now);
            stages.push(StageTime {
                stage,
                us: micros(until.saturating_sub(since)),
            });
            if reached.is_none() {
                break;
            }
            since = until;
        }
        stages
    }

    fn done(&self) -> ScanProgress {
        self.scanned.get().map(|read| read.0()).unwrap_or_default()
    }

    /// Returns the time from acceptance to the end of the answer, or so far, milliseconds.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        let elapsed = self.ended.get().copied();
        micros(elapsed.unwrap_or_else(|| self.started.elapsed())) / 1000
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Entry of a query in the registry; dropping it removes the query.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) id: u64,
    registry: Arc<Registry>,
    pub(crate) progress: Arc<Progress>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.progress.end();
        self.registry.running.lock().remove(&self.id);
    }
}

impl Registry {
    /// Enters a query.
    pub(crate) fn register(
        self: &Arc<Self>,
        sql: &str,
        session: &Session,
        end: watch::Sender<Option<End>>,
    ) -> Registered {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let progress = Arc::new(Progress {
            started: Instant::now(),
            ended: OnceLock::new(),
            rows: AtomicU64::new(0),
            reached: Default::default(),
            scanned: OnceLock::new(),
        });
        let shown = sql[..sql.floor_char_boundary(SQL_SHOWN)].to_owned();
        let running = Running {
            tag: session.tag.clone(),
            client: session.viewer.name.clone(),
            sql: shown,
            started_us: SystemClock.now_us(),
            progress: progress.clone(),
            end,
        };
        self.running.lock().insert(id, running);
        Registered {
            id,
            registry: self.clone(),
            progress,
        }
    }

    /// Returns the queries that wait or run, oldest first.
    pub(crate) fn queries(&self) -> Vec<QueryInfo> {
        let running = self.running.lock();
        running
            .iter()
            .map(|(id, query)| QueryInfo {
                id: *id,
                tag: query.tag.clone(),
                client: query.client.clone(),
                sql: query.sql.clone(),
                state: query.progress.state(),
                started_us: query.started_us,
                elapsed_ms: micros(query.progress.started.elapsed()) / 1000,
                rows_returned: query.progress.rows.load(Ordering::Relaxed),
                done: query.progress.done(),
                cancelled: query.end.borrow().is_some(),
            })
            .collect()
    }

    /// Cancels a query. Returns whether there is a query of that number.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        let running = self.running.lock();
        running.get(&id).is_some_and(|query| {
            query.end.send_if_modified(|end| {
                let is_first = end.is_none();
                end.get_or_insert(End::Cancelled);
                is_first
            });
            true
        })
    }
}
