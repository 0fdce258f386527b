//! Sequences of what happens to logs, shippers and their server, against a model: every line that
//! was ever written comes into the store once, and nothing else does. Neither the folder nor the
//! store of the model shares code with the shipper.

mod folder;
mod store;

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use storage::WriteConcern;

use super::seeded::{SEEDED, ShipBug};
use super::send::{Ended, Link};
use super::sender::Shipper;
use super::{ShipOptions, ShipTarget};
use crate::interrupt::Interrupt;
use folder::Folder;
use store::Store;

fn options(pattern: std::path::PathBuf) -> ShipOptions {
    ShipOptions {
        targets: vec![ShipTarget::new(pattern).expect("an argument")],
        stream: "access".into(),
        multiline: None,
        format: None,
        site: None,
        tz: None,
        concern: WriteConcern::ACKNOWLEDGED,
        from_end: false,
        once: false,
    }
}

fn shipper<'a>(options: &'a ShipOptions, store: &'a Store, random: &mut SmallRng) -> Shipper<'a> {
    let link = Link::new(store, Interrupt::default(), None).unpaced();
    Shipper::new(options, link).with_batches(random.random_range(1024..6000))
}

/// Lets a shipper take some steps.
fn steps(shipper: &Shipper<'_>, random: &mut SmallRng, now: Instant) -> Result<(), Ended> {
    for _ in 0..random.random_range(1..8) {
        match random.random_range(0..4) {
            0 => shipper.look(now, random.random_bool(0.7)),
            1 => {
                shipper.identify_next(now)?;
            }
            _ => {
                shipper.send_next(now)?;
            }
        }
    }
    Ok(())
}

/// Lets a shipper do all there is to do.
fn drain(shipper: &Shipper<'_>, now: &mut Instant) {
    for _ in 0..300 {
        *now += Duration::from_secs(1);
        shipper.look(*now, true);
        while shipper
            .identify_next(*now)
            .expect("a server without faults")
            || shipper.send_next(*now).expect("a server without faults")
        {}
    }
}

/// Runs a sequence. The error says how the store differs from the logs.
fn run(seed: u64, shippers: usize) -> Result<(), String> {
    let mut random = SmallRng::seed_from_u64(seed);
    // Of two shippers that find files with equal beginnings at once, each may name them otherwise.
    let folder = Folder::new(random.random(), shippers == 1);
    let options = options(folder.pattern());
    let store = Store::new(folder, random.random());
    let mut now = Instant::now();
    let mut running: Vec<Shipper<'_>> = Vec::new();
    for _ in 0..random.random_range(20..150) {
        now += Duration::from_millis(random.random_range(20..3000));
        match random.random_range(0..10) {
            0 if !running.is_empty() => {
                let killed = random.random_range(0..running.len());
                running.swap_remove(killed);
                store.log("killed");
            }
            1..4 => store.happens(),
            _ => {
                while running.len() < shippers {
                    running.push(shipper(&options, &store, &mut random));
                }
                let nth = random.random_range(0..running.len());
                if steps(&running[nth], &mut random, now).is_err() {
                    store.log("killed under way");
                    running.swap_remove(nth);
                }
            }
        }
    }
    store.in_peace();
    if random.random_bool(0.5) {
        running.clear();
    }
    if running.is_empty() {
        running.push(shipper(&options, &store, &mut random));
    }
    running.truncate(1);
    drain(&running[0], &mut now);
    let first = store.difference();
    if first.is_empty() {
        // The next one has nothing to add.
        let next = shipper(&options, &store, &mut random);
        drain(&next, &mut now);
    }
    let difference = store.difference();
    match difference.is_empty() {
        true => Ok(()),
        false => Err(format!("seed {seed}: {difference}\n{}", store.history())),
    }
}

fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

#[test]
fn every_line_comes_once_whatever_happens_to_files_shipper_and_server() {
    let runs = knob("LOGMILL_SHIP_RUNS", 60);
    let first = knob("LOGMILL_SEED", u64::from(std::process::id()) << 20);
    println!("LOGMILL_SEED={first}");
    for seed in first..first + runs {
        if let Err(difference) = run(seed, 1) {
            panic!("{difference}");
        }
    }
}

#[test]
fn two_shippers_of_the_same_files_send_each_line_once() {
    let runs = knob("LOGMILL_SHIP_RUNS", 20);
    let first = knob("LOGMILL_SEED", u64::from(std::process::id()) << 20);
    println!("LOGMILL_SEED={first}");
    for seed in first..first + runs {
        if let Err(difference) = run(seed, 2) {
            panic!("{difference}");
        }
    }
}

#[test]
fn seeded_faults_are_found() {
    for bug in [
        ShipBug::GuardFits,
        ShipBug::CopyIsNew,
        ShipBug::PieceIsLine,
        ShipBug::UnknownIsStored,
    ] {
        SEEDED.set(Some(bug));
        let found = (0..2000).find(|seed| run(*seed, 1).is_err());
        SEEDED.set(None);
        let seed = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?} is found by seed {seed}");
    }
}
