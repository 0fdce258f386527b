//! Backups of a server under load, and of one that is killed meanwhile: each holds every batch
//! that was acknowledged before it began, whole, and is a sound store. Files are shared, never
//! written to.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::Value;

use crate::support::{Batch, Home, Ledger, Outcome, Server, knob, run, sums_query};

/// Small enough that some seals happen by themselves, and compaction with them.
const MEMTABLE: (&str, &str) = ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "2MiB");

/// A backup, and the number of batches that had been answered when it began.
struct Backup {
    place: String,
    answered: usize,
}

/// Sends until `stop` is set or the server is gone. Each batch is recorded with its outcome at
/// once.
fn write(
    server: &Server,
    name: &str,
    concern: &'static str,
    sent: &Mutex<Vec<Batch>>,
    stop: &AtomicBool,
) {
    let mut random = SmallRng::seed_from_u64(name.len() as u64);
    for number in 0.. {
        let mut batch = Batch::new(format!("{name}-{number}"), concern, &mut random);
        let status = batch.send(server);
        sent.lock().expect("no panic").push(batch);
        if status.is_none() || stop.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(Duration::from_millis(8));
    }
}

fn backup(from: &[&str], place: &str) -> Value {
    let args = [&["backup", place, "--output", "json"], from].concat();
    run(&args).code(0).json()
}

/// Runs one life of a server: writers, seals, and a backup every second, by the server and beside
/// it. In the end the server is stopped, or killed while it makes another backup.
fn live(
    home: &Home,
    life: u64,
    length: Duration,
    killed: bool,
    sent: &Mutex<Vec<Batch>>,
) -> Vec<Backup> {
    let server = Server::start_with(&home.data, &[MEMTABLE]);
    let (stop, mut made) = (AtomicBool::new(false), Vec::new());
    let answered = || sent.lock().expect("no panic").len();
    std::thread::scope(|scope| {
        let (server, stop) = (&server, &stop);
        let _stop = StopOnDrop(stop);
        for concern in ["w=1", "j=true"] {
            scope.spawn(move || write(server, &format!("{concern}-{life}"), concern, sent, stop));
        }
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                // The request fails when the server is killed.
                let _ignored = server.try_post("/api/v1/rollups/run", &[], b"");
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        while answered() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let started = Instant::now();
        while started.elapsed() < length {
            let next = Instant::now() + Duration::from_secs(1);
            let place = home.path(&format!("backup-{life}-{}", made.len()));
            let from = match made.len() % 2 {
                0 => ["--server", &server.url],
                _ => ["--data", &home.data],
            };
            let answered = answered();
            let report = backup(&from, &place);
            assert!(report["copied_files"].as_u64() > Some(0), "{report}");
            made.push(Backup { place, answered });
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        if killed {
            let place = home.path(&format!("backup-{life}-killed"));
            let answered = answered();
            let cut = scope.spawn({
                let place = place.clone();
                move || run(&["backup", &place, "--server", &server.url]).code
            });
            std::thread::sleep(Duration::from_millis(30));
            server.kill_now();
            if cut.join().expect("it ends") == 0 || has_manifest(&place) {
                made.push(Backup { place, answered });
            } else if Path::new(&place).exists() {
                let refused = run(&["sql", "SELECT 1", "--data", &place]);
                assert_ne!(refused.code, 0, "{refused:?}");
            }
        }
    });
    if !killed {
        assert_eq!(server.stop(), Some(0));
    }
    made
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn has_manifest(place: &str) -> bool {
    let listed = std::fs::read_dir(Path::new(place).join("manifest"));
    let names = listed
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name());
    names
        .into_iter()
        .any(|n| n.to_string_lossy().ends_with(".manifest"))
}

/// Returns the ledger that a backup is compared with: batches answered before it began keep their
/// outcome, all others are unknown.
fn ledger(sent: &[Batch], made: &Backup) -> Ledger {
    let mut ledger = Ledger::default();
    for (nth, batch) in sent.iter().enumerate() {
        let mut batch = batch.clone();
        if nth >= made.answered {
            batch.outcome = Outcome::Unknown;
        }
        ledger.batches.push(batch);
    }
    ledger
}

fn assert_whole(sent: &[Batch], made: &Backup) -> u64 {
    let place = ["--data", made.place.as_str()];
    let total = ledger(sent, made).assert_held(|query| crate::support::sql(&place, query));
    for row in crate::support::sql(&place, &sums_query()) {
        assert_eq!(row["n"], total, "{}: {}", made.place, row["t"]);
    }
    let checked = run(&["check", &made.place]).code(0);
    assert!(checked.stdout.contains(" 0 differences"), "{checked:?}");
    total
}

/// Returns the bytes on the disk of everything below `place`, each file once, whatever its names.
fn disk_use(place: &Path, seen: &mut BTreeSet<(u64, u64)>) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(place).expect("a directory") {
        let path = entry.expect("an entry").path();
        let about = path.symlink_metadata().expect("there");
        if seen.insert((about.dev(), about.ino())) {
            bytes += about.blocks() * 512;
        }
        if about.is_dir() {
            bytes += disk_use(&path, seen);
        }
    }
    bytes
}

#[test]
fn every_backup_of_a_loaded_server_holds_what_was_acknowledged_before_it() {
    let seconds = knob("LOGMILL_BACKUP_SECONDS", 4);
    let half = Duration::from_secs(seconds).div_f64(2.0);
    let (home, sent) = (Home::new(), Mutex::new(Vec::new()));
    let mut made = live(&home, 0, half, true, &sent);
    made.extend(live(&home, 1, half, false, &sent));
    let sent = sent.into_inner().expect("no panic");
    let mut last = 0;
    for made in &made {
        let total = assert_whole(&sent, made);
        assert!(total >= last, "{last} fell to {total} in {}", made.place);
        last = total;
    }
    let mut seen = BTreeSet::new();
    let store = disk_use(Path::new(&home.data), &mut seen);
    let backups: u64 = made
        .iter()
        .map(|m| disk_use(Path::new(&m.place), &mut seen))
        .sum();
    let alone: u64 = made
        .iter()
        .map(|m| disk_use(Path::new(&m.place), &mut BTreeSet::new()))
        .sum();
    println!(
        "{} batches, {} backups: the store takes {store} bytes of the disk, all of them {backups} more; \
         without links they would take {alone}",
        sent.len(),
        made.len()
    );
    assert!(backups < alone, "something is shared");
    go_on_with(&sent, made.last().expect("a backup"));
    assert_whole(&sent, &made[0]);
}

/// Serves a backup: it knows its batches, accepts more, and stays sound.
fn go_on_with(sent: &[Batch], made: &Backup) {
    let mut ledger = ledger(sent, made);
    let server = Server::start(&made.place);
    ledger.settle(&server);
    ledger.batches[0].send_again(&server, true);
    server.seal();
    ledger.assert_exact(&server);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_makes_backups_where_it_is_told_to_and_nowhere_else() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", crate::support::fixture_bytes("sample.log"));
    let post = |body: &str, media: &str| {
        let headers = [("Content-Type", media)];
        server.post("/api/v1/backup", &headers, body.as_bytes())
    };
    let of = |dir: &str| serde_json::json!({ "dir": dir }).to_string();
    let json = "application/json";
    let within = format!("{}/copy", home.data);
    for (body, media, status, told) in [
        (of(&home.path("copy")), "text/plain", 415, "Content-Type"),
        ("{}".to_owned(), json, 422, "dir"),
        ("{".to_owned(), json, 400, "JSON"),
        (of("copy"), json, 400, "absolute path"),
        (of(&within), json, 400, "inside the store"),
        (of(&home.data), json, 400, "inside the store"),
        (of(&format!("{}.log", home.data)), json, 400, "a file"),
        (
            format!("{{\"dir\": \"{}\"}}", "x".repeat(70_000)),
            json,
            413,
            "length limit",
        ),
    ] {
        let answer = post(&body, media).status(status).json();
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(told), "{message}");
    }
    assert!(!Path::new(&home.path("copy")).exists());
    let report = post(&of(&home.path("copy")), json).status(200).json();
    assert_eq!(
        report["next_seq"],
        home.number("SELECT max(_seq) + 1 FROM access")
    );
    let again = post(&of(&home.path("copy")), json).status(400).json();
    let message = again["error"]["message"].as_str().expect("a message");
    assert!(message.contains("is not empty"), "{message}");
    // The command makes one beside the server too, and reports in text.
    let place = home.path("second");
    let told = run(&["backup", &place, "--data", &home.data]).code(0);
    assert!(
        told.stdout.contains("holds everything below sequence"),
        "{told:?}"
    );
    let events = home.count();
    for copy in ["copy", "second"] {
        let path = home.path(copy);
        let rows = crate::support::sql(&["--data", &path], "SELECT count(*) FROM access");
        assert_eq!(crate::support::only_number(&rows), events);
    }
    let none = run(&["backup", &home.path("third"), "--data", &home.path("none")]).code(1);
    assert!(none.stderr.contains("not a logmill store"), "{none:?}");
}
