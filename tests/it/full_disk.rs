//! A disk that is really full: a small file system under a loaded server, filled to the last
//! byte. Writers are refused with the reason, readers go on, and writes resume by themselves once
//! there is disk space.

mod small_disk;

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::{
    Batch, Home, Ledger, Outcome, PAST_S, PATIENCE, Server, knob, line, only_number, run, seed, sql,
};
use small_disk::SmallDisk;

const DISK_BYTES: u64 = 48 << 20;
/// A memtable beyond this size or age is sealed. While the seal fails, a memtable of twice the
/// size accepts nothing.
const SEAL_OFTEN: [(&str, &str); 2] = [
    ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "512KiB"),
    ("LOGMILL_STORAGE__LAG", "500ms"),
];
const WRITERS: [&str; 4] = ["w=1", "j=true", "w=1&j=true", "w=majority"];
/// Refusals in a row after which a writer considers the disk full.
const REFUSALS: u32 = 5;

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
        // The server's log lies beside the store, as it often does: a failed write to it must not
        // end the server.
        let server = Server::start_with(&store, &SEAL_OFTEN);
        let mut ledger = Ledger::begin(&server, &mut random);
        // The next fill gets a store of its own as soon as this one takes a third of the disk.
        while fill < fills && disk.free() > DISK_BYTES / 3 * 2 {
            fill_once(&disk, &server, &mut ledger, &mut random, fill, &mut figures);
            fill += 1;
        }
        assert_eq!(server.stop(), Some(0));
        std::fs::remove_dir_all(&store).expect("a store at rest");
    }
    println!("{fills} fills: {figures:?}");
}

/// The program's own commands free space on a full disk, and readers still see everything.
#[test]
fn on_a_full_disk_partitions_go_commands_read_and_the_server_stops_and_starts() {
    let home = Home::new();
    let Some(disk) = SmallDisk::mount(&home.path("disk"), DISK_BYTES) else {
        return;
    };
    let store = format!("{}/store", disk.path);
    let server = Server::start(&store);
    for day in 0..3 {
        let lines: String = (0..200)
            .map(|n| line("h", PAST_S + day * 86_400 + n, &format!("/{n}"), 200, 5))
            .collect();
        server.ingest("web?j=true", lines);
    }
    server.seal();
    server.ingest(
        "web?j=true",
        line("h", PAST_S + 3 * 86_400, "/late", 200, 5),
    );
    assert_eq!(server.get("/ready").status(200).text(), "ready\n");
    disk.fill();
    let refused = server.post(
        "/api/v1/ingest/web",
        &[],
        line("h", PAST_S, "/no", 200, 5).as_bytes(),
    );
    refused.status(507);
    let ready = server.get("/ready").status(503).text();
    assert!(ready.contains("the disk is full"), "{ready}");
    // Every command that reads works beside the server.
    let count = "SELECT count(*) AS n FROM web";
    let data = ["--data", &store];
    let ask = |args: &[&str]| run(&[args, &data[..]].concat()).code(0).stdout;
    let backup = home.path("backup");
    assert!(ask(&["sql", count, "--output", "csv"]).contains("601"));
    ask(&["partition", "list", "web"]);
    ask(&["stream", "list"]);
    run(&["check", &store]).code(0);
    ask(&["backup", &backup]);
    assert_eq!(only_number(&sql(&["--data", &backup], count)), 601);
    // Drops and detachments free disk space.
    let days = ["2024-03-01", "2024-03-02"];
    let partition = |day: &str| format!("stream=web&date={day}");
    let dropped = server.delete(&format!("/api/v1/partitions?{}", partition(days[0])));
    assert_eq!(dropped.status(200).json()["events"], 200);
    // With free space the server accepts events again, and sets its reserve aside again.
    disk.empty();
    server.ingest(
        "web?j=true",
        line("h", PAST_S + 3 * 86_400, "/more", 200, 5),
    );
    disk.fill();
    let detach = format!("/api/v1/partitions/detach?{}", partition(days[1]));
    let detached = server.post(&detach, &[], b"").status(200);
    assert_eq!(detached.json()["events"], 200);
    assert_eq!(server.number(count), 202);
    disk.fill();
    assert_eq!(
        server.stop(),
        Some(0),
        "a stop on a full disk is no failure"
    );
    disk.fill();
    assert!(ask(&["sql", count, "--output", "csv"]).contains("202"));
    // A read-only server writes nothing.
    let before = std::fs::read_dir(&store).expect("a store").count();
    let reads = Server::start_reading(&store);
    assert_eq!(reads.number(count), 202);
    assert_eq!(reads.get("/ready").status(200).text(), "ready, read-only\n");
    let refused = reads
        .post(
            "/api/v1/ingest/web",
            &[],
            line("h", PAST_S, "/no", 200, 5).as_bytes(),
        )
        .status(503)
        .text();
    assert!(refused.contains("--read-only"), "{refused}");
    reads
        .delete(&format!("/api/v1/partitions?{}", partition(days[1])))
        .status(503);
    assert_eq!(reads.stop(), Some(0));
    assert_eq!(std::fs::read_dir(&store).expect("a store").count(), before);
    disk.empty();
    let server = Server::start(&store);
    assert_eq!(server.number(count), 202);
    server.ingest("web?j=true", line("h", PAST_S, "/again", 200, 5));
    assert_eq!(server.get("/ready").status(200).text(), "ready\n");
    assert_eq!(server.stop(), Some(0));
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
        // A seal that was under way frees space, so the disk is filled until every writer has
        // noticed.
        let until = Instant::now() + PATIENCE;
        while !writing.iter().all(|w| w.is_finished()) {
            assert!(Instant::now() < until, "the disk is full and writes go on");
            disk.fill();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // No writer runs now, and the disk is full: reads are as right as ever.
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
    // The writers send their refused batches again.
    ledger.settle(server);
    ledger.assert_exact(server);
}

/// Waits until the memtable is old enough to be sealed and its seal fails.
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
            assert!(after < PATIENCE, "refused {after:?} after there was room");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
