//! The resources that a query occupies: its entry in the registry, its place among running
//! queries, and its threads.
//!
//! An answer may end before its plan does: it reaches its time limit, the query is cancelled, or
//! its client disconnects. The plan stops at its next step, and a step may be long. Until then the
//! query stays listed and counted, and no other query runs in its place.
//!
//! # Invariants
//! * No resource of a query is released while one of its tasks is left, except for a plan that
//!   has reached its end: the remaining tasks then only clean up.
//! * A query is stopped at its time limit, even if no client reads its answer.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SendableRecordBatchStream;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::run::limits::QueryPlace;
use crate::run::query_threads::{Driven, GRACE, QueryThreads, Starting};
use crate::run::registry::Registered;

/// Shortest and longest interval between two checks for remaining tasks.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(1);
const CHECK_INTERVAL_MAX: Duration = Duration::from_millis(100);

/// The hold of a query on its resources. Dropping it stops the plan.
#[derive(Debug)]
pub(crate) struct Occupied(Arc<Occupancy>);

#[derive(Debug)]
struct Occupancy {
    held: Mutex<OccupancyState>,
    runtime: Handle,
    /// Stops the plan at the time limit.
    timer: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct OccupancyState {
    /// `None` once they are released.
    resources: Option<Resources>,
    /// Stops the task that runs for the query.
    abort: Option<AbortHandle>,
    /// The query is being stopped: none of its tasks may start any more.
    is_stopping: bool,
}

/// Resources of a query. They are released in the order of the fields.
#[derive(Debug)]
struct Resources {
    threads: QueryThreads,
    _place: QueryPlace,
    registered: Registered,
}

impl Occupied {
    /// Takes the resources of a query that has no tasks yet. It must run on a runtime, other than
    /// that of the plan, which the timer and the watch use.
    pub(crate) fn new(registered: Registered, place: QueryPlace, threads: QueryThreads) -> Self {
        let until = place.until;
        let resources = Resources {
            threads,
            _place: place,
            registered,
        };
        let occupancy = Arc::new(Occupancy {
            held: Mutex::new(OccupancyState {
                resources: Some(resources),
                abort: None,
                is_stopping: false,
            }),
            runtime: Handle::current(),
            timer: Mutex::default(),
        });
        if let Some(until) = until {
            let timed = Arc::downgrade(&occupancy);
            let timer = tokio::spawn(async move {
                tokio::time::sleep_until(until).await;
                if let Some(occupancy) = timed.upgrade() {
                    occupancy.stop();
                }
            });
            *occupancy.timer.lock() = Some(AbortOnDropHandle::new(timer));
        }
        Self(occupancy)
    }

    /// Runs `work` on the query's threads, as [`QueryThreads::run`]. Returns `None` if the query
    /// has been stopped already.
    pub(crate) fn run<T, E>(
        &self,
        work: impl Future<Output = Result<(T, Option<SendableRecordBatchStream>), E>> + Send + 'static,
    ) -> Option<(Starting<T, E>, Driven)>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let mut held = self.0.held.lock();
        if held.is_stopping {
            return None;
        }
        let (starting, rows) = held.resources.as_ref()?.threads.run(work);
        held.abort = Some(rows.abort_handle());
        Some((starting, rows))
    }

    /// Releases all resources at once: the plan has reached its end.
    pub(crate) fn end(self) {
        self.0.release();
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Occupancy {
    fn release(&self) {
        let resources = self.held.lock().resources.take();
        drop(resources);
    }

    /// Stops the plan, and releases the resources once it has stopped.
    fn stop(self: &Arc<Self>) {
        {
            let mut held = self.held.lock();
            if std::mem::replace(&mut held.is_stopping, true) {
                return;
            }
            if let Some(abort) = held.abort.take() {
                abort.abort();
            }
        }
        if self.release_if_stopped() {
            return;
        }
        let occupancy = Arc::clone(self);
        let watch = async move { occupancy.watch().await };
        drop(self.runtime.spawn(watch));
    }

    /// Checks whether no task computes any more, and releases all resources in that case.
    fn release_if_stopped(&self) -> bool {
        let is_computing = match &self.held.lock().resources {
            Some(held) => {
                held.registered.progress.end();
                !held.threads.is_empty()
            }
            None => false,
        };
        if !is_computing {
            self.release();
        }
        !is_computing
    }

    async fn watch(&self) {
        let (began, mut pause) = (Instant::now(), CHECK_INTERVAL_MIN);
        let mut has_stepped_back = false;
        while !self.release_if_stopped() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(CHECK_INTERVAL_MAX);
            if began.elapsed() < GRACE || has_stepped_back {
                continue;
            }
            has_stepped_back = true;
            if let Some(held) = &self.held.lock().resources {
                held.threads.abandon();
                let id = held.registered.id;
                tracing::warn!(id, "a cancelled query is still running and holds a thread");
            }
        }
    }
}

#[cfg(test)]
mod tests;
