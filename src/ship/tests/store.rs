//! A store of the model: it holds producers to their ranges, loses answers, and ends shippers.

use std::collections::BTreeMap;
use std::fmt::Write;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use storage::{Identity, SourcePosition};

use super::folder::Folder;
use crate::client::{IngestAnswer, Refusal};
use crate::ship::send::{RangeBatch, Receiver};

/// States of a producer that a store remembers.
const STATES_MAX: usize = 128;

/// A batch that was taken.
struct Range {
    from: u64,
    to: u64,
    content: u64,
}

struct State {
    folder: Folder,
    random: SmallRng,
    lines: Vec<String>,
    producers: BTreeMap<String, Vec<Range>>,
    has_faults: bool,
    history: String,
}

pub(super) struct Store(Mutex<State>);

impl Store {
    pub(super) fn new(folder: Folder, seed: u64) -> Self {
        Self(Mutex::new(State {
            folder,
            random: SmallRng::seed_from_u64(seed),
            lines: Vec::new(),
            producers: BTreeMap::new(),
            has_faults: true,
            history: String::new(),
        }))
    }

    /// Something happens to the files.
    pub(super) fn happens(&self) {
        let mut state = self.0.lock();
        let step = state.folder.step();
        let _ignored = writeln!(state.history, "{step}");
    }

    pub(super) fn log(&self, text: &str) {
        let _ignored = writeln!(self.0.lock().history, "{text}");
    }

    /// Ends all faults, and everything that is half done.
    pub(super) fn in_peace(&self) {
        let mut state = self.0.lock();
        state.has_faults = false;
        state.folder.finish();
    }

    /// Returns the lines that are there more or less often than they were written.
    pub(super) fn difference(&self) -> String {
        let state = self.0.lock();
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for line in &state.lines {
            *counts.entry(line).or_default() += 1;
        }
        for line in &state.folder.whole {
            *counts.entry(line).or_default() -= 1;
        }
        let mut shown = String::new();
        for (line, count) in counts.into_iter().filter(|(_, n)| *n != 0).take(20) {
            let _ignored = write!(shown, "{line:?} {count:+}; ");
        }
        shown
    }

    pub(super) fn history(&self) -> String {
        self.0.lock().history.clone()
    }
}

fn again() -> Refusal {
    Refusal::Again {
        after: None,
        why: "no answer".into(),
    }
}

impl State {
    /// Decides about a call before it is done, or its answer afterwards.
    fn fault(&mut self) -> Result<(), Refusal> {
        if !self.has_faults {
            return Ok(());
        }
        match self.random.random_range(0..40) {
            0 => Err(Refusal::Final("killed".into())),
            1..4 => Err(again()),
            _ => Ok(()),
        }
    }

    fn take(&mut self, batch: &RangeBatch<'_>) -> Result<IngestAnswer, Refusal> {
        let Identity::Range {
            producer,
            from,
            to,
            content,
        } = &batch.identity
        else {
            panic!("a range");
        };
        let text = String::from_utf8(batch.body.to_vec()).expect("text");
        let ranges = self.producers.entry(producer.clone()).or_default();
        let end = ranges.last().map(|last| last.to);
        let mut answer = IngestAnswer {
            accepted: text.lines().count() as u64,
            first_seq: Some(7),
            ..IngestAnswer::default()
        };
        if end.is_some_and(|end| end != *from) {
            let end = end.unwrap_or(0);
            if *from > end || *to > end {
                return Err(Refusal::Invalid("a gap or an overlap".into()));
            }
            let known = ranges.iter().rev().take(STATES_MAX);
            let mut known = known.filter(|r| (r.from, r.to) == (*from, *to));
            let known = known.next();
            if known.is_some_and(|known| known.content != *content) {
                return Err(Refusal::Invalid("other content".into()));
            }
            answer.duplicate = true;
            answer.first_seq = known.map(|_| 7);
            return Ok(answer);
        }
        ranges.push(Range {
            from: *from,
            to: *to,
            content: *content,
        });
        let _ignored = writeln!(
            self.history,
            "  {producer} {from}..{to} of {}",
            batch.source.rsplit('/').next().unwrap_or_default()
        );
        self.lines.extend(text.lines().map(str::to_owned));
        Ok(answer)
    }
}

impl Receiver for Store {
    fn names(&self, prefix: &str) -> Result<Vec<String>, Refusal> {
        let mut state = self.0.lock();
        state.fault()?;
        let used = state.producers.iter().filter(|(_, r)| !r.is_empty());
        let names = used.map(|(name, _)| name).filter(|n| n.starts_with(prefix));
        Ok(names.cloned().collect())
    }

    fn states(&self, producer: &str) -> Result<Vec<SourcePosition>, Refusal> {
        let mut state = self.0.lock();
        state.fault()?;
        let ranges = state.producers.get(producer).map_or(&[][..], |r| r);
        let newest = &ranges[ranges.len().saturating_sub(STATES_MAX)..];
        let position = |r: &Range| SourcePosition {
            to: r.to,
            content: r.content,
        };
        Ok(newest.iter().map(position).collect())
    }

    fn deliver(&self, batch: &RangeBatch<'_>) -> Result<IngestAnswer, Refusal> {
        let mut state = self.0.lock();
        // Files change while a batch is under way.
        while state.has_faults && state.random.random_bool(0.3) {
            let step = state.folder.step();
            let _ignored = writeln!(state.history, "  meanwhile {step}");
        }
        state.fault()?;
        let answer = state.take(batch)?;
        state.fault()?;
        Ok(answer)
    }

    fn limit(&self) -> &'static str {
        "nothing"
    }
}
