//! `kill -9` of a server under four writers: two over HTTP and two imports, of each one with `w=1`
//! and one with `j`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::importer::Importer;
use crate::support::{Batch, Home, Ledger, Outcome, Server, knob, seed, write_until_gone};

/// Without compaction a store that seals all the time becomes slower to read.
const KILLS_PER_STORE: u64 = 25;
/// A memtable so large that most seals are the requested ones; the imports reach its limit.
const MEMTABLE: (&str, &str) = ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "16MiB");

/// Counts of everything sent, by outcome.
#[derive(Debug, Default)]
struct Outcomes {
    acknowledged: u64,
    unknown_and_stored: u64,
    unknown_and_lost: u64,
    files: u64,
    imports_killed: u64,
    imports_left_by_the_server: u64,
}

#[test]
fn a_server_killed_at_any_moment_keeps_what_it_acknowledged_once() {
    let kills = knob("LOGMILL_KILLS", 4);
    let mut random = SmallRng::seed_from_u64(seed());
    let mut outcomes = Outcomes::default();
    let mut done = 0;
    while done < kills {
        let here = KILLS_PER_STORE.min(kills - done);
        kill_servers_of_one_store(here, &mut random, &mut outcomes);
        done += here;
    }
    println!("{kills} kills: {outcomes:?}");
}

fn kill_servers_of_one_store(kills: u64, random: &mut SmallRng, outcomes: &mut Outcomes) {
    let home = Home::new();
    let mut server = Server::start_with(&home.data, &[MEMTABLE]);
    let mut ledger = Ledger::begin(&server, random);
    let mut importers = [
        Importer::new("plain", &[]),
        Importer::new("journal", &["--journal"]),
    ];
    for round in 0..kills {
        println!("round {round}");
        let highest = highest(&ledger.batches);
        for importer in &mut importers {
            importer.prepare(&mut ledger, random);
        }
        let sent = write_until_killed(server, round, random, &mut importers, &mut ledger);
        assert_later(&sent, highest);
        outcomes.acknowledged += sent.iter().filter(|b| sequence(b).is_some()).count() as u64;
        ledger.batches.extend(sent);
        server = Server::start_with(&home.data, &[MEMTABLE]);
        ledger.assert_held(|query| server.sql(query));
        let settled = ledger.settle(&server);
        outcomes.unknown_and_stored += settled.stored;
        outcomes.unknown_and_lost += settled.lost;
        // Some senders send again although they had their answer.
        for _ in 0..3 {
            let doubting = random.random_range(0..ledger.batches.len());
            ledger.batches[doubting].send_again(&server, true);
        }
        ledger.assert_exact(&server);
    }
    for importer in &mut importers {
        importer.finish(&server, &mut ledger);
        outcomes.imports_killed += importer.fates.killed;
        outcomes.imports_left_by_the_server += importer.fates.left_alone;
    }
    outcomes.files += ledger.files.len() as u64;
    ledger.assert_exact(&server);
}

fn sequence(batch: &Batch) -> Option<u64> {
    match batch.outcome {
        Outcome::Acknowledged(last_seq) => Some(last_seq),
        Outcome::Refused | Outcome::Unknown => None,
    }
}

fn highest(batches: &[Batch]) -> Option<u64> {
    batches.iter().filter_map(sequence).max()
}

/// Checks that no sequence number comes twice, not even one that was assigned and lost.
#[track_caller]
fn assert_later(sent: &[Batch], highest: Option<u64>) {
    let lowest = sent.iter().filter_map(sequence).min();
    assert!(
        lowest.is_none() || lowest > highest,
        "a sequence number came twice"
    );
    let unknown = sent.iter().filter(|b| b.outcome == Outcome::Unknown);
    assert_eq!(unknown.count(), 2, "each writer was interrupted");
}

/// Runs four writers and one that seals, until the server is killed under them.
fn write_until_killed(
    server: Server,
    round: u64,
    random: &mut SmallRng,
    importers: &mut [Importer; 2],
    ledger: &mut Ledger,
) -> Vec<Batch> {
    let after = Duration::from_millis(random.random_range(20..600));
    let seeds: [u64; 3] = random.random();
    let plans = [(); 2].map(|()| Plan::new(random, after));
    let killed = AtomicBool::new(false);
    let mut sent = Vec::new();
    std::thread::scope(|scope| {
        let (server, killed) = (&server, &killed);
        let writers = [("w=1", seeds[0]), ("j=true", seeds[1])].map(|(concern, seed)| {
            let writer = format!("{concern}-{round}");
            scope.spawn(move || {
                let sent = write_until_gone(server, &writer, concern, seed, &[]);
                let told = killed.load(Ordering::SeqCst);
                assert!(told, "the server went away by itself:\n{}", server.log());
                sent
            })
        });
        let mut planned = importers.iter_mut().zip(plans);
        let imports = [(); 2].map(|()| {
            let (importer, plan) = planned.next().expect("two of each");
            scope.spawn(move || {
                std::thread::sleep(plan.starts_after);
                let done = importer.import(server, plan.killed_after);
                (importer, done)
            })
        });
        let (end, ended) = channel::<()>();
        let mut random = SmallRng::seed_from_u64(seeds[2]);
        scope.spawn(move || {
            let mut pause = || Duration::from_millis(random.random_range(0..1000));
            while ended.recv_timeout(pause()) == Err(RecvTimeoutError::Timeout) {
                // The request fails when the server is killed.
                let _ignored = server.try_post("/api/v1/rollups/run", &[], b"");
            }
        });
        std::thread::sleep(after);
        killed.store(true, Ordering::SeqCst);
        server.kill_now();
        drop(end);
        for writer in writers {
            sent.extend(writer.join().expect("a writer"));
        }
        for import in imports {
            let (importer, done) = import.join().expect("an import");
            if done {
                importer.note_done(ledger);
            }
        }
    });
    sent
}

/// Times at which an import starts and is killed.
struct Plan {
    starts_after: Duration,
    killed_after: Option<Duration>,
}

impl Plan {
    /// Plans a start shortly before the server is killed, so that most imports are under way
    /// then. Every other import is killed too, before the server or after it.
    fn new(random: &mut SmallRng, server_killed_after: Duration) -> Self {
        let lead = Duration::from_millis(random.random_range(0..300));
        let killed = random.random_bool(0.5);
        Self {
            starts_after: server_killed_after.saturating_sub(lead),
            killed_after: killed.then(|| Duration::from_millis(random.random_range(0..200))),
        }
    }
}
