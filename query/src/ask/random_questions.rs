//! Random questions that a rollup may answer, each run twice on one snapshot: with rollups
//! allowed wherever they have the same answer, and on raw events alone, without indexes and
//! shortcuts. `rollup verify` and the scrub run some, so that a difference is found before a user
//! relies on it.
//!
//! A question reads a range of time with at most [`EVENTS_MAX`] events, or a piece of a partition
//! that has more, so that its cost does not grow with the store. It requests aggregates of the
//! fields that some rollup counts, by its keys and by functions of time, under conditions on
//! both.

pub(crate) mod rows;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use storage::{Name, Snapshot, partition_end};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::tables::level::RollupUse;
use crate::tables::system::NoSystemInfo;
use rows::{AnswerRows, not_among};
use words::{Ground, question};

/// Approximate maximum of raw events that a question reads.
const EVENTS_MAX: u64 = 200_000;
/// Maximum differences in a result.
const TOLD: usize = 10;
/// Hints that let raw events answer a question.
const RAW: &str = "/*+ no_rollup no_index no_top_k */";

/// Result of asking random questions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Questions with two answers.
    pub asked: u64,
    /// Questions that a rollup answered.
    pub by_rollups: u64,
    /// Questions without an answer, for lack of a place, memory or time.
    pub unanswered: u64,
    /// Error of the first question without an answer, with its statement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Questions whose answers differ.
    pub differences: u64,
    /// The first questions whose answers differ: the statement, and the difference.
    pub shown: Vec<String>,
}

impl Asked {
    /// Adds another result.
    pub fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.by_rollups += other.by_rollups;
        self.unanswered += other.unanswered;
        self.reason = self.reason.take().or(other.reason);
        self.differences += other.differences;
        let left = TOLD.saturating_sub(self.shown.len());
        self.shown.extend(other.shown.into_iter().take(left));
    }
}

/// Random choices, the same for the same seed.
#[derive(Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// Returns a number below `end`; 0 where `end` is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.wide(end as u64) as usize
    }

    fn wide(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or(0)
    }

    pub(crate) fn of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.below(some.len())]
    }
}

impl Engine {
    /// Runs `questions` random questions on the rollup of that name, or on all, and compares the
    /// answers with the answers of raw events. Ends early when `stop` returns true.
    ///
    /// # Errors
    /// When the rollups of the snapshot cannot be read. A question without an answer is counted,
    /// and is not an error.
    pub async fn ask_at_random(
        &self,
        snapshot: &Arc<Snapshot>,
        rollup: Option<&str>,
        questions: u64,
        seed: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Asked> {
        let engine = self.with_rollup_use(RollupUse::Always);
        let rollups = engine.rollups_of(snapshot)?;
        let rollups = rollups.values();
        let wanted: Vec<_> = rollups
            .filter(|r| rollup.is_none_or(|name| name == r.meta.name.as_str()))
            .collect();
        let (mut asked, mut draw) = (Asked::default(), Draw(seed));
        if wanted.is_empty() {
            return Ok(asked);
        }
        for _ in 0..questions {
            if stop() {
                break;
            }
            let definition = &draw.of(&wanted).definition;
            let Some(range) = range(snapshot, definition.stream(), &mut draw) else {
                continue;
            };
            let mut ground = Ground::of(definition, range);
            if let Some(sql) = ground.sample() {
                let found = engine.rows(snapshot, &sql).await;
                ground.learn(found.map(|(rows, _)| rows.rows).unwrap_or_default());
            }
            let sql = question(&ground, &mut draw);
            engine.compare(snapshot, &sql, &mut asked).await;
        }
        Ok(asked)
    }

    async fn compare(&self, snapshot: &Arc<Snapshot>, sql: &str, asked: &mut Asked) {
        let raw = sql.replacen("SELECT", &format!("SELECT {RAW}"), 1);
        let expected = self.rows(snapshot, &raw).await;
        let found = self.rows(snapshot, sql).await;
        let difference = match (found, expected) {
            (Ok((found, by_rollup)), Ok((expected, _))) => {
                asked.asked += 1;
                asked.by_rollups += u64::from(by_rollup);
                difference(&found, &expected)
            }
            (Err(Error::Invalid { message, .. }), Ok(_)) => {
                asked.asked += 1;
                Some(format!("refused with rollups: {message}"))
            }
            (Err(error), _) | (_, Err(error)) => {
                asked.unanswered += 1;
                asked
                    .reason
                    .get_or_insert_with(|| format!("{sql}: {error}"));
                None
            }
        };
        if let Some(what) = difference {
            asked.differences += 1;
            if asked.shown.len() < TOLD {
                asked.shown.push(format!("{sql}: {what}"));
            }
        }
    }

    /// Returns an answer, and whether a rollup computed it.
    async fn rows(&self, snapshot: &Arc<Snapshot>, sql: &str) -> Result<(AnswerRows, bool)> {
        let (snapshot, system) = (Arc::clone(snapshot), Arc::new(NoSystemInfo));
        let answer = self.sql(snapshot, system, sql, None).await?;
        let (schema, batches, figures) = answer.collect().await?;
        let mut by = figures.answered_by.iter();
        let by_rollup = by.any(|by| by.starts_with("rollup "));
        Ok((AnswerRows::of(&schema, &batches), by_rollup))
    }
}

fn difference(found: &AnswerRows, expected: &AnswerRows) -> Option<String> {
    if found.kinds != expected.kinds {
        return Some(format!(
            "columns {:?} for {:?}",
            found.kinds, expected.kinds
        ));
    }
    let (rows, others) = (&found.rows, &expected.rows);
    if rows.len() != others.len() {
        return Some(format!("{} rows for {}", rows.len(), others.len()));
    }
    let rows = rows.iter().map(Vec::as_slice);
    let row = not_among(rows, others.iter().map(Vec::as_slice))?;
    let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
    Some(format!(
        "the answer from raw events lacks the row {}",
        cells.join(" | ")
    ))
}

/// Returns a range of time with some events of a stream, not too many; `None` when the stream has
/// none.
fn range(snapshot: &Snapshot, stream: &Name, draw: &mut Draw) -> Option<(i64, i64)> {
    let meta = snapshot.streams().get(stream)?;
    // Each partition's rows, and its first and last time.
    let mut partitions: BTreeMap<i64, (u64, i64, i64)> = BTreeMap::new();
    for part in snapshot.manifest().parts_of(stream) {
        let known = partitions.entry(part.partition_us);
        let known = known.or_insert((0, part.time.0, part.time.1));
        *known = (
            known.0 + part.rows,
            known.1.min(part.time.0),
            known.2.max(part.time.1),
        );
    }
    for chunk in snapshot.chunks(stream.as_str()) {
        let at_us = storage::partition_start(meta.partition, chunk.time.0);
        let known = partitions.entry(at_us);
        let known = known.or_insert((0, chunk.time.0, chunk.time.1));
        let rows = chunk.events.num_rows() as u64;
        *known = (
            known.0 + rows,
            known.1.min(chunk.time.0),
            known.2.max(chunk.time.1),
        );
    }
    let partitions: Vec<(i64, (u64, i64, i64))> = partitions.into_iter().collect();
    let from = draw.below(partitions.len());
    let (start_us, (rows, first, last)) = *partitions.get(from)?;
    if rows > EVENTS_MAX {
        // A piece of the partition, at a random position.
        let width = last.saturating_sub(first).max(1) as u64;
        let piece = (width / (rows / EVENTS_MAX).max(1)).max(1);
        let at = first + i64::try_from(draw.wide(width)).unwrap_or(0);
        let piece = i64::try_from(piece).unwrap_or(i64::MAX);
        return Some((at, at.saturating_add(piece)));
    }
    let (mut sum, mut end) = (0_u64, partition_end(meta.partition, start_us));
    for (at_us, (rows, ..)) in &partitions[from..] {
        sum += rows;
        if sum > EVENTS_MAX {
            break;
        }
        end = partition_end(meta.partition, *at_us);
        if draw.below(4) == 0 {
            break;
        }
    }
    let end = end.max(last.saturating_add(1));
    Some(match draw.below(3) {
        // Whole partitions, or otherwise bounds that cut them.
        0 => (start_us, end),
        _ => {
            let width = u64::try_from(end.saturating_sub(start_us)).unwrap_or(1);
            let skip = i64::try_from(draw.wide(width / 3 + 1)).unwrap_or(0);
            let less = i64::try_from(draw.wide(width / 3 + 1)).unwrap_or(0);
            (start_us.saturating_add(skip), end.saturating_sub(less))
        }
    })
}

#[cfg(test)]
mod tests;
