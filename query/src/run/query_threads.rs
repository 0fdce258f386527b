//! Plans and runs queries on threads of their own, none of which serves a connection.
//!
//! A plan may compute for long without yielding its thread, and the kernel shares the processor
//! only between threads. So each query has a lane, a few threads that no other query uses
//! meanwhile: whatever the query does, others lose no more than their share. A query that has run
//! for long lowers the priority of its threads.
//!
//! # Invariants
//! A lane serves one query at a time, and another one only when nothing of the last one is left
//! in it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;
use storage::ThreadId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_util::task::AbortOnDropHandle;

/// Stack size of a thread: the planner recurses deeply.
const STACK_BYTES: usize = 16 << 20;
/// Steps after which a thread polls timers and files.
const EVENT_STEPS: u32 = 8;
/// Maximum batches that wait for a reader.
const BATCHES_AHEAD: usize = 2;
/// A query that has run for this long lets younger queries run first.
const LONG: Duration = Duration::from_secs(1);
/// Lower priority of a query that has run for long, as a `nice` value.
const NICE: i32 = 10;
/// Lower priority of a query whose client has gone but that has not stopped yet, as a `nice`
/// value.
const ABANDONED_NICE: i32 = 19;
/// A query that has ended leaves its lane within this time, unless its plan does not yield a
/// thread.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// Lanes for queries. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ThreadPools {
    /// Idle lanes, each with the time of its return.
    idle: Arc<Mutex<Vec<(Owned, Instant)>>>,
    /// Maximum idle lanes that are kept for later queries.
    kept: usize,
    threads: usize,
}

/// The lane of one query, returned to the pool when dropped.
#[derive(Debug)]
pub(crate) struct QueryThreads {
    owned: Option<Owned>,
    lanes: ThreadPools,
    /// Lowers the priority of the threads when the query has run for long.
    timer: Option<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Owned {
    runtime: Option<Runtime>,
    ids: Arc<Mutex<Vec<ThreadId>>>,
    /// True once the priority of the threads is lower. A thread cannot raise it again.
    stepped_back: Arc<AtomicBool>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The background shutdown also works from within another runtime. A task that still
        // computes ends at its next step.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Owned {
    fn start(threads: usize) -> std::io::Result<Self> {
        let ids = Arc::<Mutex<Vec<ThreadId>>>::default();
        let (begun, ended) = (Arc::clone(&ids), Arc::clone(&ids));
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("logmill-query")
            .thread_stack_size(STACK_BYTES)
            // A query is stopped at its next step, not only at each sixtieth.
            .global_queue_interval(1)
            .event_interval(EVENT_STEPS)
            .on_thread_start(move || begun.lock().push(ThreadId::own()))
            .on_thread_stop(move || ended.lock().retain(|id| *id != ThreadId::own()))
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            ids,
            stepped_back: Arc::default(),
        })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("BUG: it ends with this")
    }

    /// Returns whether another query may have the lane.
    fn is_as_new(&self) -> bool {
        self.is_empty() && !self.has_stepped_back()
    }

    fn has_stepped_back(&self) -> bool {
        self.stepped_back.load(Ordering::SeqCst)
    }

    fn is_empty(&self) -> bool {
        self.runtime().metrics().num_alive_tasks() == 0
    }
}

/// Counts the page faults of a lane's threads while one query has the lane.
#[derive(Debug)]
pub(crate) struct ThreadFaults {
    ids: Arc<Mutex<Vec<ThreadId>>>,
    faulted_before: OnceLock<u64>,
}

impl ThreadFaults {
    /// Starts the count of the memory that the threads touch; later calls change nothing. Returns
    /// the bytes touched before the start.
    pub(crate) fn begin(&self) -> u64 {
        *self.faulted_before.get_or_init(|| self.faulted())
    }

    /// Returns the bytes of memory that the threads touched first since the start. Each page
    /// counts as a fault; a page that was returned to the kernel and taken again counts twice.
    pub(crate) fn touched(&self) -> u64 {
        let before = self.begin();
        self.faulted().saturating_sub(before)
    }

    fn faulted(&self) -> u64 {
        self.ids.lock().iter().map(|id| id.faulted_bytes()).sum()
    }
}

fn step_back(ids: &Mutex<Vec<ThreadId>>, by: i32) {
    ids.lock().iter().for_each(|id| id.step_back(by));
}

impl ThreadPools {
    /// Creates a pool of lanes with `threads` threads each, of which up to `kept` stay when idle.
    pub(crate) fn new(kept: usize, threads: usize) -> Self {
        Self {
            idle: Arc::default(),
            kept,
            threads,
        }
    }

    #[cfg(test)]
    pub(crate) fn are_idle(&self) -> bool {
        self.idle.lock().iter().all(|(lane, _)| lane.is_empty())
    }

    /// Returns a lane for a query that begins.
    pub(crate) fn lane(&self) -> std::io::Result<QueryThreads> {
        let known = {
            let mut idle = self.idle.lock();
            idle.retain(|(lane, since)| {
                let is_kept = lane.is_as_new() || since.elapsed() < GRACE;
                if !is_kept {
                    step_back(&lane.ids, ABANDONED_NICE);
                }
                is_kept
            });
            let new = idle.iter().position(|(lane, _)| lane.is_as_new());
            new.map(|nth| idle.swap_remove(nth).0)
        };
        let owned = match known {
            Some(owned) => owned,
            None => Owned::start(self.threads)?,
        };
        let (ids, stepped_back) = (Arc::clone(&owned.ids), Arc::clone(&owned.stepped_back));
        let timer = tokio::spawn(async move {
            tokio::time::sleep(LONG).await;
            stepped_back.store(true, Ordering::SeqCst);
            step_back(&ids, NICE);
        });
        Ok(QueryThreads {
            owned: Some(owned),
            lanes: self.clone(),
            timer: Some(AbortOnDropHandle::new(timer)),
        })
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        self.timer = None;
        let Some(owned) = self.owned.take() else {
            return;
        };
        if owned.has_stepped_back() {
            step_back(&owned.ids, ABANDONED_NICE);
            return;
        }
        let mut idle = self.lanes.idle.lock();
        idle.push((owned, Instant::now()));
        if idle.len() > self.lanes.kept {
            let (oldest, _) = idle.remove(0);
            if !oldest.is_empty() {
                step_back(&oldest.ids, ABANDONED_NICE);
            }
        }
    }
}

impl QueryThreads {
    fn runtime(&self) -> &Runtime {
        let owned = self.owned.as_ref();
        owned.expect("BUG: it ends with this").runtime()
    }

    /// Returns whether nothing of a query is left in the lane.
    pub(crate) fn is_empty(&self) -> bool {
        self.owned.as_ref().is_none_or(Owned::is_empty)
    }

    /// Lowers the priority of the lane below all others: no client waits for the tasks that still
    /// run in it.
    pub(crate) fn abandon(&self) {
        if let Some(owned) = &self.owned {
            owned.stepped_back.store(true, Ordering::SeqCst);
            step_back(&owned.ids, ABANDONED_NICE);
        }
    }

    /// Returns the threads that run the query.
    pub(crate) fn threads(&self) -> ThreadFaults {
        let owned = self.owned.as_ref();
        ThreadFaults {
            ids: Arc::clone(&owned.expect("BUG: it ends with this").ids),
            faulted_before: OnceLock::new(),
        }
    }

    /// Runs `start` on the lane and then drives the rows that it returns, until these are
    /// dropped. Both are one task: where a query takes a millisecond, waking a thread once more
    /// is a noticeable part of it.
    pub(crate) fn run<T, E>(
        &self,
        start: impl Future<Output = Result<(T, Option<SendableRecordBatchStream>), E>> + Send + 'static,
    ) -> (Starting<T, E>, Driven)
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let (out, rows) = mpsc::channel(BATCHES_AHEAD);
        let task = async move {
            let (started, rows) = match start.await {
                Ok((started, rows)) => (Ok(started), rows),
                Err(error) => (Err(error), None),
            };
            let (Ok(()), Some(mut stream)) = (tell.send(started).map_err(|_| ()), rows) else {
                return;
            };
            while let Some(batch) = stream.next().await {
                if out.send(batch).await.is_err() {
                    return;
                }
            }
        };
        let task = AbortOnDropHandle::new(self.runtime().spawn(task));
        (
            told,
            Driven {
                rows,
                task: Some(task),
            },
        )
    }
}

/// The result of `start`. It is missing when `start` panicked, which [`Driven`] reports.
pub(crate) type Starting<T, E> = oneshot::Receiver<Result<T, E>>;

/// Rows that a lane computes. Dropping them stops the computation.
#[derive(Debug)]
pub(crate) struct Driven {
    rows: mpsc::Receiver<datafusion::common::Result<RecordBatch>>,
    /// The task that computes the rows; `None` after it has ended.
    task: Option<AbortOnDropHandle<()>>,
}

impl Driven {
    /// Returns the handle that stops the task that drives the rows.
    pub(crate) fn abort_handle(&self) -> AbortHandle {
        let task = self.task.as_ref();
        task.expect("BUG: it has not been read").abort_handle()
    }
}

impl Stream for Driven {
    type Item = datafusion::common::Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = ready!(self.rows.poll_recv(context)) {
            return Poll::Ready(Some(batch));
        }
        let Some(task) = &mut self.task else {
            return Poll::Ready(None);
        };
        let ended = ready!(task.poll_unpin(context));
        self.task = None;
        // A panic is an error, not the end of the rows.
        Poll::Ready(
            ended
                .err()
                .map(|panic| Err(DataFusionError::ExecutionJoin(Box::new(panic)))),
        )
    }
}
