//! `kill -9` of imports into a store of their own.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::support::{Home, PAST_S, assert_verified, command, knob, line, seed, sums_query};

/// A memtable so small that seals happen all the time and kills hit them.
const SEAL_OFTEN: (&str, &str) = ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "2MiB");
const DAYS: u64 = 4;

/// Returns a log of about 32 MiB, eight blocks of an import, in which each path occurs once.
fn long_log() -> (String, u64) {
    let count = 80_000;
    let padding = "m".repeat(320);
    let mut log = String::with_capacity(36 << 20);
    for i in 0..count {
        let at = PAST_S + (i * 86_400 * DAYS / count) as i64;
        let mut line = line("203.0.113.9", at, &format!("/line/{i}"), 200, 10);
        line.insert_str(line.len() - 3, &padding);
        log += &line;
    }
    (log, count)
}

#[test]
fn an_import_killed_at_any_moment_goes_on_and_takes_each_line_once() {
    let kills = knob("LOGMILL_KILLS", 4);
    let mut random = SmallRng::seed_from_u64(seed());
    let (log, count) = long_log();
    let source = Home::new();
    let file = source.file("long.log", log);
    let import = |home: &Home| {
        let mut import = command();
        import
            .args([
                "import",
                &file,
                "--stream",
                "access",
                "--journal",
                "--data",
                &home.data,
            ])
            .env(SEAL_OFTEN.0, SEAL_OFTEN.1)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        import
    };
    // An import that is not killed measures the duration.
    let started = Instant::now();
    let whole = Home::new();
    assert_eq!(
        import(&whole).output().expect("an import").status.code(),
        Some(0)
    );
    let length_us = started.elapsed().as_micros() as u64;
    check_import(&whole, &file, count);
    let (mut hit, mut home, mut hits_here) = (0, Home::new(), 0);
    let mut partly = BTreeSet::new();
    for _ in 0..kills * 10 {
        if hit == kills {
            break;
        }
        let mut child = import(&home).spawn().expect("an import");
        std::thread::sleep(Duration::from_micros(random.random_range(0..length_us)));
        child.kill().expect("a signal to our own child");
        let ended = child.wait_with_output().expect("the killed import ends");
        match ended.status.code() {
            // The import was faster; the next one begins anew.
            Some(0) => {
                check_import(&home, &file, count);
                (home, hits_here) = (Home::new(), 0);
            }
            Some(code) => panic!("exit {code}: {}", String::from_utf8_lossy(&ended.stderr)),
            None => {
                hit += 1;
                hits_here += 1;
                partly.insert(check_half(&home, count));
                if hits_here == 3 || hit == kills {
                    let ended = import(&home).output().expect("an import");
                    assert_eq!(
                        ended.status.code(),
                        Some(0),
                        "{}",
                        String::from_utf8_lossy(&ended.stderr)
                    );
                    check_import(&home, &file, count);
                    (home, hits_here) = (Home::new(), 0);
                }
            }
        }
    }
    assert_eq!(hit, kills, "too few imports were killed");
    println!("{kills} kills of an import of {length_us} µs; lines found after them: {partly:?}");
}

/// Checks what a reader finds after a kill, before any recovery: a prefix of the file, each line
/// once.
#[track_caller]
fn check_half(home: &Home, count: u64) -> u64 {
    let asked = crate::support::run(&[
        "sql",
        "SELECT count(*) AS n, count(DISTINCT path) AS d, \
         coalesce(max(CAST(substr(path, 7) AS BIGINT)) + 1, 0) AS top FROM access",
        "--output",
        "json",
        "--data",
        &home.data,
    ]);
    if asked.code != 0 {
        // The kill came before there was a store, or before its first batch.
        let early =
            asked.stderr.contains("not a logmill store") || asked.stderr.contains("not found");
        assert!(early, "{}", asked.stderr);
        return 0;
    }
    let row = asked.json()[0].clone();
    let n = row["n"].as_u64().expect("a count");
    assert!(
        n <= count && row["d"] == n && row["top"] == n,
        "no prefix of the file: {row}"
    );
    n
}

#[track_caller]
fn check_import(home: &Home, file: &str, count: u64) {
    let rows = home.sql(
        "SELECT count(*) AS n, count(DISTINCT path) AS p, count(DISTINCT _id) AS i, \
         count(DISTINCT _seq) AS s FROM access",
    );
    for name in ["n", "p", "i", "s"] {
        assert_eq!(rows[0][name], count, "{name}: {rows:?}");
    }
    for row in home.sql(&sums_query()) {
        assert_eq!(row["n"], count, "{}", row["t"]);
    }
    assert_verified(&["--data", &home.data], count);
    let again = home.import(file, &[]);
    assert_eq!(
        (&again["accepted"], &again["skipped"]),
        (&0.into(), &count.into())
    );
}
