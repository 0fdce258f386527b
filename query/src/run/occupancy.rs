//! The resources that a query occupies: its entry in the registry, its place among running
//! queries, and its threads.
//!
//! An answer may end before its plan does: its time is over, the query is cancelled, or its
//! client disconnects. The plan stops at its next step, and a step may be long. Until then the
//! query stays visible and is counted, and no other query runs in its place.
//!
//! # Invariants
//! * No resource of a query is released while one of its tasks is left, except for a plan that
//!   has reached its end: the remaining tasks then only clean up.
//! * When its time is over, a query is stopped, even if no client reads its answer.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SendableRecordBatchStream;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::run::limits::Place;
use crate::run::query_threads::{Driven, GRACE, QueryThreads, Starting};
use crate::run::registry::Registered;

/// Shortest and longest interval between two checks for remaining tasks.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(100);

/// The hold of a query on its resources. Dropping it tells the plan to stop.
#[derive(Debug)]
pub(crate) struct Occupied(Arc<Occupancy>);

#[derive(Debug)]
struct Occupancy {
    held: Mutex<Held>,
    runtime: Handle,
    /// Tells the plan to stop when its time is over.
    timer: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct Held {
    /// None once they are given back.
    resources: Option<Resources>,
    /// Stops the task that runs for the query.
    abort: Option<AbortHandle>,
    /// The query was told to stop: no task of it begins any more.
    is_leaving: bool,
}

/// Resources of a query. They are released in the order of the fields.
#[derive(Debug)]
struct Resources {
    threads: QueryThreads,
    _place: Place,
    registered: Registered,
}

impl Occupied {
    /// Holds the resources of a query of which nothing runs yet. Needs a runtime beside that of the
    /// plan.
    pub(crate) fn new(registered: Registered, place: Place, threads: QueryThreads) -> Self {
        let until = place.until;
        let resources = Resources {
            threads,
            _place: place,
            registered,
        };
        let occupancy = Arc::new(Occupancy {
            held: Mutex::new(Held {
                resources: Some(resources),
                abort: None,
                is_leaving: false,
            }),
            runtime: Handle::current(),
            timer: Mutex::default(),
        });
        if let Some(until) = until {
            let timed = Arc::downgrade(&occupancy);
            let timer = tokio::spawn(async move {
                tokio::time::sleep_until(until).await;
                if let Some(occupancy) = timed.upgrade() {
                    occupancy.leave();
                }
            });
            *occupancy.timer.lock() = Some(AbortOnDropHandle::new(timer));
        }
        Self(occupancy)
    }

    /// Runs `work` on the query's threads, as [`QueryThreads::run`]; `None` when the query was told to
    /// stop before.
    pub(crate) fn run<T, E>(
        &self,
        work: impl Future<Output = Result<(T, Option<SendableRecordBatchStream>), E>> + Send + 'static,
    ) -> Option<(Starting<T, E>, Driven)>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let mut held = self.0.held.lock();
        if held.is_leaving {
            return None;
        }
        let (starting, rows) = held.resources.as_ref()?.threads.run(work);
        held.abort = Some(rows.abort_handle());
        Some((starting, rows))
    }

    /// Releases all resources at once: the plan has reached its end.
    pub(crate) fn end(self) {
        self.0.give_back();
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Occupancy {
    fn give_back(&self) {
        let resources = self.held.lock().resources.take();
        drop(resources);
    }

    /// Stops the plan, and releases its resources once it has stopped.
    fn leave(self: &Arc<Self>) {
        {
            let mut held = self.held.lock();
            if std::mem::replace(&mut held.is_leaving, true) {
                return;
            }
            if let Some(abort) = held.abort.take() {
                abort.abort();
            }
        }
        if self.is_over() {
            return;
        }
        let occupancy = Arc::clone(self);
        let watch = async move { occupancy.watch().await };
        drop(self.runtime.spawn(watch));
    }

    /// Returns whether no task computes any more, and releases all resources in that case.
    fn is_over(&self) -> bool {
        let is_computing = match &self.held.lock().resources {
            Some(held) => {
                held.registered.progress.end();
                !held.threads.is_empty()
            }
            None => false,
        };
        if !is_computing {
            self.give_back();
        }
        !is_computing
    }

    async fn watch(&self) {
        let (began, mut pause) = (Instant::now(), LOOK_FIRST);
        let mut has_stepped_back = false;
        while !self.is_over() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_LAST);
            if began.elapsed() < GRACE || has_stepped_back {
                continue;
            }
            has_stepped_back = true;
            if let Some(held) = &self.held.lock().resources {
                held.threads.abandon();
                let id = held.registered.id;
                tracing::warn!(id, "a query was told to stop and computes on");
            }
        }
    }
}

#[cfg(test)]
mod tests;
