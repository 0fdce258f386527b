//! The memory that queries hold, and the choice of the query that has to release it.
//!
//! Operators report to the pool the memory that they take, and some report late, too little or
//! nothing: a table that doubles, the copy that an aggregate returns, texts that functions build.
//! So reported memory decides which operator spills, and held memory decides which query is
//! stopped. While queries run, a thread compares the memory of the process with its value before
//! the queries. Pages of files do not count: they are the program itself, which a query makes the
//! kernel read. The thread also reads how many pages the kernel gave to the threads of each query,
//! which distinguishes queries from a seal or an import beside them, and one query from another. To
//! count allocations instead, each block would have to be followed from the thread that takes it to
//! the thread that frees it, in the whole program.
//!
//! Memory that a query has freed stays resident in the C library, and would count as the
//! program's own when the next query begins. So it is returned to the kernel then, and after a
//! query was stopped; and when queries seem to hold nearly all of the limit, because what one of
//! their threads has freed and no other can use would count as held.
//!
//! # Invariants
//! * A quarter of the limit is for reported memory: the rows that an aggregate returns or spills
//!   exist two or three times more meanwhile, as columns, in sorted order, and in the next
//!   operator.
//! * While more than [`FULL_SHARE`] percent of the limit is held, an operator that requests more
//!   than a little is rejected, and spills if it can. Above [`STOP_SHARE`] percent the query that
//!   took most is stopped, one at a time.
//! * A query counts until nothing of its plan is left, even after its answer has ended.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::run::query_threads::ThreadFaults;
use crate::run::registry::End;

/// Interval of the checks of memory: at a gigabyte a second, 5 MiB apart.
const EVERY: Duration = Duration::from_millis(5);
/// The thread that checks memory ends after this time without a query.
const LINGER: Duration = Duration::from_secs(1);
/// While all queries are younger than this, memory beyond what they took is the program's own.
const YOUNG: Duration = Duration::from_millis(20);
/// Time that a stopped query has to release its memory before the next one is stopped.
const TO_END: Duration = Duration::from_millis(150);
/// Growth of memory between queries, in bytes and as a divisor of the limit. Beyond the
/// larger of the two, freed memory is returned to the kernel, to learn how much is in use. Queries
/// wait for it, so that what an import frees beside them must not cause it each time; what the next
/// query takes of memory that was freed does not count as held.
const GROWTH: u64 = 16 << 20;
const GROWTH_SHARE: u64 = 8;
/// Pause between two returns of freed memory while queries run, as a multiple of the time that one
/// takes: new queries wait for it.
const RETURN_PAUSE: u32 = 10;
/// Divisor of the limit: the memory that operators may report.
const TOLD_SHARE: usize = 4;
/// Divisor of the limit: the memory that a query receives whatever others hold, because it is not
/// the query that has to release memory.
const SMALL_SHARE: u64 = 64;
/// Percent of the limit above which requests are rejected, and above which a query is stopped.
/// Both are below 100, because a query takes some more memory before it stops.
const FULL_SHARE: u64 = 80;
const STOP_SHARE: u64 = 85;

/// The memory of all queries together.
pub(crate) struct Memory {
    limit: u64,
    told: FairSpillPool,
    /// True when nearly all of the limit was held at the last check.
    is_over: AtomicBool,
    held: AtomicU64,
    looked: Mutex<MemorySample>,
}

#[derive(Debug, Default)]
struct MemorySample {
    shares: Vec<Weak<Share>>,
    is_watched: bool,
    /// Anonymous bytes without queries.
    base: u64,
    /// Anonymous bytes when freed memory was last returned to the kernel, or the lowest value
    /// since.
    clean: u64,
    /// The query that was stopped last, and when.
    stopped: Option<(Weak<Share>, Instant)>,
    /// True while the memory of a stopped query has not been returned to the kernel.
    is_kept: bool,
    /// The time before which freed memory is not returned while queries run.
    next_return: Option<Instant>,
}

impl MemorySample {
    /// Returns freed memory to the kernel, if the last time was not a moment ago. Returns whether
    /// it did.
    fn give_back_again(&mut self) -> bool {
        let began = Instant::now();
        if self.next_return.is_some_and(|next| began < next) {
            return false;
        }
        storage::give_back_memory();
        let ended = Instant::now();
        self.next_return = ended.checked_add((ended - began) * RETURN_PAUSE);
        true
    }

    /// Returns the bytes that are held beyond the program's own.
    fn held(&mut self) -> u64 {
        let anonymous = storage::anonymous_bytes();
        self.base = self.base.min(anonymous);
        anonymous - self.base
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("limit", &self.limit)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

/// The memory pool of one query. Everything of its plan holds it.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    told: AtomicUsize,
    since: Instant,
    end: watch::Sender<Option<End>>,
    threads: ThreadFaults,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit as u64,
            told: FairSpillPool::new(limit / TOLD_SHARE),
            is_over: AtomicBool::new(false),
            held: AtomicU64::new(0),
            looked: Mutex::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits while more memory is held than allowed: the query that took it is being stopped.
    pub(crate) async fn room(&self) {
        while self.is_over() {
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Returns the pool of a query that begins on `threads`; `end` stops the query.
    pub(crate) fn share(
        self: &Arc<Self>,
        end: watch::Sender<Option<End>>,
        threads: ThreadFaults,
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
            self.settle(&mut looked);
        }
        looked.shares.push(Arc::downgrade(&share));
        if !looked.is_watched {
            let watched = Arc::clone(self);
            let thread = std::thread::Builder::new().name("logmill-memory".into());
            match thread.spawn(move || watched.watch()) {
                Ok(_) => looked.is_watched = true,
                Err(error) => {
                    tracing::warn!(%error, "could not start the thread that watches query memory; a query that exceeds its share is not stopped")
                }
            }
        }
        share
    }

    /// Measures the memory that is held without queries.
    fn settle(&self, looked: &mut MemorySample) {
        let mut anonymous = storage::anonymous_bytes();
        // The growth counts since the last return of memory, not since the last query: each of
        // many small queries leaves too little to be worth a return.
        if anonymous > looked.clean + GROWTH.max(self.limit / GROWTH_SHARE) {
            storage::give_back_memory();
            anonymous = storage::anonymous_bytes();
            looked.clean = anonymous;
        }
        looked.clean = looked.clean.min(anonymous);
        looked.base = anonymous;
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
                self.settle(&mut looked);
                looked.is_watched = false;
                return;
            }
            // Between two queries nobody asks what is held.
            if !looked.shares.is_empty() || looked.is_kept || self.is_over() {
                self.look(&mut looked);
            }
        }
    }

    fn look(&self, looked: &mut MemorySample) {
        let is_ending = (looked.stopped.as_ref())
            .is_some_and(|(share, at)| share.strong_count() > 0 && at.elapsed() < TO_END);
        if !is_ending && std::mem::take(&mut looked.is_kept) {
            storage::give_back_memory();
        }
        let shares: Vec<_> = looked.shares.iter().filter_map(Weak::upgrade).collect();
        for share in &shares {
            share.threads.begin();
        }
        let is_quiet = shares.iter().all(|share| share.since.elapsed() < YOUNG);
        let taken = || shares.iter().map(|share| share.taken()).sum::<u64>();
        if is_quiet {
            // The rest is the program's own.
            let others = storage::anonymous_bytes().saturating_sub(taken());
            looked.base = looked.base.max(others);
        }
        let full = self.limit / 100 * FULL_SHARE;
        let mut held = looked.held();
        if held > full && looked.give_back_again() {
            held = looked.held();
        }
        if held > self.limit / 2 {
            held = held.min(taken());
        }
        self.held.store(held, Ordering::Relaxed);
        let is_over = held > full;
        self.is_over.store(is_over, Ordering::Relaxed);
        if held <= self.limit / 100 * STOP_SHARE {
            return;
        }
        let running = shares.iter().filter(|share| !share.is_stopped());
        if let Some(largest) = running.max_by_key(|share| share.taken())
            && !is_ending
        {
            looked.stopped = Some((Arc::downgrade(largest), Instant::now()));
            looked.is_kept = true;
            tracing::warn!(
                held,
                limit = self.limit,
                "stopping a query that uses too much memory"
            );
            largest.end.send_replace(Some(End::Memory { held }));
        }
    }
}

impl Share {
    /// Returns the share of the query that a plan is executed for.
    pub(crate) fn of(context: &TaskContext) -> Option<Arc<Self>> {
        let pool: Arc<dyn Any + Send + Sync> = Arc::clone(context.memory_pool()) as _;
        pool.downcast().ok()
    }

    /// Returns whether the query is being stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Returns the bytes that the query took so far, as far as they are known.
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
        // As an error of its own kind: an operator that is short of memory would go on, and copy
        // what it has to spill it.
        if let Some(end @ End::Memory { .. }) = *self.end.borrow() {
            let id = 0; // Not told of this end.
            return Err(end.error(id).into());
        }
        let told = self.told.load(Ordering::Relaxed) + additional;
        if (told as u64) <= self.memory.limit / SMALL_SHARE {
            self.grow(reservation, additional);
            return Ok(());
        }
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
