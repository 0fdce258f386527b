//! Real and made-up logs against an independent recomputation in Python, after one import, after
//! pieces with seals between them, and after the pieces in reverse order of time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::support::{
    BINARY, Home, Server, assert_adds_up, assert_verified, finish, python, run, sample, test_data,
};

const PIECES: usize = 50;
/// Larger logs go through one import only, and smaller ones in pieces in one of the two orders,
/// unless `LOGMILL_FULL` is set.
const LARGE_BYTES: usize = 4 << 20;

/// Returns the path of a program of the oracle.
pub(crate) fn oracle(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/oracle")
        .join(program)
}

/// A log and the oracle's figures for it.
struct Case {
    python: &'static str,
    home: Home,
    name: String,
    log: String,
    /// The log's content, decompressed.
    content: Vec<u8>,
    expected: Value,
}

impl Case {
    fn new(python: &'static str, log: &Path) -> Self {
        let home = Home::new();
        let content = content_of(log);
        // The oracle needs no decompressor this way.
        let plain = home.file("plain.log", &content);
        let told = finish(
            Command::new(python)
                .arg(oracle("recompute.py"))
                .arg(&plain)
                .env("PYTHONDONTWRITEBYTECODE", "1"),
            &[],
        )
        .code(0);
        home.file("expected.json", &told.stdout);
        Self {
            python,
            name: log.display().to_string(),
            log: log.display().to_string(),
            content,
            expected: told.json(),
            home,
        }
    }

    fn accepted(&self) -> u64 {
        self.expected["accepted"].as_u64().expect("a count")
    }

    #[track_caller]
    fn assert_counts(&self, found: impl Fn(&str) -> u64) {
        for name in ["accepted", "quarantined", "empty"] {
            assert_eq!(self.expected[name], found(name), "{}: {name}", self.name);
        }
    }

    /// Compares every figure of the oracle, and runs the store's own verification.
    #[track_caller]
    fn compare(&self, place: &[&str]) {
        if self.accepted() == 0 {
            // A log of nothing but an empty line makes no stream to query.
            return;
        }
        let mut compare = Command::new(self.python);
        compare
            .arg(oracle("compare.py"))
            .args(["--logmill", BINARY, "--stream", "access", "--oracle"])
            .arg(self.home.path("expected.json"))
            .args(place)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let told = finish(&mut compare, &[]);
        assert_eq!(
            told.code, 0,
            "{}:\n{}{}",
            self.name, told.stdout, told.stderr
        );
        let equal = told.stdout.trim().strip_suffix(" figures equal");
        let equal: u64 = equal.and_then(|n| n.parse().ok()).unwrap_or(0);
        assert!(equal > 50, "{}: {}", self.name, told.stdout);
        assert_verified(place, self.accepted());
    }

    fn after_one_import(&self) {
        let data = self.home.path("one");
        let place = ["--data", data.as_str()];
        let args = [
            "import", &self.log, "--stream", "access", "--output", "json",
        ];
        // A log of which no line fits a format is kept in quarantine, and the import says so.
        let nothing_fits = self.accepted() == 0 && self.expected["quarantined"] != 0;
        let figures = run(&[&args[..], &place].concat())
            .code(i32::from(nothing_fits))
            .json();
        assert_adds_up(&figures);
        assert_eq!(figures["lines"], self.expected["lines"], "{}", self.name);
        self.assert_counts(|name| figures[name].as_u64().expect("a figure"));
        self.compare(&place);
    }

    /// Sends the pieces in the given order and seals between them at random.
    fn after_pieces(&self, name: &str, reversed: bool) {
        let server = Server::start(&self.home.path(name));
        let mut pieces = pieces(&self.content);
        if reversed {
            pieces.reverse();
        }
        let mut random = SmallRng::seed_from_u64(pieces.len() as u64 + u64::from(reversed));
        let (mut sums, mut seals) = ([0; 3], 0);
        let names = ["accepted", "quarantined", "empty"];
        for piece in pieces {
            let answer = server.post("/api/v1/ingest/access", &[], piece);
            let known = answer.status == 200;
            let answer = answer.json();
            // Lines that fit no format are quarantined, and the answer reports it.
            let nothing_fits = answer["accepted"] == 0 && answer["quarantined"] != 0;
            assert_ne!(known, nothing_fits, "{answer}");
            for (sum, name) in sums.iter_mut().zip(names) {
                *sum += answer[name].as_u64().expect("a count");
            }
            if random.random_bool(0.3) {
                server.seal();
                seals += 1;
            }
        }
        assert!(seals > 3 || self.content.len() < 1000);
        self.assert_counts(|name| sums[names.iter().position(|n| *n == name).unwrap_or(0)]);
        // The last events are still in the memtable: the figures must combine it with the tiles.
        self.compare(&["--server", &server.url]);
    }
}

/// Returns a log's content, decompressed.
pub(crate) fn content_of(log: &Path) -> Vec<u8> {
    let content = std::fs::read(log).expect("a log");
    match log.extension().and_then(|e| e.to_str()) {
        Some("zst") => zstd::decode_all(content.as_slice()).expect("a log that zstd packed"),
        _ => content,
    }
}

/// Returns the content cut at line ends into pieces of about the same number of lines.
pub(crate) fn pieces(content: &[u8]) -> Vec<&[u8]> {
    let lines: Vec<&[u8]> = content.split_inclusive(|b| *b == b'\n').collect();
    let mut pieces = Vec::new();
    let mut begin = 0;
    for i in 0..PIECES {
        let count = lines.len() * (i + 1) / PIECES - lines.len() * i / PIECES;
        let first = lines.len() * i / PIECES;
        let length: usize = lines[first..first + count].iter().map(|l| l.len()).sum();
        pieces.push(&content[begin..begin + length]);
        begin += length;
    }
    assert_eq!(begin, content.len(), "BUG: the pieces are not the whole");
    pieces
}

/// Finds the logs of the folder, and of the folders below it, ordered by name.
pub(crate) fn logs_under(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of logs");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            logs_under(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Runs all scenarios over the real logs that `choose` accepts.
fn real_logs(choose: impl Fn(&str) -> bool) {
    let (Some(folder), Some(python)) = (test_data(), python()) else {
        return;
    };
    let mut logs = Vec::new();
    logs_under(&folder.join("access"), &mut logs);
    logs.retain(|log| choose(&log.display().to_string()));
    assert!(!logs.is_empty(), "no log in {}", folder.display());
    for (number, log) in logs.iter().enumerate() {
        let started = Instant::now();
        let case = Case::new(python, log);
        case.after_one_import();
        let is_full = std::env::var_os("LOGMILL_FULL").is_some();
        let in_pieces = is_full || case.content.len() <= LARGE_BYTES;
        let is_turn_of = |order| is_full || (in_pieces && number % 2 == order);
        if is_turn_of(0) {
            case.after_pieces("forward", false);
        }
        if is_turn_of(1) {
            case.after_pieces("backward", true);
        }
        println!(
            "{}: {} events{} in {:.1} s",
            case.name,
            case.accepted(),
            if in_pieces { ", in pieces, too," } else { "" },
            started.elapsed().as_secs_f64()
        );
    }
}

#[test]
fn the_sample_equals_the_recomputation_after_one_import() {
    let Some(python) = python() else { return };
    Case::new(python, sample().as_ref()).after_one_import();
}

#[test]
fn the_sample_equals_the_recomputation_after_fifty_pieces() {
    let Some(python) = python() else { return };
    Case::new(python, sample().as_ref()).after_pieces("forward", false);
}

#[test]
fn the_sample_equals_the_recomputation_after_the_pieces_in_reverse_order() {
    let Some(python) = python() else { return };
    Case::new(python, sample().as_ref()).after_pieces("backward", true);
}

#[test]
fn the_honeynet_logs_equal_the_recomputation() {
    real_logs(|name| name.contains("/honeynet/"));
}

#[test]
fn the_erddap_logs_equal_the_recomputation() {
    real_logs(|name| name.contains("/erddap/"));
}

#[test]
fn the_other_real_logs_equal_the_recomputation() {
    real_logs(|name| !name.contains("/honeynet/") && !name.contains("/erddap/"));
}

#[test]
fn the_oracle_counts_the_fixtures_as_they_were_made() {
    let Some(python) = python() else { return };
    let mut check = Command::new(python);
    check
        .arg(oracle("check_fixtures.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    finish(&mut check, &[]).code(0);
}
