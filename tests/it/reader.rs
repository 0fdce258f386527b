//! Readers in processes of their own beside a server under load: never an error, never a number
//! that goes down, never less than was acknowledged before they began.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::{Home, PAST_S, Server, knob, line, run, sums_query};

const READERS: usize = 2;

#[test]
fn a_reader_beside_a_server_never_fails_and_never_sees_a_number_go_down() {
    let length = Duration::from_secs(knob("LOGMILL_READER_SECONDS", 10));
    let home = Home::new();
    let environment = [("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "2MiB")];
    let server = Server::start_with(&home.data, &environment);
    // (sent, acknowledged): what a reader may see lies between.
    let (sent, acknowledged) = (AtomicU64::new(0), AtomicU64::new(0));
    let (reads, seals) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    send(
        &server,
        &mut SmallRng::seed_from_u64(0),
        &sent,
        &acknowledged,
    );
    let until = Instant::now() + length;
    std::thread::scope(|scope| {
        // Stops the writers when the readers have ended, by a panic too.
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            let mut random = SmallRng::seed_from_u64(1);
            while !stop.load(Ordering::SeqCst) {
                send(&server, &mut random, &sent, &acknowledged);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                server.seal();
                seals.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(150));
            }
        });
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let query = sums_query();
                    let mut last = 0;
                    while Instant::now() < until {
                        let at_least = acknowledged.load(Ordering::SeqCst);
                        let args = ["sql", &query, "--output", "json", "--data", &home.data];
                        let rows = run(&args).code(0).json();
                        let at_most = sent.load(Ordering::SeqCst);
                        let rows = rows.as_array().expect("rows");
                        let first = rows[0]["n"].as_u64().expect("a number");
                        for row in rows {
                            assert_eq!(row["n"], first, "one snapshot, two numbers: {rows:?}");
                        }
                        assert!(
                            (at_least..=at_most).contains(&first),
                            "{first} read; {at_least} were acknowledged before, {at_most} sent after"
                        );
                        assert!(first >= last, "{last} fell to {first}");
                        last = first;
                        reads.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for reader in readers {
            if let Err(panic) = reader.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let total = acknowledged.load(Ordering::SeqCst);
    println!(
        "{} reads beside {} seals and {total} events",
        reads.load(Ordering::SeqCst),
        seals.load(Ordering::SeqCst)
    );
    assert_eq!(home.count(), total);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(home.count(), total);
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn send(server: &Server, random: &mut SmallRng, sent: &AtomicU64, acknowledged: &AtomicU64) {
    let lines = random.random_range(1..100);
    let body: String = (0..lines)
        .map(|_| {
            let at = PAST_S + random.random_range(0..3 * 86_400);
            let path = format!("/page/{}", random.random_range(0..50));
            line("203.0.113.8", at, &path, 200, 10)
        })
        .collect();
    sent.fetch_add(lines, Ordering::SeqCst);
    server.ingest("access", body);
    acknowledged.fetch_add(lines, Ordering::SeqCst);
}
