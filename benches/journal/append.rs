//! Batches of several sizes with `w=1`, from one thread and from four.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use storage::{Batch, Options, Store, WriteConcern};

use crate::machine::{Account, Spent, median};
use crate::{Settings, events, files};

const SIZES: [usize; 3] = [1, 100, 1000];
const THREADS: [usize; 2] = [1, 4];
/// Distinct events that are written again and again.
const EVENTS: usize = 20_000;

/// Returns options of a store that never seals by itself: only the journal is measured.
pub(crate) fn unsealed(options: Options) -> Options {
    let mut options = options;
    options.config.lag_us = i64::MAX / 2;
    options.config.memtable_bytes_max = 8 << 30;
    options
}

/// One run.
struct Run {
    events: f64,
    /// Journal written, MB.
    journal: f64,
    spent: Spent,
}

/// Prints the rates of appending; `disk` is the disk's sequential write rate, MB/s.
pub(crate) fn measure(s: &Settings, disk: f64) {
    let lines = events::lines(&s.logmill, EVENTS);
    println!(
        "  batch threads    events/s  batches/s  journal MB/s  of the disk's {disk:.0}  cores: log sync all"
    );
    let mut speeds = vec![Vec::new(); SIZES.len() * THREADS.len()];
    for _ in 0..s.rounds {
        for (i, size) in SIZES.into_iter().enumerate() {
            let batches = events::batches(&lines, size);
            for (k, threads) in THREADS.into_iter().enumerate() {
                let run = append(s, &batches, threads);
                let per_second = run.events / run.spent.seconds;
                let journal = run.journal / run.spent.seconds;
                println!(
                    "  {size:>5} {threads:>7} {per_second:>11.0} {:>10.0} {journal:>13.1} {:>14.1} % {:>12.2} {:.2} {:.2}",
                    per_second / size as f64,
                    journal / disk * 100.0,
                    run.spent.of("logmill-log"),
                    run.spent.of("logmill-sync"),
                    run.spent.cores,
                );
                speeds[i * THREADS.len() + k].push((per_second, journal));
            }
        }
    }
    println!("  medians of {} rounds", s.rounds);
    for (at, runs) in speeds.into_iter().enumerate() {
        let (per_second, journal): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
        let journal = median(journal);
        println!(
            "  {:>5} {:>7} {:>11.0} {:>24.1} {:>14.1} %",
            SIZES[at / THREADS.len()],
            THREADS[at % THREADS.len()],
            median(per_second),
            journal,
            journal / disk * 100.0,
        );
    }
}

fn append(s: &Settings, batches: &[Batch], threads: usize) -> Run {
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let options = unsealed(Options::default());
    let store = Store::open(temporary.path(), options).expect("a new store");
    let stop = AtomicBool::new(false);
    let (written, spent) = std::thread::scope(|scope| {
        let account = Account::open("self");
        let writers: Vec<_> = (0..threads)
            .map(|i| {
                let (store, stop) = (&store, &stop);
                scope.spawn(move || write_until(store, batches, i, stop))
            })
            .collect();
        std::thread::sleep(s.time);
        stop.store(true, Relaxed);
        let written: usize = writers
            .into_iter()
            .map(|w| w.join().expect("a count"))
            .sum();
        (written, account.close())
    });
    Run {
        events: written as f64,
        journal: files::bytes(&temporary.path().join("journal")) as f64 / 1e6,
        spent,
    }
}

/// Writes batches until `stop`; returns the number of acknowledged events.
fn write_until(store: &Store, batches: &[Batch], first: usize, stop: &AtomicBool) -> usize {
    let mut events = 0;
    for batch in batches.iter().cycle().skip(first * batches.len() / 4) {
        if stop.load(Relaxed) {
            break;
        }
        let ack = store.write(batch.clone(), WriteConcern::ACKNOWLEDGED);
        events += ack.expect("acknowledged").accepted as usize;
    }
    events
}
