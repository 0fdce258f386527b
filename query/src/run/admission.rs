//! Admission of queries: each query is listed, waits for its turn, and gets threads and a share of
//! the memory.
//!
//! # Invariants
//! * A query is listed from before it is parsed until none of its tasks runs any more. Until then
//!   it keeps its place, also in the line of its client.
//! * The time limit of a query begins with its turn, and includes planning, the wait for
//!   parameters, and the return of rows.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::future::{BoxFuture, Either, select};
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::question::Session;
use crate::run::limits::{Limits, Queue, wait_until};
use crate::run::memory::{Memory, Share};
use crate::run::occupancy::Occupied;
use crate::run::query_threads::{Driven, ThreadFaults, ThreadPools};
use crate::run::registry::{End, Progress, Registry};
use crate::stats::Stage;

/// Admits queries. Clones share the limits.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    pub(crate) registry: Arc<Registry>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) pools: ThreadPools,
    memory: Arc<Memory>,
    /// Queries wait until less memory is held than the limit.
    waits_for_memory: bool,
}

/// An admitted query. Dropping it stops its plan.
pub(crate) struct Admitted {
    pub(crate) id: u64,
    pub(crate) progress: Arc<Progress>,
    pub(crate) limits: Limits,
    /// Resolves when the query is cancelled.
    ended: BoxFuture<'static, End>,
    /// Resolves at the time limit of the query.
    over: BoxFuture<'static, ()>,
    until: Option<Instant>,
    occupied: Occupied,
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The claim of an admitted query to a share of the memory, redeemed on the query's threads.
#[derive(Debug)]
pub(crate) struct Claim {
    memory: Arc<Memory>,
    waits: bool,
    end: watch::Sender<Option<End>>,
    threads: ThreadFaults,
}

impl Claim {
    /// Waits until less memory is held than the limit, and returns the query's share.
    pub(crate) async fn share(self) -> Arc<Share> {
        if self.waits {
            self.memory.room().await;
        }
        self.memory.share(self.end, self.threads)
    }
}

impl Admission {
    /// Creates the admission of `limits.running` queries at once, on pools of `threads` threads.
    pub(crate) fn new(limits: Limits, threads: usize, memory_bytes: usize) -> Self {
        Self {
            registry: Arc::default(),
            queue: Arc::new(Queue::new(limits)),
            pools: ThreadPools::new(limits.running, threads),
            memory: Arc::new(Memory::new(memory_bytes)),
            waits_for_memory: true,
        }
    }

    /// Returns the admission of requests of peers. They wait for none of the queries here, neither
    /// for a place nor for memory: such a query may wait for a peer whose query waits for this
    /// request. They share the memory, and fail where there is none. They return parts of answers,
    /// so the limits of an answer do not apply.
    pub(crate) fn for_peers(&self, threads: usize) -> Self {
        let limits = Limits {
            rows: None,
            bytes: None,
            ..self.queue.limits
        };
        Self {
            registry: Arc::clone(&self.registry),
            queue: Arc::new(Queue::new(limits)),
            pools: ThreadPools::new(limits.running, threads),
            memory: Arc::clone(&self.memory),
            waits_for_memory: false,
        }
    }

    /// Lists a query of this text and waits for its turn.
    ///
    /// # Errors
    /// When the text is too long, too many queries wait, or the query is cancelled.
    pub(crate) async fn admit(&self, text: &str, session: &Session) -> Result<(Admitted, Claim)> {
        let limits = self.queue.limits.within(session.time_max);
        let (end, ended) = watch::channel(None);
        let registered = self.registry.register(text, session, end.clone());
        let (id, progress) = (registered.id, Arc::clone(&registered.progress));
        limits.check_text(text)?;
        let mut ended = wait_for(ended);
        let place = self.queue.place(limits.time, session.line.clone());
        let place = match select(Box::pin(place), &mut ended).await {
            Either::Left((place, _)) => place?,
            Either::Right((why, _)) => return Err(why.error(id)),
        };
        progress.reached(Stage::Queue);
        let until = place.until;
        let threads = self.pools.lane()?;
        let claim = Claim {
            memory: Arc::clone(&self.memory),
            waits: self.waits_for_memory,
            end,
            threads: threads.threads(),
        };
        let admitted = Admitted {
            id,
            progress,
            limits,
            ended,
            over: wait_until(until).boxed(),
            until,
            occupied: Occupied::new(registered, place, threads),
        };
        Ok((admitted, claim))
    }
}

impl Admitted {
    /// Runs `work` on the query's threads and waits for it. The rows that it returns are computed
    /// on these threads until they are dropped.
    ///
    /// # Errors
    /// The errors of `work`; also if the query is cancelled or reaches its time limit.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        work: BoxFuture<'static, Result<(T, Option<SendableRecordBatchStream>)>>,
    ) -> Result<(T, Driven)> {
        let Some((starting, rows)) = self.occupied.run(work) else {
            return Err(self.limits.too_long());
        };
        let stopped = std::future::poll_fn(|context| self.poll_end(context));
        // The end is polled first: a query that has ended before its start returns no rows, however
        // fast it is planned.
        let started = match select(stopped, starting).await {
            Either::Left((error, _)) => return Err(error),
            Either::Right((started, _)) => started,
        };
        match started {
            Ok(started) => Ok((started?, rows)),
            Err(_) if self.is_over() => Err(self.limits.too_long()),
            Err(_) => Err(match rows.into_future().await {
                (Some(Err(panic)), _) => Error::Execution(panic),
                _ => Error::Execution(DataFusionError::Internal(
                    "planning ended without a plan and without an error".into(),
                )),
            }),
        }
    }

    /// Returns the error with which the query has to end before its rows do, once there is one.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        if let Poll::Ready(why) = self.ended.poll_unpin(context) {
            return Poll::Ready(why.error(self.id));
        }
        self.over
            .poll_unpin(context)
            .map(|()| self.limits.too_long())
    }

    /// Checks whether the query has reached its time limit.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Releases all resources at once: the plan has ended.
    pub(crate) fn end(self) {
        self.occupied.end();
    }
}

/// Resolves when the query is stopped; never, once all senders are dropped.
fn wait_for(mut ended: watch::Receiver<Option<End>>) -> BoxFuture<'static, End> {
    async move {
        let why = ended
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|why| *why);
        match why {
            Some(why) => why,
            None => futures::future::pending().await,
        }
    }
    .boxed()
}
