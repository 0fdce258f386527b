//! Batches that writers sent, with the answers they got, compared with the content of a store.
//!
//! Every line carries the key of its batch or file and its own number, so that one query shows
//! for each key whether it is there as a whole, as a prefix, in part, or twice.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::SystemTime;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use super::{PAST_S, Server, assert_verified, line, sums_query};

/// Batches fall on this many days: few, so that a seal makes few parts.
const DAYS: i64 = 2;
const LINES_MAX: u64 = 4;
const FOUND: &str = "SELECT split_part(path, '/', 3) AS key, count(*) AS n, \
     count(DISTINCT path) AS different, \
     max(CAST(split_part(path, '/', 4) AS BIGINT)) + 1 AS top FROM access GROUP BY 1";

/// The sender's knowledge of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The batch is stored; the last of its sequence numbers.
    Acknowledged(u64),
    /// The batch is not stored.
    Refused,
    /// The batch may be stored.
    Unknown,
}

/// A batch that a writer sends.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) key: String,
    pub(crate) body: String,
    pub(crate) lines: u64,
    pub(crate) concern: &'static str,
    pub(crate) outcome: Outcome,
    /// Time of the answer.
    pub(crate) answered: SystemTime,
}

impl Batch {
    /// Makes some lines of a day or two in the past; `key` is unique in its store.
    pub(crate) fn new(key: String, concern: &'static str, random: &mut SmallRng) -> Self {
        let lines = random.random_range(1..=LINES_MAX);
        let mut body = String::new();
        for i in 0..lines {
            let at = PAST_S + random.random_range(0..DAYS * 86_400);
            let path = format!("/batch/{key}/{i}");
            let _ignored = write!(body, "{}", line("203.0.113.7", at, &path, 200, 10));
        }
        Self {
            key,
            body,
            lines,
            concern,
            outcome: Outcome::Unknown,
            answered: SystemTime::UNIX_EPOCH,
        }
    }

    /// Sends the batch and records its outcome; returns the status, `None` when the server is gone.
    pub(crate) fn send(&mut self, server: &Server) -> Option<u16> {
        let path = format!("/api/v1/ingest/access?{}", self.concern);
        let headers = [("Idempotency-Key", self.key.as_str())];
        let answer = server
            .try_post(&path, &headers, self.body.as_bytes())
            .ok()?;
        self.answered = SystemTime::now();
        let (status, told) = (answer.status, answer.json());
        self.outcome = match (status, told["error"]["code"].as_str()) {
            (200, _) => {
                let expected = (&self.lines.into(), &false.into());
                assert_eq!((&told["accepted"], &told["duplicate"]), expected, "{told}");
                Outcome::Acknowledged(told["last_seq"].as_u64().expect("a sequence number"))
            }
            (507, Some("disk_full")) | (503, Some("overloaded")) => {
                assert_eq!(answer.header("retry-after"), "1", "when to come again");
                Outcome::Refused
            }
            (503, Some("unknown")) => Outcome::Unknown,
            _ => panic!("{status} {told}"),
        };
        Some(status)
    }

    /// Sends the batch once more with the same key; the answer is that of a duplicate if it is
    /// `stored`.
    #[track_caller]
    pub(crate) fn send_again(&mut self, server: &Server, stored: bool) {
        let path = format!("/api/v1/ingest/access?{}", self.concern);
        let headers = [("Idempotency-Key", self.key.as_str())];
        let answer = server.post(&path, &headers, self.body.as_bytes());
        let told = answer.status(200).json();
        assert_eq!(told["duplicate"], stored, "{}: {told}", self.key);
        assert_eq!(told["accepted"], self.lines, "{}: {told}", self.key);
        let last_seq = told["last_seq"].as_u64().expect("a sequence number");
        if let Outcome::Acknowledged(before) = self.outcome {
            assert_eq!(last_seq, before, "{}: {told}", self.key);
        }
        self.outcome = Outcome::Acknowledged(last_seq);
    }
}

/// Sends batches one after the other until one of them gets no answer. Statuses other than 200
/// must be `expected`.
pub(crate) fn write_until_gone(
    server: &Server,
    writer: &str,
    concern: &'static str,
    seed: u64,
    expected: &[u16],
) -> Vec<Batch> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut sent = Vec::new();
    for number in 0_u64.. {
        let mut batch = Batch::new(format!("{writer}-{number}"), concern, &mut random);
        let status = batch.send(server);
        sent.push(batch);
        match status {
            None => break,
            Some(status) => assert!(status == 200 || expected.contains(&status), "{status}"),
        }
    }
    sent
}

/// A file that is imported, perhaps with interruptions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    pub(crate) lines: u64,
    /// An import has reported that the file is complete.
    pub(crate) done: bool,
}

/// The lines of one key in a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    lines: u64,
    different: u64,
    /// One more than the highest number of a line.
    top: u64,
}

impl Found {
    /// Returns the first `lines` lines, each once.
    fn prefix(lines: u64) -> Self {
        Self {
            lines,
            different: lines,
            top: lines,
        }
    }
}

/// Outcomes of batches whose senders got no answer.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) stored: u64,
    pub(crate) lost: u64,
}

/// Everything that was sent to one store.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) batches: Vec<Batch>,
    /// Files by the key in their lines.
    pub(crate) files: BTreeMap<String, File>,
}

impl Ledger {
    /// Begins with one acknowledged batch, so that there is a stream to query.
    pub(crate) fn begin(server: &Server, random: &mut SmallRng) -> Self {
        let mut first = Batch::new("first".into(), "j=true", random);
        assert_eq!(first.send(server), Some(200));
        Self {
            batches: vec![first],
            files: BTreeMap::new(),
        }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        let is = |b: &&Batch| matches!(b.outcome, Outcome::Acknowledged(_));
        self.batches.iter().filter(is).count()
    }

    /// Checks that every acknowledged batch is there once, refused ones are not, others as a
    /// whole or not at all; of every file a prefix, and each line once; nothing else is there.
    /// Returns the number of lines.
    #[track_caller]
    pub(crate) fn assert_held(&self, sql: impl Fn(&str) -> Vec<Value>) -> u64 {
        let mut found = found(&sql(FOUND));
        let mut total = 0;
        for batch in &self.batches {
            let here = found.remove(&batch.key).unwrap_or_default();
            let (whole, nothing) = (Found::prefix(batch.lines), Found::default());
            let held = match batch.outcome {
                Outcome::Acknowledged(_) => here == whole,
                Outcome::Refused => here == nothing,
                Outcome::Unknown => here == whole || here == nothing,
            };
            assert!(held, "{here:?} of {batch:?}");
            total += here.lines;
        }
        for (key, file) in &self.files {
            let here = found.remove(key).unwrap_or_default();
            let some = here.lines <= file.lines && (!file.done || here.lines == file.lines);
            assert!(
                some && here == Found::prefix(here.lines),
                "{here:?} of {key} {file:?}"
            );
            total += here.lines;
        }
        assert!(found.is_empty(), "nobody sent {found:?}");
        total
    }

    /// Sends the batches that are not acknowledged again with the same keys.
    #[track_caller]
    pub(crate) fn settle(&mut self, server: &Server) -> Settled {
        let found = found(&server.sql(FOUND));
        let mut settled = Settled::default();
        for batch in &mut self.batches {
            if matches!(batch.outcome, Outcome::Acknowledged(_)) {
                continue;
            }
            let stored = found.contains_key(&batch.key);
            batch.send_again(server, stored);
            *(if stored {
                &mut settled.stored
            } else {
                &mut settled.lost
            }) += 1;
        }
        settled
    }

    /// Does the same as [`Ledger::assert_held`], and checks that every rollup agrees.
    #[track_caller]
    pub(crate) fn assert_exact(&self, server: &Server) {
        let total = self.assert_held(|query| server.sql(query));
        for row in server.sql(&sums_query()) {
            assert_eq!(row["n"], total, "{}", row["t"]);
        }
        assert_verified(&["--server", &server.url], total);
    }
}

fn found(rows: &[Value]) -> BTreeMap<String, Found> {
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a count");
    let of = |row: &Value| {
        let key = row["key"].as_str().expect("a key").to_owned();
        let found = Found {
            lines: number(row, "n"),
            different: number(row, "different"),
            top: number(row, "top"),
        };
        (key, found)
    };
    rows.iter().map(of).collect()
}
