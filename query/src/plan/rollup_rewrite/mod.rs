//! Answers aggregates over raw events from a rollup: from the coarsest levels that lead to
//! exactly the same result, and for the remaining range of time from finer levels and from raw
//! events.
//!
//! # Invariants
//! * The result with the rule equals the result without it, from the same snapshot. There is one
//!   exception: an approximate function in the query returns another approximation, from the
//!   rollup's states. (Sums of integers are added up as decimals either way and checked at the
//!   end: `plan/checked_sums.rs`.)
//! * Where raw events are not complete, they answer alone, as without the rule. The same holds
//!   for days in which keys were folded into `(other)`, if the query distinguishes keys.

mod answer;
mod cells;
mod constant;
mod cost;
mod cover;
mod measures;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aggregator::{KeyType, KeyValue, Level};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use storage::{Name, Snapshot, partition_end};

use crate::tables::level::StreamRollups;
use crate::tables::level::{LevelTable, Rollup};
use crate::tables::stream::prune::TimeRange;
use crate::tables::stream::source::StreamSource;
use answer::Answer;
use cells::KeyColumns;
use constant::Proof;
use cover::{Usable, cover};
use measures::{Measures, Merged};

/// Maximum pieces of an answer. A query that needs more is left to raw events.
const PIECES_MAX: usize = 32;
/// Maximum instants at which a query compares `time` with constants, since most of them start a
/// piece. A query with more is left to raw events too.
const CUTS_MAX: usize = 2 * PIECES_MAX;

/// Optimizer rule that lets a rollup answer an aggregate over raw events.
#[derive(Debug)]
pub(crate) struct RollupRewrite;

impl OptimizerRule for RollupRewrite {
    fn name(&self) -> &'static str {
        "rollup_rewrite"
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Aggregate(aggregate) = &plan
            && let Some(functions) = config.function_registry()
            && let Some(question) = Question::of(aggregate)
            && let Some(answer) = question.best_answer()?
        {
            return Ok(Transformed::yes(answer.plan(&question, functions)?));
        }
        Ok(Transformed::no(plan))
    }
}

/// An aggregate over one stream.
struct Question<'a> {
    aggregate: &'a Aggregate,
    source: StreamSource,
    /// Range of time of the query, without the bounds beyond which no event lies.
    range: TimeRange,
    /// Range of time of the query, within the times of the stream's events.
    events: TimeRange,
    /// Group expressions over the stream's columns.
    group: Vec<Expr>,
    /// Each aggregate function as it was written, and the same over the stream's columns.
    functions: Vec<(&'a AggregateFunction, AggregateFunction)>,
}

impl<'a> Question<'a> {
    fn of(aggregate: &'a Aggregate) -> Option<Self> {
        if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]) {
            return None;
        }
        let source = StreamSource::of(&aggregate.input)?;
        source.table().levels()?;
        let (snapshot, name) = source.table().of();
        let times = times(snapshot, name)?;
        let events = source.range.intersect(times);
        let mut range = source.range;
        if range.first <= times.first {
            range.first = i64::MIN;
        }
        if times.last <= range.last {
            range.last = i64::MAX;
        }
        let group = aggregate.group_expr.iter().map(|e| source.resolve(e));
        let group = group.collect::<Option<_>>()?;
        let functions = aggregate.aggr_expr.iter().map(|expr| {
            let written = unaliased(expr)?;
            match source.resolve(expr)? {
                Expr::AggregateFunction(resolved) => Some((written, resolved)),
                _ => None,
            }
        });
        let functions = functions.collect::<Option<_>>()?;
        (events.first <= events.last).then_some(Self {
            aggregate,
            source,
            range,
            events,
            group,
            functions,
        })
    }

    /// Returns the cheapest answer of a rollup, if it reads less than raw events would.
    fn best_answer(&self) -> Result<Option<Answer<'_>>> {
        let table = self.source.table();
        let Some(levels) = table.levels() else {
            return Ok(None);
        };
        let mut best: Option<(f64, Answer<'_>)> = None;
        for rollup in &levels.rollups {
            if let Some(answer) = self.answer(rollup, levels)? {
                let cost = answer.cost(self);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, answer));
                }
            }
        }
        let raw = self.rows(self.events);
        Ok(best
            .filter(|(cost, _)| levels.always || *cost < raw)
            .map(|(_, answer)| answer))
    }

    /// Returns the answer of a rollup; `None` when the rollup lacks a part of it.
    fn answer<'q>(
        &'q self,
        rollup: &'q Rollup,
        levels: &'q StreamRollups,
    ) -> Result<Option<Answer<'q>>> {
        let table = self.source.table();
        let (snapshot, name) = table.of();
        let definition = &*rollup.definition;
        let keys = KeyColumns::of(definition, table.stored());
        let measures = Measures {
            definition,
            keys: &keys,
        };
        let Some((hits_from, _)) = measures.hits() else {
            return Ok(None);
        };
        let functions = self.functions.iter();
        let merged = functions.map(|(written, resolved)| measures.merged(written, resolved));
        let Some(merged) = merged.collect::<Option<Vec<Merged>>>() else {
            return Ok(None);
        };
        let of_cells = || {
            let filters = merged.iter().filter_map(|m| m.filter.as_ref());
            let partials = merged.iter().flat_map(|m| &m.partials);
            let values = partials.filter_map(|p| p.of_cell.over_keys());
            let asked = self.group.iter().chain(&self.source.predicates);
            asked.chain(filters).chain(values)
        };
        if !of_cells().all(|expr| keys.are_enough_for(expr)) {
            return Ok(None);
        }
        let Some(mut raw) = incomplete(snapshot, name, rollup) else {
            return Ok(None);
        };
        // The buckets of an outdated level do not begin where the calendar has them now.
        let outdated = aggregator::outdated_levels(snapshot.manifest(), &rollup.meta, definition);
        if !outdated.is_empty() {
            return Ok(None);
        }
        let proof = Proof::new(definition.calendar(), self.events);
        let cuts = constant::cuts(of_cells());
        if cuts.len() > CUTS_MAX {
            return Ok(None);
        }
        let from = merged.iter().map(|m| m.from).fold(hits_from, Level::max);
        let coarsest_first = definition.levels().iter().rev().copied();
        let usable = proof.levels(coarsest_first.filter(|level| from <= *level), of_cells);
        let usable = usable.into_iter().map(|level| Usable {
            level,
            floor_us: rollup.meta.floor_us(level.as_str()),
        });
        let usable: Vec<Usable> = usable.collect();
        if usable.is_empty() {
            return Ok(None);
        }
        if of_cells().any(|expr| keys.are_needed_for(expr)) {
            raw.extend(folded(snapshot, name, rollup, levels, self.events)?);
        }
        let calendar = definition.calendar();
        let mut pieces = cover(calendar, self.range, &usable, (&joined(raw), &cuts));
        // No level has cells beyond the first and the last event.
        pieces.retain(|p| p.range.meets((self.events.first, self.events.last)));
        let answer = Answer {
            rollup,
            levels,
            keys,
            merged,
            pieces,
        };
        Ok(Some(answer).filter(Answer::is_possible))
    }
}

fn unaliased(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        Expr::AggregateFunction(function) => Some(function),
        _ => None,
    }
}

/// Returns the least and the greatest time of a stream's events; `None` when it has none.
fn times(snapshot: &Snapshot, stream: &Name) -> Option<TimeRange> {
    let parts = snapshot.manifest().parts_of(stream).map(|p| p.time);
    let chunks = snapshot.chunks(stream.as_str()).iter().map(|c| c.time);
    let widened = parts
        .chain(chunks)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    widened.map(|(first, last)| TimeRange { first, last })
}

/// Returns the ranges in which raw events may differ from the events that a rollup counts; `None`
/// when they may differ anywhere.
fn incomplete(snapshot: &Snapshot, stream: &Name, rollup: &Rollup) -> Option<Vec<TimeRange>> {
    let manifest = snapshot.manifest();
    let meta = snapshot.streams().get(stream)?;
    let since = rollup.meta.first_seq;
    if snapshot
        .chunks(stream.as_str())
        .iter()
        .any(|c| c.seq.0 < since)
    {
        return None;
    }
    let dropped = meta.dropped.iter().map(|d| d.partition_us);
    let detached = manifest.detached_of(stream).map(|d| d.partition_us);
    // Parts older than the rollup, which has not counted their events since.
    let older = manifest.parts_of(stream).filter(|p| p.seq.0 < since);
    // Partitions that were detached while an added rollup counted its history.
    let history = rollup.meta.history.iter();
    let passed = history.flat_map(|h| h.detached.iter().copied());
    let partitions: BTreeSet<i64> = dropped
        .chain(detached)
        .chain(passed)
        .chain(older.map(|p| p.partition_us))
        .collect();
    let range = |start_us: i64| TimeRange {
        first: start_us,
        last: partition_end(meta.partition, start_us).saturating_sub(1),
    };
    let mut ranges: Vec<TimeRange> = partitions.into_iter().map(range).collect();
    // Events before this time are not counted yet.
    ranges.extend(rollup.meta.counts_from_us().map(|until_us| TimeRange {
        first: i64::MIN,
        last: until_us.saturating_sub(1),
    }));
    Some(ranges)
}

/// Returns the days in which keys were folded into `(other)`. Reads no cell when the counts in
/// manifest and memtable show that no day reached the key limit.
fn folded(
    snapshot: &Arc<Snapshot>,
    stream: &Name,
    rollup: &Rollup,
    levels: &StreamRollups,
    events: TimeRange,
) -> Result<Vec<TimeRange>> {
    let definition = &rollup.definition;
    let Some(max_keys) = definition.max_keys() else {
        return Ok(Vec::new());
    };
    let chunks = snapshot.chunks(stream.as_str()).iter();
    let in_memory: u64 = chunks
        .filter(|c| events.meets(c.time))
        .map(|c| c.events.num_rows() as u64)
        .sum();
    let day = |at_us| definition.calendar().bucket(Level::Day, at_us);
    let range = TimeRange {
        first: day(events.first).start_us,
        last: events.last,
    };
    let mut densest: BTreeMap<i64, u64> = BTreeMap::new();
    let tiles = snapshot.manifest().tiles_of(rollup.meta.id);
    let sections = tiles.flat_map(|t| &t.files).flat_map(|f| &f.sections);
    let of_days = sections.filter(|s| s.level == Level::Day.as_str());
    for section in of_days.filter(|s| range.meets((s.bucket_min_us, s.bucket_max_us))) {
        let keys = match section.densest {
            0 => section.cells,
            known => known,
        };
        *densest.entry(section.partition_us).or_default() += keys;
    }
    let most = densest.values().max().copied().unwrap_or(0);
    if most.saturating_add(in_memory) <= max_keys {
        return Ok(Vec::new());
    }
    let other = |key_type: KeyType| match key_type {
        KeyType::Text => KeyValue::Text(aggregator::OTHER.to_owned()),
        KeyType::Int16 | KeyType::Int64 => KeyValue::Null,
    };
    let keys = definition.by().iter();
    let keys = keys.map(|key| Some(vec![other(key.key_type)])).collect();
    let table = LevelTable::new(
        Arc::clone(snapshot),
        rollup.clone(),
        Level::Day,
        Arc::clone(&levels.tiles),
    );
    let days = table.buckets_with(keys, range)?;
    Ok(days
        .into_iter()
        .map(|at_us| TimeRange {
            first: at_us,
            last: day(at_us).end_us - 1,
        })
        .collect())
}

/// Returns the ranges in order, with ranges that overlap or touch merged.
fn joined(mut ranges: Vec<TimeRange>) -> Vec<TimeRange> {
    ranges.sort_unstable_by_key(|r| (r.first, r.last));
    let mut joined: Vec<TimeRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(before) if range.first <= before.last.saturating_add(1) => {
                before.last = before.last.max(range.last);
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
