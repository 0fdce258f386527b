//! A log that is written at 5,000 lines per second while both ends are killed and the log is
//! rotated in every way.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Shipper, wait_for};
use crate::support::{Home, PAST_S, Server, knob, line, seed};

const LINES_PER_SECOND: u64 = 5000;
/// Interval of the writes.
const WRITE_EVERY: Duration = Duration::from_millis(20);

/// The writer's end of a log.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    rotations: u64,
}

impl Log {
    /// Begins a log at a path.
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            file: Self::open(&path),
            path,
            rotations: 0,
        }
    }

    fn open(path: &Path) -> File {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path);
        file.expect("the log")
    }

    fn rotated(&mut self) -> PathBuf {
        self.rotations += 1;
        PathBuf::from(format!("{}.{}", self.path.display(), self.rotations))
    }

    pub(super) fn rename(&mut self) {
        let to = self.rotated();
        std::fs::rename(&self.path, to).expect("a rename");
        self.file = Self::open(&self.path);
    }

    /// The writer waits meanwhile: logrotate itself loses what is written between the two.
    pub(super) fn copy_and_truncate(&mut self) {
        let to = self.rotated();
        std::fs::copy(&self.path, to).expect("a copy");
        self.file.set_len(0).expect("a file cut off");
    }
}

/// Compresses a rotated file as gzip does, bit by bit, and deletes it.
pub(super) fn compress(folder: &Path, random: &mut SmallRng) {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut rotated: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    rotated.retain(|path| path.extension().is_some_and(|e| e != "gz" && e != "log"));
    if rotated.is_empty() {
        return;
    }
    let from = rotated.swap_remove(random.random_range(0..rotated.len()));
    let content = std::fs::read(&from).expect("a rotated file");
    let to = File::create(format!("{}.gz", from.display())).expect("a file");
    let mut packed = flate2::write::GzEncoder::new(to, flate2::Compression::fast());
    for piece in content.chunks(content.len() / 4 + 1) {
        packed.write_all(piece).expect("a write");
        packed.flush().expect("a write");
        std::thread::sleep(Duration::from_millis(random.random_range(0..40)));
    }
    packed.finish().expect("a write");
    std::fs::remove_file(from).expect("a file");
}

/// Writes lines with consecutive numbers until it is stopped. Returns their count.
pub(super) fn write(log: &Mutex<Log>, stops: &AtomicBool, pause_ms: &AtomicU64) -> u64 {
    let mut written = 0;
    let began = Instant::now();
    let mut paused = Duration::ZERO;
    while !stops.load(Ordering::SeqCst) {
        let pause = Duration::from_millis(pause_ms.swap(0, Ordering::SeqCst));
        std::thread::sleep(pause + WRITE_EVERY);
        paused += pause;
        let elapsed = (began.elapsed() - paused).as_millis() as u64;
        let due = elapsed * LINES_PER_SECOND / 1000;
        // After a wait for the lock, the lines that are due come at once.
        let lines =
            (written..due).map(|i| line("203.0.113.9", PAST_S, &format!("/line/{i}"), 200, 10));
        let lines: String = lines.collect();
        let mut log = log.lock().expect("the log");
        // Two writes, so that a line is often half there.
        let (first, second) = lines.split_at(lines.len() / 2);
        log.file.write_all(first.as_bytes()).expect("a write");
        log.file.write_all(second.as_bytes()).expect("a write");
        written = due.max(written);
    }
    written
}

#[test]
fn each_line_comes_once_over_kills_rotations_and_compression() {
    let cycles = knob("LOGMILL_SHIP_CYCLES", 16);
    let mut random = SmallRng::seed_from_u64(seed());
    let home = Home::new();
    std::fs::create_dir(home.path("logs")).expect("a folder");
    let folder = PathBuf::from(home.path("logs"));
    let log = Mutex::new(Log::at(folder.join("a.log")));
    let mut server = Some(Server::start(&home.data));
    let (url, address) = server
        .as_ref()
        .map(|s| (s.url.clone(), s.address.clone()))
        .expect("a server");
    let file = home.path("logs/a.log");
    let mut shipper = Shipper::start(&home, &file, &url);
    let (stops, pause_ms) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut counts = [0_u64; 6];
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log, &stops, &pause_ms));
        for _ in 0..cycles {
            std::thread::sleep(Duration::from_millis(random.random_range(20..600)));
            let act = random.random_range(0..6);
            counts[act] += 1;
            match act {
                0 => {
                    shipper.kill();
                    std::thread::sleep(Duration::from_millis(random.random_range(0..300)));
                    shipper = Shipper::start(&home, &file, &url);
                }
                1 => {
                    server.take().expect("a server").kill();
                    std::thread::sleep(Duration::from_millis(random.random_range(0..300)));
                    server = Some(Server::start_at(&home.data, &address, &[]));
                }
                2 => log.lock().expect("the log").rename(),
                3 => log.lock().expect("the log").copy_and_truncate(),
                4 => compress(&folder, &mut random),
                _ => pause_ms.store(random.random_range(100..1500), Ordering::SeqCst),
            }
        }
        stops.store(true, Ordering::SeqCst);
        writer.join().expect("the writer")
    });
    let server = server.expect("a server");
    wait_for(&server, written);
    // Lines that came twice would come late.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(shipper.stop(), 0);
    let rows = server.sql("SELECT count(*) AS n, count(DISTINCT path) AS d FROM access");
    let [
        shipper_kills,
        server_kills,
        renames,
        cuts,
        compressions,
        pauses,
    ] = counts;
    println!(
        "{written} lines over {shipper_kills} kills of the shipper and {server_kills} of the server, {renames} renames, {cuts} copies cut off, {compressions} compressions, {pauses} pauses: {rows:?}"
    );
    assert_eq!(
        (&rows[0]["n"], &rows[0]["d"]),
        (&written.into(), &written.into()),
        "lines were lost or doubled"
    );
    let quarantined = server.sql("SELECT count(*) AS n FROM system.quarantine");
    assert_eq!(quarantined[0]["n"], 0);
}
