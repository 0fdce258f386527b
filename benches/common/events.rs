//! Access events as the real parser makes them of the real generator's lines.

use std::process::{Command, Stdio};
use std::sync::Arc;

use ingest::{Format, ParseOptions, Parser};
use storage::{Batch, Clock, Name, SystemClock};

/// The first of the generated days, 2025-10-01: all of them are past.
pub(crate) const START_S: &str = "1759276800";
pub(crate) const STREAM: &str = "access";

/// Returns so many lines that are events, the same each time.
pub(crate) fn lines(logmill: &std::path::Path, count: usize) -> Vec<Vec<u8>> {
    let output = Command::new(logmill)
        .args(["demo", "--out", "-", "--days", "1", "--start", START_S])
        // One line in a thousand is bad and would be quarantined.
        .args(["--lines", &(count + count / 100 + 100).to_string()])
        .stderr(Stdio::null())
        .output()
        .expect("the generator runs");
    assert!(output.status.success(), "generating failed");
    let lines: Vec<Vec<u8>> = output
        .stdout
        .split_inclusive(|b| *b == b'\n')
        .filter(|line| batch(line).quarantine.is_empty())
        .take(count)
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(lines.len(), count, "too many lines are bad");
    lines
}

/// Returns the lines in batches of `size`, each parsed by itself as the server does.
pub(crate) fn batches(lines: &[Vec<u8>], size: usize) -> Vec<Batch> {
    lines
        .chunks(size)
        .map(|some| batch(&some.concat()))
        .collect()
}

fn batch(lines: &[u8]) -> Batch {
    let received_us = SystemClock.now_us();
    let options = ParseOptions {
        format: Format::Combined,
        received_us,
        ..ParseOptions::default()
    };
    let parsed = Parser::new(options).parse(lines).expect("a small block");
    Batch {
        stream: Name::new(STREAM).expect("a good name"),
        kind: parsed.kind,
        received_us,
        source: Arc::from("bench"),
        events: parsed.events,
        quarantine: parsed.quarantine,
        identity: None,
    }
}
