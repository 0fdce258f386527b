//! Ingest that nobody waits for: a backfill of old logs beside senders of now.
//!
//! One request at a time, on a thread of its own that lets all others go first, and only while the
//! memtable has room to spare: a sender of now does not wait for a seal that a backfill has made
//! necessary, and a backfill gets what is left of the processor.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use tokio::sync::{Mutex, MutexGuard};

/// The step back of the thread, as `nice` counts.
const NICE: i32 = 19;

/// How often what has come is counted before somebody asks: small chunks merge meanwhile.
const COUNT_EVERY: Duration = Duration::from_millis(40);

type Job = Box<dyn FnOnce() + Send>;

/// The thread and the turn that requests take.
#[derive(Debug)]
pub(crate) struct Bulk {
    jobs: Sender<Job>,
    /// When what has come was counted last.
    turn: Mutex<Option<Instant>>,
}

/// The turn of one request, until it was answered.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    jobs: &'a Sender<Job>,
    counted: MutexGuard<'a, Option<Instant>>,
}

impl Bulk {
    /// Starts the thread; it ends with this.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (jobs, inbox): (Sender<Job>, Receiver<Job>) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("logmill-bulk".into())
            .spawn(move || {
                storage::step_back(NICE);
                for job in &inbox {
                    // Whoever waits for it learns that it has gone; the next one is not to suffer.
                    let _ignored = catch_unwind(AssertUnwindSafe(job));
                }
            })?;
        Ok(Self {
            jobs,
            turn: Mutex::new(None),
        })
    }

    /// Waits for its turn.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn {
            jobs: &self.jobs,
            counted: self.turn.lock().await,
        }
    }
}

impl Turn<'_> {
    /// Runs `job` on the thread.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        // The thread lives as long as the sender does.
        let _ignored = self.jobs.send(Box::new(job));
    }

    /// Whether it is time to count what has come; then it is taken for counted.
    pub(crate) fn is_to_count(&mut self) -> bool {
        let now = Instant::now();
        let due = self.counted.is_none_or(|at| now - at >= COUNT_EVERY);
        if due {
            *self.counted = Some(now);
        }
        due
    }
}
