//! `kill -9` at random moments: during imports, and of a server that is being written to. What was
//! acknowledged is there once; what is sent again adds only what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::support::{Home, PAST_S, Server, assert_verified, command, knob, line, sums_query};

/// Small, so that seals happen all the time and kills hit them.
const SEAL_OFTEN: (&str, &str) = ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "2MiB");
const DAYS: u64 = 4;

/// A different seed for each run: the moments differ anyway.
fn seed() -> u64 {
    let seed = knob("LOGMILL_SEED", u64::from(std::process::id()));
    println!("LOGMILL_SEED={seed}");
    seed
}

/// A log of about 32 MiB, eight blocks of an import, in which each path occurs once.
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
    // How long it takes when nobody kills it.
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
            // It was faster; the next one begins anew.
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

/// What a reader finds after a kill, before any recovery: a prefix of the file, each line once.
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
        // Killed before there was a store, or before its first batch.
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

/// A batch that a writer sent.
struct Sent {
    key: String,
    body: String,
    lines: u64,
    concern: &'static str,
    /// The last sequence number of its acknowledgement; `None`: the outcome is unknown.
    acknowledged: Option<u64>,
}

impl Sent {
    fn new(writer: usize, number: u64, random: &mut SmallRng) -> Self {
        let key = format!("{writer}-{number}");
        let lines = random.random_range(1..60);
        let mut body = String::new();
        for i in 0..lines {
            let at = PAST_S + random.random_range(0..(DAYS * 86_400) as i64);
            let path = format!("/batch/{key}/{i}");
            let _ignored = write!(body, "{}", line("203.0.113.7", at, &path, 200, 10));
        }
        let concern = if writer == 0 { "w=1" } else { "j=true" };
        Self {
            key,
            body,
            lines,
            concern,
            acknowledged: None,
        }
    }

    /// Sends it; `false` when the server is gone.
    fn send(&mut self, server: &Server) -> bool {
        let path = format!("/api/v1/ingest/access?{}", self.concern);
        let headers = [("Idempotency-Key", self.key.as_str())];
        let Ok(answer) = server.try_post(&path, &headers, self.body.as_bytes()) else {
            return false;
        };
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        assert_eq!(
            (&answer["accepted"], &answer["duplicate"]),
            (&self.lines.into(), &false.into())
        );
        self.acknowledged = answer["last_seq"].as_u64();
        true
    }
}

/// Lines and different lines of every batch in the store, by key.
fn stored(server: &Server) -> BTreeMap<String, (u64, u64)> {
    let rows = server.sql(
        "SELECT split_part(path, '/', 3) AS key, count(*) AS n, count(DISTINCT path) AS d \
         FROM access GROUP BY 1",
    );
    let of = |row: &Value, name: &str| row[name].as_u64().expect("a count");
    rows.iter()
        .map(|row| {
            let key = row["key"].as_str().expect("a key").to_owned();
            (key, (of(row, "n"), of(row, "d")))
        })
        .collect()
}

/// Kills on one store: without compaction a store that seals all the time grows slower to read.
const KILLS_PER_STORE: u64 = 10;

#[test]
fn a_server_killed_at_any_moment_keeps_what_it_acknowledged_once() {
    let kills = knob("LOGMILL_KILLS", 4);
    let mut random = SmallRng::seed_from_u64(seed());
    let mut outcomes = Outcomes::default();
    let mut done = 0;
    while done < kills {
        let here = KILLS_PER_STORE.min(kills - done);
        kill_servers_of_one_store(here, &mut random, &mut outcomes);
        done += here;
    }
    println!("{kills} kills: {outcomes:?}");
}

/// What became of the batches.
#[derive(Debug, Default)]
struct Outcomes {
    acknowledged: u64,
    unknown_and_stored: u64,
    unknown_and_lost: u64,
}

fn kill_servers_of_one_store(kills: u64, random: &mut SmallRng, outcomes: &mut Outcomes) {
    let home = Home::new();
    let mut all: Vec<Sent> = Vec::new();
    let mut number = 1_000_000;
    // The first round needs a stream to ask.
    let mut server = Server::start_with(&home.data, &[SEAL_OFTEN]);
    let mut first = Sent::new(0, 0, random);
    assert!(first.send(&server));
    all.push(first);
    for round in 0..kills {
        let highest = all.iter().filter_map(|s| s.acknowledged).max();
        let sent = write_until_killed(server, random, number);
        number += 1_000_000;
        assert!(
            sent.iter().any(|s| s.acknowledged.is_none()),
            "round {round}: nothing was under way"
        );
        let lowest = sent.iter().filter_map(|s| s.acknowledged).min();
        assert!(
            lowest.is_none() || lowest > highest,
            "round {round}: a sequence number came twice"
        );
        outcomes.acknowledged += sent.iter().filter(|s| s.acknowledged.is_some()).count() as u64;
        all.extend(sent);
        server = Server::start_with(&home.data, &[SEAL_OFTEN]);
        let found = stored(&server);
        for batch in &mut all {
            let (n, different) = found.get(&batch.key).copied().unwrap_or_default();
            assert_eq!(
                n, different,
                "round {round}: {} has a line twice",
                batch.key
            );
            if batch.acknowledged.is_some() {
                assert_eq!(
                    n, batch.lines,
                    "round {round}: {} ({}) was acknowledged",
                    batch.key, batch.concern
                );
                continue;
            }
            assert!(
                n == 0 || n == batch.lines,
                "round {round}: half of {} is there",
                batch.key
            );
            // The sender tries again with the same key.
            let path = format!("/api/v1/ingest/access?{}", batch.concern);
            let headers = [("Idempotency-Key", batch.key.as_str())];
            let answer = server
                .post(&path, &headers, batch.body.as_bytes())
                .status(200)
                .json();
            assert_eq!(answer["duplicate"], n > 0, "round {round}: {answer}");
            assert_eq!(answer["accepted"], batch.lines);
            batch.acknowledged = answer["last_seq"].as_u64();
            *(if n > 0 {
                &mut outcomes.unknown_and_stored
            } else {
                &mut outcomes.unknown_and_lost
            }) += 1;
        }
        // So does one that had its answer and did not believe it.
        for _ in 0..3 {
            let batch = &all[random.random_range(0..all.len())];
            let headers = [("Idempotency-Key", batch.key.as_str())];
            let answer = server.post("/api/v1/ingest/access", &headers, batch.body.as_bytes());
            let answer = answer.status(200).json();
            assert_eq!(
                (&answer["duplicate"], answer["last_seq"].as_u64()),
                (&true.into(), batch.acknowledged)
            );
        }
        let wanted: BTreeMap<String, (u64, u64)> = all
            .iter()
            .map(|s| (s.key.clone(), (s.lines, s.lines)))
            .collect();
        assert!(
            stored(&server) == wanted,
            "round {round}: the store holds other lines than were sent"
        );
        let total: u64 = all.iter().map(|s| s.lines).sum();
        for row in server.sql(&sums_query()) {
            assert_eq!(row["n"], total, "round {round}: {}", row["t"]);
        }
        assert_verified(&["--server", &server.url], total);
    }
}

/// One writer of each concern and one that seals, until the server is killed under them.
fn write_until_killed(server: Server, random: &mut SmallRng, first: u64) -> Vec<Sent> {
    let after = Duration::from_millis(random.random_range(20..1500));
    let seeds: [u64; 3] = random.random();
    let killed = AtomicBool::new(false);
    let under_way = AtomicU64::new(0);
    let mut sent = Vec::new();
    std::thread::scope(|scope| {
        let server = &server;
        let (killed, under_way) = (&killed, &under_way);
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let mut random = SmallRng::seed_from_u64(seeds[writer]);
                scope.spawn(move || {
                    let mut sent = Vec::new();
                    for number in first.. {
                        let mut batch = Sent::new(writer, number, &mut random);
                        under_way.fetch_add(1, Ordering::SeqCst);
                        let alive = batch.send(server);
                        sent.push(batch);
                        if !alive {
                            break;
                        }
                    }
                    assert!(
                        killed.load(Ordering::SeqCst),
                        "the server went away by itself"
                    );
                    sent
                })
            })
            .collect();
        let mut random = SmallRng::seed_from_u64(seeds[2]);
        scope.spawn(move || {
            while !killed.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(random.random_range(0..300)));
                // Its failure is the kill.
                let _ignored = server.try_post("/api/v1/rollups/run", &[], b"");
            }
        });
        std::thread::sleep(after);
        // Not before each writer has begun.
        while under_way.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
        killed.store(true, Ordering::SeqCst);
        server.kill_now();
        for writer in writers {
            sent.extend(writer.join().expect("a writer"));
        }
    });
    sent
}
