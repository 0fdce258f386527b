//! The scrub verifies a small share of every rollup each hour, so that a difference from the raw
//! events is found before anyone relies on it. Each turn also asks a few random questions, both
//! with rollups and of raw events alone.
//!
//! The number of the next turn is saved beside the store after each turn, so that the scrub of a
//! restarted server continues there. A turn that a crash interrupted is repeated. The scrub begins
//! anew if the saved number is lost or the share has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aggregator::{Sample, Verification, verify};
use parking_lot::Mutex;
use query::Asked;
use serde::{Deserialize, Serialize};
use storage::{Job, Said};

use super::{Service, Serving};
use crate::failure::Result;

/// Random questions of a turn.
const QUESTIONS: u64 = 5;
/// Name under which the position is saved.
const POSITION: &str = "scrub";

/// Position of the scrub.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Position {
    /// The share of each turn.
    share: f64,
    /// The next turn.
    turn: u64,
}

impl Position {
    /// Returns the saved position, or the first one if none was saved for this share.
    fn after(kept: Option<&str>, share: f64) -> Self {
        let kept = kept.and_then(|text| serde_json::from_str(text).ok());
        let same = kept.filter(|position: &Self| position.share == share);
        same.unwrap_or(Self { share, turn: 0 })
    }
}

/// Findings of the scrub since the start.
#[derive(Debug, Default)]
pub(crate) struct ScrubState {
    /// Differences that the scrub and `verify` have found.
    pub(crate) mismatches: AtomicU64,
    /// Windows that were verified.
    pub(crate) windows: AtomicU64,
    /// Rollups that could not be verified.
    pub(crate) failures: AtomicU64,
    /// The last difference or failure.
    pub(crate) last_error: Mutex<Option<String>>,
}

/// The scrub as a service.
pub(super) struct Scrub(pub(super) Arc<Serving>);

impl Service for Scrub {
    fn name(&self) -> &'static str {
        "scrub"
    }

    fn run(self: Box<Self>) -> Result<()> {
        run(&self.0);
        Ok(())
    }
}

/// Verifies a share of the windows every interval, another each time, until the server stops.
fn run(serving: &Serving) {
    let config = &serving.config.storage;
    if config.scrub_share <= 0.0 {
        return;
    }
    let log = serving.store.maintenance();
    let mut position = Position::after(log.kept(POSITION).as_deref(), config.scrub_share);
    while !serving.stop.wait(config.scrub_interval.0) {
        if !once(serving, position) {
            return;
        }
        position.turn += 1;
        if let Ok(text) = serde_json::to_string(&position) {
            log.keep(POSITION, &text);
        }
    }
}

/// Runs one turn; returns `false` if the server stopped before its end.
fn once(serving: &Serving, position: Position) -> bool {
    let snapshot = serving.store.snapshot();
    let rollups = &snapshot.manifest().rollups;
    let why = format!(
        "scrub turn {}, each turn verifies a share of {}",
        position.turn, position.share
    );
    let run = serving.store.maintenance().begin(Job::Scrub, None, why);
    let (mut windows, mut differences, mut failed) = (0, 0, None);
    for (done, rollup) in (0..).zip(rollups) {
        if serving.stop.is_set() {
            return false;
        }
        run.progress(done, Some(rollups.len() as u64));
        match verify(
            &snapshot,
            rollup,
            Sample::turn(position.share, position.turn),
        ) {
            Ok(found) => {
                windows += found.windows;
                differences += found.differences();
                report(serving, &found);
            }
            Err(error) => {
                tracing::error!(rollup = %rollup.name, %error, "scrub: could not verify");
                let what = format!("scrub of {}: {error}", rollup.name);
                *serving.scrub.last_error.lock() = Some(what.clone());
                serving.scrub.failures.fetch_add(1, Ordering::Relaxed);
                failed.get_or_insert(what);
            }
        }
    }
    let stop = || serving.stop.is_set();
    let asked = serving
        .engine
        .ask_at_random(&snapshot, None, QUESTIONS, rand::random(), &stop);
    let asked = match serving.runtime.block_on(asked) {
        Ok(asked) => asked,
        Err(error) => {
            failed.get_or_insert(format!("scrub: {error}"));
            Asked::default()
        }
    };
    report_answers(serving, &asked);
    match failed {
        Some(what) => run.failed(&what),
        None => run.done(Said {
            what: format!(
                "verified {windows} windows of time, {differences} differences; ran {} random questions, {} answers differ",
                asked.asked, asked.differences
            ),
            done: Some(rollups.len() as u64),
            total: Some(rollups.len() as u64),
            ..Said::default()
        }),
    }
    true
}

fn report_answers(serving: &Serving, asked: &Asked) {
    if asked.differences == 0 {
        return;
    }
    serving
        .scrub
        .mismatches
        .fetch_add(asked.differences, Ordering::Relaxed);
    let first = asked.shown.first().map_or("", String::as_str);
    let what = format!(
        "{} of {} answers of rollups to random questions differ from the raw events, the first {first}",
        asked.differences, asked.asked
    );
    tracing::error!("scrub: {what}; queries with `/*+ no_rollup */` read the raw events");
    *serving.scrub.last_error.lock() = Some(what);
}

fn report(serving: &Serving, found: &Verification) {
    serving
        .scrub
        .windows
        .fetch_add(found.windows, Ordering::Relaxed);
    let differences = found.differences();
    if differences == 0 {
        return;
    }
    serving
        .scrub
        .mismatches
        .fetch_add(differences, Ordering::Relaxed);
    let first = found.levels.iter().flat_map(|l| &l.shown).next();
    let what = format!(
        "rollup {}: {differences} states differ from the raw events, the first {}",
        found.rollup,
        first.map_or("", String::as_str)
    );
    tracing::error!(
        "scrub: {what}; see `logmill rollup verify {0}` and `logmill rollup rebuild {0}`",
        found.rollup
    );
    *serving.scrub.last_error.lock() = Some(what);
}

#[cfg(test)]
mod tests {
    use super::Position;

    #[test]
    fn the_scrub_goes_on_where_it_was() {
        let kept = Position {
            share: 0.01,
            turn: 41,
        };
        let text = serde_json::to_string(&kept).expect("JSON");
        assert_eq!(Position::after(Some(&text), 0.01), kept);
        for (text, share) in [
            (None, 0.01),
            (Some(""), 0.01),
            (Some("{\"share\":0.01,\"tu"), 0.01),
            (Some(text.as_str()), 0.02),
        ] {
            assert_eq!(
                Position::after(text, share),
                Position { share, turn: 0 },
                "{text:?}"
            );
        }
    }
}
