//! The store on the simulated disk, compared with an oracle that does not trust it.
//!
//! Everything follows from a seed: the history, the disk operation before which it ends, and the
//! data that survives a power cut. Nothing happens on its own: the clock stands, and only
//! requested syncs and seals run. Without a fault no call may return an error. A failure prints
//! its seed; `LOGMILL_SIM_SEED` runs that seed alone and prints its steps. `LOGMILL_SIM_SECONDS`
//! and `LOGMILL_SIM_HISTORIES` set the minimum duration and number of histories, `LOGMILL_FULL=1`
//! runs every crash point and every fault. `LOGMILL_BUG` inserts a bug into the store, which the
//! model must find.

mod crowd;
pub(crate) mod listing;
mod machines;
mod motley;
mod oracle;
mod pure;
mod seeded;
mod seen;
mod settling;
mod sim_depot;
mod sim_journal;
mod steps;
mod world;
mod writers;
mod wrong_topics;

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::sim::{Call, Fault, Image};
use crate::store::Config;
use steps::{Step, script, short_script, step};
use world::{Done, World};

/// Runs one store through several processes, each of some steps and ended by a crash at any disk
/// operation.
fn history(seed: u64) -> World {
    live(World::new(seed))
}

fn live(mut world: World) -> World {
    let enough = 30 + world.random.below(20);
    world.open(false).expect("opens");
    while world.done.steps < enough {
        let steps = 1 + world.random.below(20);
        let steps: Vec<Step> = (0..steps).map(|_| step(&mut world.random)).collect();
        if world.random.below(3) > 0 {
            let in_between = world.random.below(20 * steps.len() as u64);
            world.fs.halt_at(world.fs.operations() + in_between);
        }
        world.run(&steps);
        let image = world.image();
        world.end(image);
        let cuts = world.random.below(3);
        world.recover(image.is_some(), cuts);
        let seed = world.random.next_u64();
        world.run(&[Step::Retry { times: 2, seed }]);
    }
    world
}

/// Interval of syncs and seals in the models: none runs on its own within a history.
const NEVER_US: i64 = 1 << 50;

/// Returns the configuration of a store that does nothing on its own.
fn idle() -> Config {
    Config {
        lag_us: NEVER_US,
        memtable_bytes_max: 1 << 30,
        sync_interval_ms: 3_600_000,
        tends: false,
        // Nothing depends on the job log, and a failure there is no error.
        keeps_log: false,
        ..Config::default()
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|s| s.parse().ok())
}

fn full() -> bool {
    setting("LOGMILL_FULL") == Some(1)
}

/// Runs `what` and prints its name when it fails.
fn named<T>(name: &str, what: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(done) => done,
        Err(panic) => {
            eprintln!("failed: {name}");
            std::panic::resume_unwind(panic)
        }
    }
}

/// Calls `what` with 0, 1, 2, … on every core, until one call returns true.
fn on_all_cores(what: impl Fn(u64) -> bool + Sync) {
    on_each_core(1, what);
}

/// As [`on_all_cores`], with several calls at once on each core, for those that mostly wait.
fn on_each_core(calls: usize, what: impl Fn(u64) -> bool + Sync) {
    let (next, enough) = (AtomicU64::new(0), AtomicBool::new(false));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        while !enough.load(Ordering::SeqCst) {
            let number = next.fetch_add(1, Ordering::SeqCst);
            // A panic ends the loop too.
            match catch_unwind(AssertUnwindSafe(|| what(number))) {
                Ok(false) => {}
                Ok(true) => enough.store(true, Ordering::SeqCst),
                Err(panic) => {
                    enough.store(true, Ordering::SeqCst);
                    std::panic::resume_unwind(panic);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..calls * cores {
            scope.spawn(work);
        }
    });
}

impl Done {
    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.recovery = self.recovery.max(other.recovery);
    }
}

#[test]
fn a_history_keeps_its_promises_over_kills_and_power_cuts() {
    if let Some(seed) = setting("LOGMILL_SIM_SEED") {
        let mut world = World::new(seed);
        world.verbose = true;
        named(&format!("seed {seed}"), || live(world));
        return;
    }
    let started = Instant::now();
    let limit = Duration::from_secs(setting("LOGMILL_SIM_SECONDS").unwrap_or(10));
    let at_least = setting("LOGMILL_SIM_HISTORIES").unwrap_or(1);
    let (histories, all) = (AtomicU64::new(0), Mutex::new(Done::default()));
    on_all_cores(|seed| {
        let done = named(&format!("seed {seed}"), || history(seed).done);
        all.lock().add(done);
        let enough = histories.fetch_add(1, Ordering::SeqCst) + 1 >= at_least;
        enough && started.elapsed() >= limit
    });
    let (histories, all) = (histories.into_inner(), all.into_inner());
    println!(
        "{histories} histories, {} operations, {} crashes in {:.1?}; a recovery took {} calls at most",
        all.steps,
        all.crashes,
        started.elapsed(),
        all.recovery
    );
    assert!(all.crashes >= histories && all.steps >= 30 * histories);
}

/// Returns a write of a batch without identity.
fn write(j: bool) -> Step {
    Step::Write {
        events: 3,
        bad: 0,
        producer: None,
        keyed: false,
        j,
    }
}

#[test]
fn a_group_without_room_leaves_alone_what_is_synced() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        world.run(&[write(true), Step::Full(0), write(false)]);
        world.end(Some(Image::Seed(seed)));
        world.recover(true, 0);
    }
}

#[test]
fn a_recovery_on_a_full_disk_may_be_cut_anywhere() {
    on_all_cores(|number| {
        let (blocks, at, seed) = (number % 4, number / 4 % 24, number / 96);
        named(
            &format!("{blocks} blocks, operation {at}, seed {seed}"),
            || {
                let mut world = World::new(seed);
                world.run(&[write(true), write(false), Step::Full(blocks)]);
                world.end(Some(Image::Seed(seed)));
                let image = Image::Seed(seed + 1);
                let power = world.cut_recovery(true, at, Some(image));
                world.recover(power, 0);
            },
        );
        seed == 24
    });
}

#[test]
fn a_store_on_a_full_disk_is_closed_without_a_word_of_unknown() {
    for blocks in 0..4 {
        let mut world = World::new(0);
        world.run(&[write(false), Step::Full(blocks), Step::Close, Step::Room]);
    }
}

#[test]
fn a_seed_decides_every_call() {
    // Replace the name of a reader's file, which is random.
    let calls = |seed| {
        let mut world = World::new(seed);
        world.log = Some(Vec::new());
        world.fs.record();
        let world = live(world);
        let name = |path: PathBuf| match path.parent() {
            Some(p) if p == Path::new("/data/readers") => p.to_path_buf(),
            _ => path,
        };
        let log = world.log.expect("written down").into_iter();
        log.map(|(call, path)| (call, name(path)))
            .collect::<Vec<_>>()
    };
    for seed in 0..5 {
        let (first, second) = (calls(seed), calls(seed));
        assert!(first.len() > 50);
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn every_operation_of_the_disk_may_be_the_last() {
    let images = [
        None,
        Some(Image::Nothing),
        Some(Image::Everything),
        Some(Image::Zeros),
        Some(Image::NoNames),
        Some(Image::NoContents),
        Some(Image::Seed(1)),
        Some(Image::Seed(2)),
    ];
    let started = Instant::now();
    let mut world = World::new(0);
    world.moments = Some(Vec::new());
    world.fs.keep_every(if full() { 1 } else { 10 });
    world.run(&script(3, 300));
    let operations = world.fs.operations();
    let (kept, moments) = (world.fs.kept(), world.moments.expect("noted"));
    let points = (kept.len() * images.len()) as u64;
    let all = Mutex::new(Done::default());
    on_all_cores(|point| {
        let at = (point % points) as usize;
        let (operation, fs) = &kept[at / images.len()];
        let image = images[at % images.len()];
        let done = named(&format!("operation {operation}, {image:?}"), || {
            let known = moments.partition_point(|(n, _)| n <= operation);
            let oracle = moments[known - 1].1.clone();
            let mut world = World::at(fs.clone(), oracle, point);
            world.end(image);
            world.recover(image.is_some(), 1);
            world.run(&script(point, 3));
            world.done
        });
        all.lock().add(done);
        point + 1 >= points
    });
    let crashes = all.into_inner().crashes;
    println!(
        "{operations} operations, {crashes} crashes in {:.1?}",
        started.elapsed()
    );
    assert!(operations > 1000 && crashes >= 2 * points);
}

#[test]
fn any_call_that_fails_ends_in_a_clean_error_or_poison() {
    let fault = |call, error| Fault {
        call,
        after: 0,
        forever: true,
        error,
    };
    // Faults: one from the n-th call on, and perhaps another one from the beginning.
    let faults = [
        (fault(Call::Any, ErrorKind::Other), None),
        (fault(Call::Any, ErrorKind::StorageFull), None),
        (fault(Call::Write, ErrorKind::WriteZero), None),
        (fault(Call::Read, ErrorKind::Other), None),
        (
            fault(Call::Write, ErrorKind::StorageFull),
            Some(fault(Call::SetLen, ErrorKind::Other)),
        ),
    ];
    let (started, runs) = (Instant::now(), AtomicU64::new(0));
    for (nth, (fault, besides)) in faults.into_iter().enumerate() {
        // Each call fails by the first fault, and a third of them by the others: another third in
        // each process.
        let (stride, first) = match nth == 0 || full() {
            true => (1, 0),
            false => (3, u64::from(std::process::id()) % 3),
        };
        for forever in [false, true] {
            on_all_cores(|number| {
                let after = number * stride + first;
                let fault = Fault {
                    after,
                    forever,
                    ..fault
                };
                runs.fetch_add(1, Ordering::SeqCst);
                named(&format!("{fault:?}, {besides:?}"), || {
                    let mut world = World::new(after);
                    world.fs.fail(fault);
                    if let Some(besides) = besides {
                        world.fs.fail(besides);
                    }
                    world.run(&short_script());
                    let failed = world.fs.failed();
                    let image = world.image();
                    world.end(image);
                    world.recover(image.is_some(), 0);
                    !failed
                })
            });
        }
    }
    let runs = runs.into_inner();
    println!(
        "{runs} runs with a call that fails in {:.1?}",
        started.elapsed()
    );
    assert!(runs > 500);
}

#[test]
fn what_failed_leaves_no_file_behind() {
    let fault = |after| Fault {
        call: Call::Any,
        after,
        forever: false,
        error: ErrorKind::StorageFull,
    };
    on_all_cores(|after| {
        let mut failed = false;
        named(&format!("call {after}"), || {
            let mut world = World::new(after);
            let ten: Vec<Step> = (0..5).flat_map(|_| [write(true), Step::Seal]).collect();
            world.run(&ten);
            world.run(&[write(true)]);
            world.fs.fail(fault(after));
            let seal = [Step::Seal, Step::Compact { quiet: true }];
            let days = (-2, 2);
            let there_and_back = [Step::Detach { days, dry: false }, Step::Attach { days }];
            world.run(&seal);
            world.run(&there_and_back);
            failed = world.fs.failed();
            world.fs.mend();
            world.run(&seal);
            world.check_no_stray_files();
            world.run(&there_and_back);
            world.check_no_stray_files();
        });
        !failed
    });
}
