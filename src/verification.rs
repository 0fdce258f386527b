//! Verification of rollups: compares their states with a recompute from raw events, and their
//! answers with those of raw events.

use std::sync::Arc;

use aggregator::{Sample, Verification};
use query::{Asked, Engine};
use serde::{Deserialize, Serialize};
use storage::Snapshot;

use crate::failure::{FAILED, Failure, Result};

/// Default number of random questions of a verification.
pub(crate) const QUESTIONS: u64 = 100;

/// Verifies the named rollup, or all, over one snapshot.
pub(crate) fn verify_snapshot(
    snapshot: &Snapshot,
    name: Option<&str>,
    sample: Sample,
) -> Result<Vec<Verification>> {
    let rollups = &snapshot.manifest().rollups;
    let wanted: Vec<_> = rollups
        .iter()
        .filter(|r| name.is_none_or(|n| n == r.name.as_str()))
        .collect();
    if let Some(name) = name.filter(|_| wanted.is_empty()) {
        let known: Vec<&str> = rollups.iter().map(|r| r.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "there is no rollup {name:?}; the rollups are {}",
            known.join(", ")
        )));
    }
    wanted
        .into_iter()
        .map(|r| aggregator::verify(snapshot, r, sample).map_err(|e| Failure::new(FAILED, e)))
        .collect()
}

/// Result of the verification of a rollup: its states and its answers, compared with the raw
/// events.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Verified {
    #[serde(flatten)]
    pub(crate) states: Verification,
    #[serde(default)]
    pub(crate) questions: Asked,
}

impl Verified {
    /// Returns the number of states and answers that differ.
    pub(crate) fn differences(&self) -> u64 {
        self.states.differences() + self.questions.differences
    }
}

/// Asks random questions of a rollup whose states were verified.
pub(crate) async fn ask(
    engine: &Engine,
    snapshot: &Arc<Snapshot>,
    states: Verification,
    questions: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Verified> {
    let (name, seed) = (states.rollup.clone(), rand::random());
    let asked = engine.ask_at_random(snapshot, Some(&name), questions, seed, stop);
    Ok(Verified {
        questions: asked.await?,
        states,
    })
}

/// Returns a random sample of a share of the windows, or all.
pub(crate) fn sample(share: Option<f64>) -> Sample {
    share.map_or(Sample::ALL, |share| Sample::of(share, rand::random()))
}
