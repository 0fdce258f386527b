//! Work of clients among documents, outside of the engine.
//!
//! # Invariants
//! * A client computes on at most its share of the processors at once: each step of its work has
//!   one of its turns. No turn is held while the work waits, so none waits for another one.
//! * Work that has computed for [`SHORT`] goes on on threads of lower priority: other clients'
//!   requests get the processor first.
//! * A step holds up no other task of its thread.
//! * Work that nobody waits for any more ends at its next step.

use std::future::poll_fn;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tokio_util::sync::PollSemaphore;
use tokio_util::task::AbortOnDropHandle;

use super::Length;

/// Time for which work computes before its priority is lowered.
const SHORT: Duration = Duration::from_millis(10);
/// Lower priority of the threads for longer work, as a `nice` value.
const NICE: i32 = 10;

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The threads for long work, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Computing(Option<Runtime>);

impl Drop for Computing {
    fn drop(&mut self) {
        // Works within another runtime, too. A step that still computes is the last one.
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}

impl Computing {
    /// Starts the threads.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(super) fn start() -> std::io::Result<Self> {
        let threads = Builder::new_multi_thread()
            .worker_threads(processors())
            .thread_name("logmill-compute")
            .on_thread_start(|| storage::step_back(NICE))
            // No sockets: these would take descriptors from connections.
            .enable_time()
            .build()?;
        Ok(Self(Some(threads)))
    }

    /// Runs work of a client with these turns; `None` for one without a share. Work that is
    /// expected to be long begins at the lower priority.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        turns: Option<Arc<Semaphore>>,
        length: Length,
        work: BoxFuture<'static, T>,
    ) -> T {
        let mut work = ClientWork {
            steps: work,
            turns: turns.map(PollSemaphore::new),
            computed: Duration::ZERO,
        };
        if length == Length::Short {
            let short = poll_fn(|cx| match Pin::new(&mut work).poll(cx) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                // The other thread's first step notices what has happened meanwhile.
                Poll::Pending if work.computed > SHORT => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            if let Some(done) = short.await {
                return done;
            }
        }
        let threads = self.0.as_ref().expect("BUG: it ends with this");
        match AbortOnDropHandle::new(threads.spawn(work)).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The server has ended.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// Work of one client, step by step.
struct ClientWork<T> {
    steps: BoxFuture<'static, T>,
    turns: Option<PollSemaphore>,
    computed: Duration,
}

impl<T> Future for ClientWork<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        let _turn = match &mut this.turns {
            Some(turns) => ready!(turns.poll_acquire(context)),
            None => None,
        };
        let begun = Instant::now();
        let polled = block_in_place(|| this.steps.as_mut().poll(context));
        this.computed += begun.elapsed();
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;

    use super::*;

    /// Computes in steps of some milliseconds, and yields the thread between two of them.
    async fn steps(count: usize, at_once: Arc<AtomicUsize>) -> (usize, String) {
        let mut most = 0;
        for _ in 0..count {
            most = most.max(1 + at_once.fetch_add(1, Ordering::SeqCst));
            std::thread::sleep(Duration::from_millis(4));
            at_once.fetch_sub(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
        let thread = std::thread::current();
        (most, thread.name().unwrap_or_default().to_owned())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_computes_no_more_than_its_share_at_once() {
        let computing = Arc::new(Computing::start().expect("threads"));
        let (turns, at_once) = (Arc::new(Semaphore::new(2)), Arc::default());
        let all = (0..8).map(|n| {
            let (computing, turns) = (Arc::clone(&computing), Arc::clone(&turns));
            let work = steps(10, Arc::clone(&at_once)).boxed();
            let length = [Length::Short, Length::Long][n % 2];
            tokio::spawn(async move { computing.run(Some(turns), length, work).await })
        });
        let all = futures::future::join_all(all.collect::<Vec<_>>()).await;
        let most = all.into_iter().map(|done| done.expect("no panic").0).max();
        assert_eq!(most, Some(2));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn long_work_ends_on_a_thread_of_lower_priority_and_short_work_stays() {
        let computing = Computing::start().expect("threads");
        let thread = async |count, length| {
            let work = steps(count, Arc::default()).boxed();
            computing.run(None, length, work).await.1
        };
        for (count, length) in [(10, Length::Short), (1, Length::Long)] {
            assert_eq!(thread(count, length).await, "logmill-compute", "{count}");
        }
        // On a busy machine a step of short work may take as long as many.
        for tries in 1.. {
            if thread(1, Length::Short).await != "logmill-compute" {
                break;
            }
            assert!(tries < 100, "short work does not stay");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_turn_is_not_held_while_work_waits() {
        let computing = Computing::start().expect("threads");
        let turns = Arc::new(Semaphore::new(1));
        let (tell, told) = tokio::sync::oneshot::channel();
        let waits = computing.run(Some(Arc::clone(&turns)), Length::Long, told.boxed());
        let tells = computing.run(Some(turns), Length::Long, async { tell.send(7) }.boxed());
        let (told, sent) = tokio::join!(waits, tells);
        assert_eq!((told, sent), (Ok(7), Ok(())));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_that_nobody_waits_for_ends() {
        let computing = Computing::start().expect("threads");
        let at_once = Arc::new(AtomicUsize::new(0));
        let endless = steps(usize::MAX, Arc::clone(&at_once)).boxed();
        let run = computing.run(None, Length::Short, endless);
        assert!(
            tokio::time::timeout(Duration::from_millis(50), run)
                .await
                .is_err()
        );
        for _ in 0..200 {
            if Arc::strong_count(&at_once) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it goes on");
    }
}
