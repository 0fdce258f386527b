//! Kills in the middle of a run: between the files of a seal and the manifest that names them,
//! and right after that manifest. The levels must then equal those of a store that was never
//! killed and never sealed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, PATIENCE, Server, knob};

use super::{LEVELS, add, assert_verified, event, rollup, serve};

const ROLLUPS: [(&str, &str); 3] = [
    ("utc", "UTC"),
    ("berlin", "Europe/Berlin"),
    ("kolkata", "Asia/Kolkata"),
];
/// Each day is a part of its own, so that a seal has many files to write.
const DAYS: u64 = 28;

fn definitions() -> String {
    ROLLUPS.map(|(name, zone)| rollup(name, zone)).concat()
}

#[test]
fn killed_between_the_first_part_and_last_run_nothing_is_counted_twice() {
    kill_at("parquet", false);
}

#[test]
fn killed_between_the_first_tile_and_last_run_nothing_is_counted_twice() {
    kill_at("tile", false);
}

#[test]
fn killed_behind_last_run_nothing_is_counted_twice() {
    kill_at("manifest", true);
}

/// Kills seals as soon as they have written a file of this kind; `committed` states whether
/// `last_run` has moved by then.
fn kill_at(kind: &str, committed: bool) {
    let (home, other) = (Home::new(), Home::new());
    let unharmed = serve(&other, &definitions(), &[]);
    let mut server = serve(&home, &definitions(), &[]);
    let (mut met, rounds) = (0, knob("LOGMILL_KILLS", 4));
    for round in 0..rounds {
        let events = some_events(round);
        add(&unharmed, &events);
        add(&server, &events);
        let before = last_run(&home);
        kill_in_seal(server, &home, kind);
        let moved = last_run(&home) > before;
        met += u64::from(moved == committed);
        server = serve(&home, &definitions(), &[]);
        let expected = figures(&unharmed);
        assert_eq!(expected.len(), ROLLUPS.len() * LEVELS.len());
        for (found, expected) in figures(&server).iter().zip(&expected) {
            assert_eq!(found, expected, "round {round}, last_run moved: {moved}");
        }
        server.seal();
        assert_eq!(figures(&server), expected, "round {round}, sealed");
    }
    println!("{met} of {rounds} kills came while last_run had moved: {committed}");
    assert!(met > 0, "every kill came too late");
    assert_verified(&server);
}

/// Returns late and early events of every day.
fn some_events(round: u64) -> Vec<String> {
    let event = |i: u64| {
        let at = format!(
            "2024-03-{:02}T{:02}:{:02}:00Z",
            1 + i % DAYS,
            i * 7 % 24,
            (i + round) % 60
        );
        event(
            &format!("user {}", i % 3),
            &at,
            i % 90,
            &format!("/{}", i % 11),
        )
    };
    (0..10 * DAYS).map(event).collect()
}

/// Requests a seal and kills the server when the first new file of the kind is there.
fn kill_in_seal(server: Server, home: &Home, kind: &str) {
    let there = files(home.data.as_ref(), kind);
    std::thread::scope(|scope| {
        // The request fails when the server is killed.
        scope.spawn(|| server.try_post("/api/v1/rollups/run", &[], b""));
        let until = Instant::now() + PATIENCE;
        while files(home.data.as_ref(), kind).is_subset(&there) {
            assert!(Instant::now() < until, "the seal writes no {kind}");
            std::thread::sleep(Duration::from_micros(100));
        }
        server.kill_now();
    });
    server.kill();
}

/// Returns the files of a kind in a folder and in those below it.
fn files(folder: &Path, kind: &str) -> BTreeSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return BTreeSet::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let below = paths.flat_map(|path| match path.is_dir() {
        true => files(&path, kind),
        false => BTreeSet::from([path]),
    });
    below
        .filter(|path| path.extension().is_some_and(|e| e == kind))
        .collect()
}

/// Returns `last_run` as a reader finds it in the files.
fn last_run(home: &Home) -> u64 {
    home.number("SELECT max(last_run) FROM system.rollups")
}

/// Returns the content of every level.
fn figures(server: &Server) -> Vec<Vec<Value>> {
    let of = |(name, _): &(&str, &str)| {
        LEVELS.map(|level| {
            server.sql(&format!(
                "SELECT bucket, userid, hits, total, long, length, pages_state FROM {name}.{level} \
                 ORDER BY bucket, userid"
            ))
        })
    };
    ROLLUPS.iter().flat_map(of).collect()
}
