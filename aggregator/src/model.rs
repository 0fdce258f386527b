//! The cascade in a store on the simulated disk, beside an oracle that does not believe it.
//!
//! Everything follows from a seed: the rollups, the history, the operation of the disk before which
//! it ends, and what a power cut leaves. Nothing happens by itself. After every step every level of
//! every rollup shows what the oracle computes from the acknowledged events: with a calendar of its
//! own, exact integers over sorted values, and states by their written formulas. Only a disk that has
//! stopped excuses an error. A failure names its seed; `LOGMILL_SIM_SEED` runs that one alone and
//! tells its steps. `LOGMILL_SIM_SECONDS` and `LOGMILL_SIM_HISTORIES` say for how long and how many
//! at least. `LOGMILL_BUG` puts a fault into the cascade, which must then be found.

mod added;
mod calendar;
mod counted;
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

use world::{Done, World};

const STREAM: &str = "events";

/// Some lives of one store, each of some steps and ended by a crash at any operation of the disk.
fn live(world: &mut World) {
    let enough = 30 + world.random.below(10);
    world.run(1);
    while world.done.steps < enough {
        let steps = 1 + world.random.below(20);
        // Seals take most of the operations: soon is in a write.
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
    // It reads every part again and again.
    if world.random.below(16) == 0 {
        world.verify();
    }
}

fn history(seed: u64, tells: bool) -> Done {
    let mut world = World::new(seed);
    world.tells = tells;
    match catch_unwind(AssertUnwindSafe(|| live(&mut world))) {
        Ok(()) => world.done,
        Err(panic) => {
            eprintln!("failed: seed {seed} after {} steps", world.done.steps);
            // What it holds may not be closed cleanly any more.
            std::mem::forget(world);
            resume_unwind(panic)
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|s| s.parse().ok())
}

impl Done {
    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.calls += other.calls;
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
    let all = Mutex::new(Done::default());
    let work = || {
        let enough = |seed| seed >= at_least && started.elapsed() >= limit;
        while !failed.load(Ordering::SeqCst) {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if enough(seed) {
                break;
            }
            match catch_unwind(|| history(seed, false)) {
                Ok(done) => all.lock().expect("no panic").add(done),
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
        all.calls,
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
