//! Limits of the disk itself, measured where the journals will be.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Settings;
use crate::machine::{median, quantile_us};

const BLOCK: usize = 4096;
const WRITE: usize = 1 << 20;
const SEQUENTIAL: usize = 512 << 20;
const SAMPLES: usize = 500;

/// Prints the limits; returns the median of the sequential writes, MB/s.
pub(crate) fn measure(s: &Settings) -> f64 {
    let speeds: Vec<f64> = (0..s.rounds).map(|_| sequential(&s.dir)).collect();
    let each: Vec<String> = speeds.iter().map(|v| format!("{v:.0}")).collect();
    let speed = median(speeds);
    println!(
        "  512 MiB in writes of 1 MiB, one fdatasync: {} MB/s, median {speed:.0}",
        each.join(", ")
    );
    println!("  fdatasync after 4 KiB, us        p50      p99      max  syncs/s");
    for _ in 0..s.rounds {
        latency("at the end of a file", &s.dir, 0);
        latency("over written blocks", &s.dir, SAMPLES * BLOCK);
    }
    speed
}

/// Returns the MB/s of a sequential write, its sync included.
pub(crate) fn sequential(dir: &Path) -> f64 {
    let temporary = tempfile::tempdir_in(dir).expect("a directory");
    let file = File::create_new(temporary.path().join("sequential")).expect("a file");
    let data = noise(WRITE);
    let began = Instant::now();
    for at in (0..SEQUENTIAL).step_by(WRITE) {
        file.write_all_at(&data, at as u64).expect("written");
    }
    file.sync_data().expect("synced");
    SEQUENTIAL as f64 / 1e6 / began.elapsed().as_secs_f64()
}

/// Times fdatasync alone, after each of many writes one block apart.
fn latency(what: &str, dir: &Path, written: usize) {
    let temporary = tempfile::tempdir_in(dir).expect("a directory");
    let file = File::create_new(temporary.path().join("latency")).expect("a file");
    // Blocks that were only reserved would still have to be marked as written by each sync.
    file.write_all_at(&noise(written), 0).expect("written");
    file.sync_all().expect("synced");
    let data = noise(BLOCK);
    let began = Instant::now();
    let mut times: Vec<Duration> = (0..SAMPLES)
        .map(|i| {
            file.write_all_at(&data, (i * BLOCK) as u64)
                .expect("written");
            let began = Instant::now();
            file.sync_data().expect("synced");
            began.elapsed()
        })
        .collect();
    let per_second = SAMPLES as f64 / began.elapsed().as_secs_f64();
    times.sort();
    println!(
        "    {what:<24} {:>8.0} {:>8.0} {:>8.0} {per_second:>8.0}",
        quantile_us(&times, 0.5),
        quantile_us(&times, 0.99),
        quantile_us(&times, 1.0),
    );
}

/// Returns bytes that no disk can compress.
fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rand::RngCore::fill_bytes(&mut rand::rng(), &mut bytes);
    bytes
}
