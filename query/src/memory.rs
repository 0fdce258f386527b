//! The memory that queries hold, and which of them gives it up.
//!
//! Operators tell the pool what they take, and some of them late, too little or nothing: a table that
//! doubles, the copy that an aggregate gives out, texts that functions make. So what is told decides who
//! spills, and what is held decides who is stopped. While queries run, a thread looks at the resident
//! memory of the process, as the kernel's own killer would, against what it was before them; and at the
//! pages that the kernel gave to the threads of each query, which tells queries from a seal or an import
//! beside them, and one query from another. To count allocations instead, each block would have to be
//! followed from the thread that takes it to the one that gives it back, in all of the program.
//!
//! # Invariants
//! * Half of the limit is for what is told: what cannot spill is there twice while it is given out.
//! * While more than the limit is held, whoever asks for more is refused, and spills if it can; at
//!   [`STOP_SHARE`] of it the query that took most is stopped, one at a time.
//! * A query counts as there until nothing of its plan is left, also after its answer has ended.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::registry::End;
use crate::runtime::Threads;

/// How often memory is looked at: at a gigabyte a second, 5 MiB apart.
const EVERY: Duration = Duration::from_millis(5);
/// Without a query for so long, nobody looks.
const LINGER: Duration = Duration::from_secs(1);
/// A query younger than this holds next to nothing.
const YOUNG: Duration = Duration::from_millis(20);
/// The next query is stopped when the last one that was has had so long to give its memory back.
const TO_END: Duration = Duration::from_millis(150);
/// Percent of the limit at which a query is stopped.
const STOP_SHARE: u64 = 105;

/// The memory of all queries together.
pub(crate) struct Memory {
    limit: u64,
    told: FairSpillPool,
    /// More than the limit was held at the last look.
    is_over: AtomicBool,
    held: AtomicU64,
    looked: Mutex<Looked>,
}

#[derive(Debug, Default)]
struct Looked {
    shares: Vec<Weak<Share>>,
    is_watched: bool,
    /// Resident without queries.
    base: u64,
    stopped: Option<Instant>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("limit", &self.limit)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

/// The pool of one query: everything of its plan holds it.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    told: AtomicUsize,
    since: Instant,
    end: watch::Sender<Option<End>>,
    threads: Threads,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit as u64,
            told: FairSpillPool::new(limit / 2),
            is_over: AtomicBool::new(false),
            held: AtomicU64::new(0),
            looked: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits while more is held than may be: whoever took it is being stopped.
    pub(crate) async fn room(&self) {
        while self.is_over() {
            tokio::time::sleep(EVERY).await;
        }
    }

    /// The pool of a query that begins on `threads`; `end` stops it.
    pub(crate) fn share(
        self: &Arc<Self>,
        end: watch::Sender<Option<End>>,
        threads: Threads,
    ) -> Arc<Share> {
        let share = Arc::new(Share {
            memory: Arc::clone(self),
            told: AtomicUsize::new(0),
            since: Instant::now(),
            end,
            threads,
        });
        let mut looked = self.looked.lock();
        if looked.shares.iter().all(|s| s.strong_count() == 0) {
            looked.base = storage::resident_bytes();
        }
        looked.shares.push(Arc::downgrade(&share));
        if !looked.is_watched {
            let watched = Arc::clone(self);
            let thread = std::thread::Builder::new().name("logmill-memory".into());
            match thread.spawn(move || watched.watch()) {
                Ok(_) => looked.is_watched = true,
                Err(error) => tracing::warn!(%error, "nobody watches the memory of queries"),
            }
        }
        share
    }

    fn watch(&self) {
        let mut last = Instant::now();
        loop {
            std::thread::sleep(EVERY);
            let mut looked = self.looked.lock();
            looked.shares.retain(|share| share.strong_count() > 0);
            if !looked.shares.is_empty() {
                last = Instant::now();
            } else if last.elapsed() > LINGER {
                self.is_over.store(false, Ordering::Relaxed);
                looked.is_watched = false;
                return;
            }
            self.look(&mut looked);
        }
    }

    fn look(&self, looked: &mut Looked) {
        let resident = storage::resident_bytes();
        let shares: Vec<_> = looked.shares.iter().filter_map(Weak::upgrade).collect();
        for share in &shares {
            share.threads.begin();
        }
        let is_quiet = shares.iter().all(|share| share.since.elapsed() < YOUNG);
        if is_quiet || resident < looked.base {
            looked.base = resident;
        }
        let mut held = resident - looked.base;
        if held > self.limit / 2 {
            held = held.min(shares.iter().map(|share| share.taken()).sum());
        }
        self.held.store(held, Ordering::Relaxed);
        self.is_over.store(held > self.limit, Ordering::Relaxed);
        if held <= self.limit / 100 * STOP_SHARE {
            return;
        }
        let is_ending = looked.stopped.is_some_and(|at| at.elapsed() < TO_END);
        let running = shares.iter().filter(|share| share.end.borrow().is_none());
        if let Some(largest) = running.max_by_key(|share| share.taken())
            && !is_ending
        {
            looked.stopped = Some(Instant::now());
            tracing::warn!(
                held,
                limit = self.limit,
                "a query is stopped for its memory"
            );
            largest.end.send_replace(Some(End::Memory { held }));
        }
    }
}

impl Share {
    /// Bytes that it took so far, as far as that is known.
    fn taken(&self) -> u64 {
        let told = self.told.load(Ordering::Relaxed) as u64;
        self.threads.touched().max(told)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share of {} bytes", self.memory.limit)
    }
}

impl MemoryPool for Share {
    fn name(&self) -> &str {
        "share"
    }
    fn register(&self, consumer: &MemoryConsumer) {
        self.memory.told.register(consumer);
    }
    fn unregister(&self, consumer: &MemoryConsumer) {
        self.memory.told.unregister(consumer);
    }
    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.memory.told.grow(reservation, additional);
        self.told.fetch_add(additional, Ordering::Relaxed);
    }
    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.memory.told.shrink(reservation, shrink);
        self.told.fetch_sub(shrink, Ordering::Relaxed);
    }
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.memory.is_over() {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} asks for {additional} bytes while queries hold {} of {}",
                reservation.consumer().name(),
                self.memory.held.load(Ordering::Relaxed),
                self.memory.limit,
            )));
        }
        self.memory.told.try_grow(reservation, additional)?;
        self.told.fetch_add(additional, Ordering::Relaxed);
        Ok(())
    }
    fn reserved(&self) -> usize {
        self.memory.told.reserved()
    }
    fn memory_limit(&self) -> MemoryLimit {
        self.memory.told.memory_limit()
    }
}
