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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::run::limits::Place;
use crate::run::query_threads::{GRACE, QueryThreads};
use crate::run::registry::Registered;

/// Shortest and longest interval between two checks for remaining tasks.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(100);

/// A query's hold on its resources. Dropping it stops the plan.
#[derive(Debug)]
pub(crate) struct Occupied(Arc<Occupancy>);

#[derive(Debug)]
struct Occupancy {
    kept: Mutex<Option<Kept>>,
    /// Stops the task that drives the plan.
    abort: AbortHandle,
    is_leaving: AtomicBool,
    runtime: Handle,
    /// Stops the plan when the query's time is over.
    timer: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// Resources of a query. They are released in the order of the fields.
#[derive(Debug)]
struct Kept {
    lane: QueryThreads,
    _place: Place,
    registered: Registered,
}

impl Occupied {
    /// Holds the resources of a query whose plan `abort` stops. The caller needs a runtime other
    /// than that of the plan.
    pub(crate) fn new(
        registered: Registered,
        place: Place,
        lane: QueryThreads,
        abort: AbortHandle,
    ) -> Self {
        let until = place.until;
        let kept = Kept {
            lane,
            _place: place,
            registered,
        };
        let occupancy = Arc::new(Occupancy {
            kept: Mutex::new(Some(kept)),
            abort,
            is_leaving: AtomicBool::new(false),
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
        let kept = self.kept.lock().take();
        drop(kept);
    }

    /// Stops the plan, and releases its resources once it has stopped.
    fn leave(self: &Arc<Self>) {
        if self.is_leaving.swap(true, Ordering::SeqCst) {
            return;
        }
        self.abort.abort();
        if self.is_over() {
            return;
        }
        let occupancy = Arc::clone(self);
        let watch = async move { occupancy.watch().await };
        drop(self.runtime.spawn(watch));
    }

    /// Returns whether no task computes any more, and releases all resources in that case.
    fn is_over(&self) -> bool {
        let is_computing = match &*self.kept.lock() {
            Some(kept) => {
                kept.registered.progress.end();
                !kept.lane.is_empty()
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
            if let Some(kept) = &*self.kept.lock() {
                kept.lane.abandon();
                let id = kept.registered.id;
                tracing::warn!(id, "a query was told to stop and computes on");
            }
        }
    }
}

#[cfg(test)]
mod tests;
