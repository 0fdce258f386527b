//! A disk that is really full: a small file system under a loaded server, filled to the last byte.
//! Writers are refused and told why, readers go on, and once there is room writes resume by
//! themselves.

mod small_disk;

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::{Batch, Home, Ledger, Outcome, Server, knob, seed};
use small_disk::SmallDisk;

const DISK_BYTES: u64 = 48 << 20;
/// A memtable beyond this size or age is sealed; one twice as large takes nothing while it cannot be.
const SEAL_OFTEN: [(&str, &str); 2] = [
    ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "512KiB"),
    ("LOGMILL_STORAGE__LAG", "500ms"),
];
const WRITERS: [&str; 4] = ["w=1", "j=true", "w=1&j=true", "w=majority"];
/// Refusals in a row after which a writer takes the disk for full.
const REFUSALS: u32 = 5;
/// Writes resume within this time.
const RESUME_WITHIN: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_full_disk_refuses_writes_answers_reads_and_resumes_by_itself() {
    let fills = knob("LOGMILL_FILLS", 2);
    let mut random = SmallRng::seed_from_u64(seed());
    let home = Home::new();
    let Some(disk) = SmallDisk::mount(&home.path("disk"), DISK_BYTES) else {
        return;
    };
    let mut figures = Figures::default();
    let mut fill = 0;
    while fill < fills {
        let store = format!("{}/store-{fill}", disk.path);
        // Its log lies beside the store, as it often does: what cannot be logged must not end it.
        let server = Server::start_with(&store, &SEAL_OFTEN);
        let mut ledger = Ledger::begin(&server, &mut random);
        // A store of its own as soon as this one takes a third of the disk.
        while fill < fills && disk.free() > DISK_BYTES / 3 * 2 {
            fill_once(&disk, &server, &mut ledger, &mut random, fill, &mut figures);
            fill += 1;
        }
        assert_eq!(server.stop(), Some(0));
        std::fs::remove_dir_all(&store).expect("a store at rest");
    }
    println!("{fills} fills: {figures:?}");
}

#[derive(Debug, Default)]
struct Figures {
    acknowledged: u64,
    refused: u64,
    /// Fills that lasted until a seal had failed.
    seals_failed: u64,
    longest_resume: Duration,
}

fn fill_once(
    disk: &SmallDisk,
    server: &Server,
    ledger: &mut Ledger,
    random: &mut SmallRng,
    fill: u64,
    figures: &mut Figures,
) {
    let before = ledger.batches.len();
    let mut writers = WRITERS.map(|concern| Writer::new(concern, fill, random));
    std::thread::scope(|scope| {
        let writing: Vec<_> = writers
            .iter_mut()
            .map(|writer| scope.spawn(|| writer.write_until_full(server)))
            .collect();
        std::thread::sleep(Duration::from_millis(random.random_range(0..500)));
        // A seal that was under way gives space back: filled again until everybody has noticed.
        let until = Instant::now() + PATIENCE;
        while !writing.iter().all(|w| w.is_finished()) {
            assert!(Instant::now() < until, "the disk is full and writes go on");
            disk.fill();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // Nobody writes now, and there is no room: reads are as right as ever.
    for writer in &mut writers {
        ledger.batches.append(&mut writer.sent);
    }
    ledger.assert_exact(server);
    if fill.is_multiple_of(2) {
        wait_for_a_failed_seal(server);
        figures.seals_failed += 1;
        ledger.assert_exact(server);
    }
    let last = writers.last_mut().expect("there are writers");
    assert_eq!(last.send(server), 507, "still full after the reads");
    disk.empty();
    let emptied = Instant::now();
    std::thread::scope(|scope| {
        for writer in &mut writers {
            scope.spawn(|| writer.write_until_taken(server, emptied));
        }
    });
    figures.longest_resume = figures.longest_resume.max(emptied.elapsed());
    for writer in &mut writers {
        ledger.batches.append(&mut writer.sent);
    }
    let sent = ledger.batches[before..].iter();
    let taken = sent.filter(|b| b.outcome != Outcome::Refused).count();
    figures.acknowledged += taken as u64;
    figures.refused += (ledger.batches.len() - before - taken) as u64;
    // Those who were refused send again what they had.
    ledger.settle(server);
    ledger.assert_exact(server);
}

/// What is in the memtable gets old enough to be sealed, and cannot be.
fn wait_for_a_failed_seal(server: &Server) {
    let until = Instant::now() + PATIENCE;
    loop {
        let metrics = server.get("/metrics").status(200).text();
        if metrics.contains("logmill_seal_failing 1\n") {
            return;
        }
        assert!(Instant::now() < until, "nothing is sealed: {metrics}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Writer {
    concern: &'static str,
    name: String,
    number: u64,
    random: SmallRng,
    sent: Vec<Batch>,
}

impl Writer {
    fn new(concern: &'static str, fill: u64, random: &mut SmallRng) -> Self {
        Self {
            concern,
            name: format!("{fill}-{concern}"),
            number: 0,
            random: SmallRng::from_rng(random),
            sent: Vec::new(),
        }
    }

    fn send(&mut self, server: &Server) -> u16 {
        let key = format!("{}-{}", self.name, self.number);
        self.number += 1;
        let mut batch = Batch::new(key, self.concern, &mut self.random);
        let status = batch.send(server).expect("a full disk ends no server");
        assert!(status == 200 || status == 507, "{status}");
        self.sent.push(batch);
        status
    }

    fn write_until_full(&mut self, server: &Server) {
        let mut refusals = 0;
        while refusals < REFUSALS {
            if self.send(server) == 200 {
                refusals = 0;
            } else {
                refusals += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    fn write_until_taken(&mut self, server: &Server, emptied: Instant) {
        while self.send(server) != 200 {
            let after = emptied.elapsed();
            assert!(
                after < RESUME_WITHIN,
                "refused {after:?} after there was room"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
