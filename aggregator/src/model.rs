//! Checks the cascade on random histories of a store on the simulated disk, against an oracle.
//!
//! A seed decides everything: the rollups, the history, the disk operation at which a life of the
//! store ends, and what a power cut leaves. No background work runs by itself. After every step,
//! every level of every rollup must show the cells that the oracle computes from the acknowledged
//! events: with its own calendar, exact integers over sorted values, and states from their written
//! formulas. Only a disk that has stopped excuses an error. A failure reports its seed;
//! `LOGMILL_SIM_SEED` runs that seed alone and prints its steps. `LOGMILL_SIM_SECONDS` and
//! `LOGMILL_SIM_HISTORIES` are the least duration and the least number of histories. `LOGMILL_BUG`
//! puts a fault into the cascade, which the model must then find.

mod added;
mod calendar;
mod counted;
mod erased;
mod events;
mod floors;
mod instants;
mod naive;
mod oracle;
mod rollups;
mod seeded;
mod seen;
mod steps;
mod weeks;
mod widened;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use world::{RollupWorld, WorldCounters};

const STREAM: &str = "events";

/// Runs several lives of one store. Each takes some steps and ends in a crash at a random operation
/// of the disk.
fn run_lives(world: &mut RollupWorld) {
    let enough = 30 + world.random.below(10);
    world.run(1);
    while world.counters.steps < enough {
        let steps = 1 + world.random.below(20);
        // Seals take most of the operations, so only a small number ends the life in a write.
        let in_between = match world.random.below(4) {
            0 | 1 => None,
            2 => Some(world.random.below(8)),
            _ => Some(world.random.below(30 * steps)),
        };
        if let Some(in_between) = in_between {
            world.fs.halt_at(world.fs.operations() + in_between);
        }
        world.run(steps);
        let image = world.image();
        world.end(image);
        world.recover(image.is_some());
    }
    // Verification is expensive: it reads every part again and again.
    if world.random.below(16) == 0 {
        world.verify();
    }
}

fn history(seed: u64, prints_steps: bool) -> WorldCounters {
    let mut world = RollupWorld::new(seed);
    world.prints_steps = prints_steps;
    match catch_unwind(AssertUnwindSafe(|| run_lives(&mut world))) {
        Ok(()) => world.counters,
        Err(panic) => {
            eprintln!("failed: seed {seed} after {} steps", world.counters.steps);
            // The store may be in a state in which it cannot be closed cleanly.
            std::mem::forget(world);
            resume_unwind(panic)
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|s| s.parse().ok())
}

impl WorldCounters {
    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.disk_operations += other.disk_operations;
        self.reads += other.reads;
        self.rows += other.rows;
    }
}

#[test]
fn every_level_shows_the_acknowledged_events_after_every_step() {
    if let Some(seed) = setting("LOGMILL_SIM_SEED") {
        history(seed, true);
        return;
    }
    let started = Instant::now();
    let limit = Duration::from_secs(setting("LOGMILL_SIM_SECONDS").unwrap_or(10));
    let at_least = setting("LOGMILL_SIM_HISTORIES").unwrap_or(1);
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(WorldCounters::default());
    let work = || {
        let enough = |seed| seed >= at_least && started.elapsed() >= limit;
        while !failed.load(Ordering::SeqCst) {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if enough(seed) {
                break;
            }
            match catch_unwind(|| history(seed, false)) {
                Ok(counters) => all.lock().expect("no panic").add(counters),
                Err(panic) => {
                    failed.store(true, Ordering::SeqCst);
                    resume_unwind(panic);
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let histories = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .for_each(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
        next.load(Ordering::SeqCst) - cores as u64
    });
    let all = all.into_inner().expect("no panic");
    println!(
        "{histories} histories, {} operations ({} of the disk), {} crashes, {} reads of a level with {} rows compared in {:.1?}",
        all.steps,
        all.disk_operations,
        all.crashes,
        all.reads,
        all.rows,
        started.elapsed()
    );
    assert!(all.steps >= 30 * histories && all.crashes >= histories);
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..4 {
        assert_eq!(history(seed, false), history(seed, false), "seed {seed}");
    }
}
