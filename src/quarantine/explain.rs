//! One item of the quarantine: where it came from, where reading stopped, and whether it would be
//! an event today.

use std::fmt;

use ingest::{Explanation, ParseOptions};
use serde::Serialize;
use storage::{Name, Snapshot};

use super::items::TOO_LONG;
use super::{Choice, Item, Reading, items};
use crate::config::Config;
use crate::failure::{FAILED, Failure, Result};

/// The explanation of one item.
#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    seq: u64,
    /// `waiting`, `replayed` or `dropped`.
    state: &'static str,
    /// When it came.
    time: String,
    stream: String,
    reason: String,
    detail: String,
    source: String,
    line: i64,
    byte: i64,
    /// The line, or the part of it where reading stopped, with unprintable bytes escaped.
    excerpt: String,
    /// The place in it, in characters from 0.
    caret: usize,
    /// It would be an event if it was replayed.
    parses: bool,
    /// The explanation of its line by today's configuration.
    today: Explanation,
}

/// Explains an item: the one with this number, or the newest of the choice that waits.
pub(crate) fn explain(
    config: &Config,
    snapshot: &Snapshot,
    seq: Option<u64>,
    choice: &Choice,
    reading: &Reading,
) -> Result<Explained> {
    let item = match seq {
        Some(seq) => items::one(snapshot, seq)?,
        None => items::newest(snapshot, choice)?,
    };
    let item = item.ok_or_else(|| match seq {
        Some(seq) => Failure::new(
            FAILED,
            format!("the quarantine has no item with sequence number {seq}"),
        ),
        None => Failure::new(FAILED, "no matching item waits in the quarantine"),
    })?;
    let stream = Name::new(&item.stream)?;
    let format = reading.format(config, snapshot, &stream, &item.raw);
    let options = ParseOptions {
        received_us: item.time_us,
        first_line: u64::try_from(item.line).unwrap_or(1),
        first_byte: u64::try_from(item.byte).unwrap_or(0),
        ..reading.options(config, snapshot, &stream, format)
    };
    // With its end, so that a CR which belongs to the line stays.
    let line = [&item.raw, &b"\r\n"[..]].concat();
    let today = ingest::explain(&item.source, &line, options)?;
    Ok(Explained::of(item, snapshot, today))
}

impl Explained {
    fn of(item: Item, snapshot: &Snapshot, today: Explanation) -> Self {
        let (excerpt, caret) = ingest::excerpt(&item.raw, stopped_at(&item.detail));
        let settled = snapshot.settled().how(item.seq);
        Self {
            seq: item.seq,
            state: settled.map_or("waiting", storage::Settlement::as_str),
            time: chrono::DateTime::from_timestamp_micros(item.time_us)
                .map_or_else(String::new, |t| t.to_rfc3339()),
            parses: today.events == 1 && item.is_whole(),
            stream: item.stream,
            reason: item.reason,
            detail: item.detail,
            source: item.source,
            line: item.line,
            byte: item.byte,
            excerpt,
            caret,
            today,
        }
    }
}

/// Returns the byte of the line, from 0, at which reading stopped: every detail begins with its
/// column.
fn stopped_at(detail: &str) -> usize {
    let column = detail.strip_prefix("column ");
    let column = column.and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
    column.map_or(0, |column| column.saturating_sub(1))
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "item {} of {}, {}: {}, line {}, byte {}, received {}",
            self.seq, self.stream, self.state, self.source, self.line, self.byte, self.time
        )?;
        writeln!(f, "  {}: {}", self.reason, self.detail)?;
        writeln!(f, "  {}", self.excerpt)?;
        writeln!(f, "  {:caret$}^", "", caret = self.caret)?;
        let verdict = match (self.parses, &*self.reason) {
            (true, _) => "a replay would make it an event",
            (false, TOO_LONG) => "only its beginning was kept; it cannot be replayed",
            (false, _) if self.excerpt.is_empty() => "its line was not kept; it cannot be replayed",
            (false, _) => "a replay would leave it as it is",
        };
        writeln!(f, "\ntoday, {verdict}")?;
        write!(f, "{}", self.today)
    }
}
