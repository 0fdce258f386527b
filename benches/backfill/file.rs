//! Logs of the real generator: the last day, and many days with all lines shuffled.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use chrono::{TimeDelta, Utc};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use crate::Settings;

const DAY_LINES: u64 = 500_000;

fn generate(s: &Settings, lines: u64, days: i64, end_days_ago: i64, into: &Path) {
    let start = Utc::now() - TimeDelta::days(days + end_days_ago);
    let made = Command::new(&s.logmill)
        .args([
            "demo",
            "--lines",
            &lines.to_string(),
            "--days",
            &days.to_string(),
        ])
        .args(["--start", &start.timestamp().to_string(), "--out"])
        .arg(into)
        .status()
        .expect("the generator runs");
    assert!(made.success(), "generating failed");
    // Without this sync the kernel writes the file half a minute later, during a measurement.
    let written = File::open(into).and_then(|file| file.sync_all());
    written.expect("synced");
}

/// Writes the last day.
pub(crate) fn last_day(s: &Settings, into: &Path) {
    generate(s, DAY_LINES, 1, 0, into);
}

/// Writes the days before, every line at any place of the file, which is kept from one run to the
/// next.
pub(crate) fn scattered(s: &Settings) -> PathBuf {
    let path = s.dir.join(format!("scattered-{}-{}.log", s.lines, s.days));
    if path.exists() {
        return path;
    }
    let ordered = path.with_extension("ordered");
    generate(s, s.lines, s.days, 1, &ordered);
    let text = std::fs::read(&ordered).expect("read");
    let mut lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    lines.shuffle(&mut SmallRng::seed_from_u64(1));
    let mut shuffled = BufWriter::new(File::create(&path).expect("a file"));
    for line in lines {
        shuffled.write_all(line).expect("written");
    }
    shuffled
        .into_inner()
        .expect("written")
        .sync_all()
        .expect("synced");
    std::fs::remove_file(&ordered).expect("removed");
    path
}
