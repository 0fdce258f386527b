//! Acknowledged events are counted: the raw events and every level of both rollups, read right
//! after an acknowledgement, hold exactly what was acknowledged: before a seal, during one, and
//! after one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::{Home, PAST_S, Server, knob, line, sums_query};

/// Trials on one store: without compaction every seal makes the next reads a little slower.
const TRIALS_PER_STORE: u64 = 250;

#[test]
fn every_level_holds_what_is_acknowledged_before_during_and_after_a_seal() {
    let trials = knob("LOGMILL_TRIALS", 1000);
    let seals = Seals::default();
    let mut done = 0;
    while done < trials {
        let here = TRIALS_PER_STORE.min(trials - done);
        one_store(here, done, &seals);
        done += here;
    }
    let (during, between) = (
        seals.reads_during.load(Ordering::SeqCst),
        seals.reads_between.load(Ordering::SeqCst),
    );
    println!("{trials} trials: {during} reads began during a seal, {between} between two");
    if trials >= 100 {
        assert!(during > 0, "no read began during a seal");
        assert!(between > 0, "no read began between two seals");
    }
}

#[derive(Default)]
struct Seals {
    /// Odd while a seal is under way.
    phase: AtomicU64,
    reads_during: AtomicU64,
    reads_between: AtomicU64,
}

fn one_store(trials: u64, seed: u64, seals: &Seals) {
    let home = Home::new();
    let server = Server::start(&home.data);
    let mut random = SmallRng::seed_from_u64(seed);
    let query = sums_query();
    // A seal that is requested while one runs is not queued: then there would be no quiet time.
    let (ask, asked) = sync_channel::<()>(0);
    std::thread::scope(|scope| {
        let sealed = &server;
        scope.spawn(move || {
            while asked.recv().is_ok() {
                seals.phase.fetch_add(1, Ordering::SeqCst);
                sealed.seal();
                seals.phase.fetch_add(1, Ordering::SeqCst);
            }
        });
        // The sender is moved in, so that the sealing thread ends when the trials end, even by a
        // panic.
        let ask = ask;
        let mut acknowledged = 0;
        for trial in 0..trials {
            let lines = random.random_range(1..=12);
            let body: String = (0..lines)
                .map(|_| {
                    let at = PAST_S + random.random_range(0..40 * 86_400);
                    let path = format!("/page/{}", random.random_range(0..20));
                    let host = format!("203.0.113.{}", random.random_range(0..50));
                    line(&host, at, &path, 200 + random.random_range(0..300), 100)
                })
                .collect();
            let seal = random.random_range(0..10);
            if seal == 0 {
                let _busy = ask.try_send(());
            }
            let concern = if trial % 5 == 0 { "j=true" } else { "w=1" };
            let answer = server.ingest(&format!("access?{concern}"), body);
            acknowledged += lines;
            assert_eq!(answer["accepted"], lines);
            if seal == 1 {
                let _busy = ask.try_send(());
            }
            let during = seals.phase.load(Ordering::SeqCst) % 2 == 1;
            let counter = if during {
                &seals.reads_during
            } else {
                &seals.reads_between
            };
            counter.fetch_add(1, Ordering::SeqCst);
            let rows = server.sql(&query);
            assert_eq!(rows.len(), 13);
            for row in rows {
                assert_eq!(
                    row["n"], acknowledged,
                    "trial {trial}: {} (during a seal: {during})",
                    row["t"]
                );
            }
        }
    });
    // The share that is sealed depends on how long a seal takes.
    let sealed = server.number("SELECT max(last_run) FROM system.rollups");
    assert!(sealed > 0 || trials < 100, "nothing was sealed");
}
