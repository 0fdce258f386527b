//! Aggregates over raw events that a rollup answers: from the coarsest levels that give exactly the
//! same, with what these leave of the range of time from finer levels and from raw events.
//!
//! # Invariants
//! * Result with the rule = result without it, from the same snapshot. Only approximate functions, where
//!   the query asks for one, give another approximation: that of the rollup's states. (Sums beyond 64
//!   bits, which overflow without the rule, are an error with it; means of sums beyond 2^53 may differ in
//!   their last digit.)
//! * Where raw events are not complete they answer alone, as without the rule. So do days in which keys
//!   were folded into `(other)`, when the query tells keys apart.

mod cells;
mod cover;
mod measures;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aggregator::{KeyType, KeyValue, Level};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, cast, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use storage::{Name, Snapshot, partition_end};

use crate::level::{LevelTable, Rollup, TileCache};
use crate::stream::prune::TimeRange;
use crate::stream::source::{self, Source};
use cells::{Keys, are_constant, parts_of_time};
use cover::{Piece, Usable, cover};
use measures::{CellValue, Measures, Merged};

/// More pieces than this are a question for raw events.
const PIECES_MAX: usize = 32;
/// What reading a cell costs, in rows of raw events.
const ROWS_PER_CELL: f64 = 4.0;

/// When rollups answer aggregates over raw events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Answers {
    /// Where they have the same answer and raw events are likely to cost more.
    #[default]
    Auto,
    /// Where they have the same answer.
    Always,
    /// Never.
    Never,
}

/// The rollups of a stream, for the rule.
#[derive(Debug)]
pub(crate) struct Levels {
    pub(crate) rollups: Vec<Rollup>,
    pub(crate) tiles: Arc<TileCache>,
    /// Also where raw events are likely to cost less: for tests.
    pub(crate) always: bool,
}

/// The rule.
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
    source: Source,
    /// The range asked for, without bounds where no event lies beyond them.
    range: TimeRange,
    /// The same, within the times that events have.
    events: TimeRange,
    /// Over the stream's columns.
    group: Vec<Expr>,
    /// Over the stream's columns, each beside itself as it was written.
    functions: Vec<(&'a AggregateFunction, AggregateFunction)>,
}

impl<'a> Question<'a> {
    fn of(aggregate: &'a Aggregate) -> Option<Self> {
        if matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]) {
            return None;
        }
        let source = Source::of(&aggregate.input)?;
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

    /// The answer that looks at least, when one looks at less than raw events would.
    fn best_answer(&self) -> Result<Option<Answer<'_>>> {
        let table = self.source.table();
        let Some(levels) = table.levels() else {
            return Ok(None);
        };
        if !levels.always && self.counts_whole_parts() {
            return Ok(None);
        }
        let mut best: Option<(f64, Answer<'_>)> = None;
        for rollup in &levels.rollups {
            if let Some(answer) = self.answer(rollup, levels)? {
                let cost = answer.cost(self);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, answer));
                }
            }
        }
        let (snapshot, name) = table.of();
        let raw = rows(snapshot, name, self.events);
        Ok(best
            .filter(|(cost, _)| levels.always || *cost < raw)
            .map(|(_, answer)| answer))
    }

    /// Whether the manifest alone has the answer: how many rows whole parts have.
    fn counts_whole_parts(&self) -> bool {
        let (snapshot, name) = self.source.table().of();
        let parts = snapshot.manifest().parts_of(name);
        let is_count = |(_, f): &(_, AggregateFunction)| {
            f.func.name() == "count"
                && !f.params.distinct
                && f.params.filter.is_none()
                && matches!(f.params.args.as_slice(), [Expr::Literal(..)])
        };
        self.group.is_empty()
            && self.source.predicates.is_empty()
            && self.functions.iter().all(is_count)
            && parts
                .filter(|p| self.range.meets(p.time))
                .all(|p| self.range.covers(p.time))
    }

    /// What a rollup answers of it; `None` when it lacks something.
    fn answer<'q>(&'q self, rollup: &'q Rollup, levels: &'q Levels) -> Result<Option<Answer<'q>>> {
        let table = self.source.table();
        let (snapshot, name) = table.of();
        let definition = &*rollup.definition;
        let keys = Keys::of(definition, table.stored());
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
            let values = partials.filter_map(|p| match &p.of_cell {
                CellValue::Keys(expr) | CellValue::Times(expr, _) => Some(expr),
                CellValue::Measure(_) => None,
            });
            let asked = self.group.iter().chain(&self.source.predicates);
            asked.chain(filters).chain(values)
        };
        if !of_cells().all(|expr| keys.are_enough_for(expr)) {
            return Ok(None);
        }
        let Some(mut raw) = incomplete(snapshot, name, rollup) else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        of_cells().for_each(|expr| parts_of_time(expr, &mut parts));
        let from = merged.iter().map(|m| m.from).fold(hits_from, Level::max);
        let coarsest_first = definition.levels().iter().rev().copied();
        let usable: Vec<Usable> = coarsest_first
            .filter(|level| from <= *level)
            .filter(|level| are_constant(&parts, definition, *level, self.events))
            .map(|level| Usable {
                level,
                floor_us: rollup.meta.floor_us(level.as_str()),
            })
            .collect();
        if usable.is_empty() {
            return Ok(None);
        }
        if of_cells().any(|expr| keys.are_needed_for(expr)) {
            raw.extend(folded(snapshot, name, rollup, levels, self.events)?);
        }
        let pieces = cover(definition.calendar(), self.range, &usable, &joined(raw));
        // Beyond the first and the last event there is nothing at any level.
        let events = (self.events.first, self.events.last);
        let pieces = pieces.into_iter().filter(|p| p.range.meets(events));
        let pieces: Vec<Piece> = pieces.collect();
        let raw_can = |m: &Merged| m.partials.iter().all(|p| p.of_raw.is_some());
        let usable = pieces.len() <= PIECES_MAX
            && pieces.iter().any(|p| p.level.is_some())
            && (merged.iter().all(raw_can) || pieces.iter().all(|p| p.level.is_some()));
        Ok(usable.then_some(Answer {
            rollup,
            levels,
            keys,
            merged,
            pieces,
        }))
    }
}

/// How a rollup answers a question.
struct Answer<'a> {
    rollup: &'a Rollup,
    levels: &'a Levels,
    keys: Keys,
    merged: Vec<Merged>,
    pieces: Vec<Piece>,
}

impl Answer<'_> {
    /// What it looks at, in rows of raw events.
    fn cost(&self, question: &Question<'_>) -> f64 {
        let (snapshot, name) = question.source.table().of();
        let pieces = self.pieces.iter().map(|piece| match piece.level {
            Some(level) => cells(snapshot, self.rollup, level, piece.range) * ROWS_PER_CELL,
            None => rows(snapshot, name, piece.range),
        });
        pieces.sum()
    }

    fn plan(
        &self,
        question: &Question<'_>,
        functions: &dyn FunctionRegistry,
    ) -> Result<LogicalPlan> {
        let pieces = self.pieces.iter().map(|piece| {
            let plan = match piece.level {
                Some(level) => self.of_level(question, level, piece.range),
                None => self.of_raw(question, piece.range),
            };
            plan.map(Arc::new)
        });
        let mut pieces = pieces.collect::<Result<Vec<_>>>()?;
        let all = match pieces.len() {
            1 => Arc::unwrap_or_clone(pieces.remove(0)),
            _ => LogicalPlan::Union(Union::try_new(pieces)?),
        };
        let group: Vec<Expr> = (0..question.group.len()).map(key).collect();
        let merges = self.partials().map(|(nth, partial)| {
            Ok(partial
                .merge
                .of(source::plain(&partial_name(nth)), functions)?
                .alias(partial_name(nth)))
        });
        let merges = merges.collect::<Result<Vec<_>>>()?;
        let merged = LogicalPlanBuilder::from(all).aggregate(group, merges)?;
        let mut out: Vec<Expr> = (0..question.group.len()).map(key).collect();
        let mut nth = 0;
        for merged in &self.merged {
            let columns =
                (nth..nth + merged.partials.len()).map(|n| source::plain(&partial_name(n)));
            out.push(merged.finish.of(&columns.collect::<Vec<_>>(), functions)?);
            nth += merged.partials.len();
        }
        let named = out.into_iter().zip(question.aggregate.schema.iter());
        let out = named.map(|(expr, (table, field))| {
            let given = expr.get_type(merged.schema())?;
            let expr = if given == *field.data_type() {
                expr
            } else {
                cast(expr, field.data_type().clone())
            };
            Ok(expr.alias_qualified(table.cloned(), field.name()))
        });
        let out = out.collect::<Result<Vec<_>>>()?;
        merged.project(out)?.build()
    }

    /// The columns of every piece, by number.
    fn partials(&self) -> impl Iterator<Item = (usize, &measures::Partial)> {
        self.merged.iter().flat_map(|m| &m.partials).enumerate()
    }

    /// The types of the columns of every piece: those of the groups, then of the partials.
    fn types(&self, question: &Question<'_>) -> Vec<arrow::datatypes::DataType> {
        let fields = question.aggregate.schema.fields();
        let (groups, results) = fields.split_at(question.group.len());
        let groups = groups.iter().map(|field| field.data_type().clone());
        let merged = self.merged.iter().zip(results);
        let partials = merged.flat_map(|(merged, field)| {
            let own = merged.partials.iter();
            own.map(|p| {
                p.data_type
                    .clone()
                    .unwrap_or_else(|| field.data_type().clone())
            })
        });
        groups.chain(partials).collect()
    }

    fn named(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
        question: &Question<'_>,
    ) -> Result<Vec<Expr>> {
        let groups = question.group.len();
        let typed = exprs.into_iter().zip(self.types(question)).enumerate();
        typed
            .map(|(nth, (expr, wanted))| {
                let name = match nth.checked_sub(groups) {
                    None => key_name(nth),
                    Some(nth) => partial_name(nth),
                };
                let expr = if expr.get_type(schema)? == wanted {
                    expr
                } else {
                    cast(expr, wanted)
                };
                Ok(expr.alias(name))
            })
            .collect()
    }

    fn of_level(
        &self,
        question: &Question<'_>,
        level: Level,
        range: TimeRange,
    ) -> Result<LogicalPlan> {
        let (snapshot, _) = question.source.table().of();
        let table = LevelTable::new(
            Arc::clone(snapshot),
            self.rollup.clone(),
            level,
            Arc::clone(&self.levels.tiles),
        );
        let name = TableReference::partial(self.rollup.meta.name.as_str(), level.table());
        let mut plan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None)?;
        for filter in range.filter(&"bucket".into()) {
            plan = plan.filter(filter)?;
        }
        for predicate in &question.source.predicates {
            plan = plan.filter(self.keys.over_level(predicate)?)?;
        }
        let groups = question.group.iter().map(|e| self.keys.over_level(e));
        let mut exprs = groups.collect::<Result<Vec<_>>>()?;
        for merged in &self.merged {
            let filter = merged.filter.as_ref().map(|f| self.keys.over_level(f));
            let filter = filter.transpose()?;
            for partial in &merged.partials {
                let value = match &partial.of_cell {
                    CellValue::Measure(column) => source::plain(column),
                    CellValue::Keys(expr) => self.keys.over_level(expr)?,
                    CellValue::Times(expr, hits) => {
                        self.keys.over_level(expr)? * source::plain(hits)
                    }
                };
                exprs.push(match &filter {
                    Some(filter) => when(filter.clone(), value).end()?,
                    None => value,
                });
            }
        }
        let exprs = self.named(exprs, plan.schema(), question)?;
        plan.project(exprs)?.build()
    }

    fn of_raw(&self, question: &Question<'_>, range: TimeRange) -> Result<LogicalPlan> {
        let rows = source::within(&question.aggregate.input, range)?;
        let groups = question.aggregate.group_expr.iter().enumerate();
        let groups: Vec<Expr> = groups
            .map(|(nth, expr)| expr.clone().unalias().alias(key_name(nth)))
            .collect();
        let partials = self
            .partials()
            .map(|(nth, partial)| {
                let of_raw = partial.of_raw.clone();
                of_raw
                    .expect("BUG: raw events give it, or are not asked")
                    .alias(partial_name(nth))
            })
            .collect::<Vec<_>>();
        let columns = (0..groups.len()).map(key);
        let columns =
            columns.chain((0..self.partials().count()).map(|n| source::plain(&partial_name(n))));
        let columns: Vec<Expr> = columns.collect();
        let plan = LogicalPlanBuilder::from(rows).aggregate(groups, partials)?;
        let exprs = self.named(columns, plan.schema(), question)?;
        plan.project(exprs)?.build()
    }
}

fn key_name(nth: usize) -> String {
    format!("__key_{nth}")
}

fn key(nth: usize) -> Expr {
    source::plain(&key_name(nth))
}

fn partial_name(nth: usize) -> String {
    format!("__partial_{nth}")
}

fn unaliased(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        Expr::AggregateFunction(function) => Some(function),
        _ => None,
    }
}

/// The least and the greatest time of a stream's events; `None` when it has none.
fn times(snapshot: &Snapshot, stream: &Name) -> Option<TimeRange> {
    let parts = snapshot.manifest().parts_of(stream).map(|p| p.time);
    let chunks = snapshot.chunks(stream.as_str()).iter().map(|c| c.time);
    let widened = parts
        .chain(chunks)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    widened.map(|(first, last)| TimeRange { first, last })
}

/// Where raw events and those that a rollup counts may differ; `None` when that may be anywhere.
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
    // Those that came before the rollup and were not counted since.
    let older = manifest.parts_of(stream).filter(|p| p.seq.0 < since);
    let partitions: BTreeSet<i64> = dropped
        .chain(detached)
        .chain(older.map(|p| p.partition_us))
        .collect();
    let range = |start_us: i64| TimeRange {
        first: start_us,
        last: partition_end(meta.partition, start_us).saturating_sub(1),
    };
    Some(partitions.into_iter().map(range).collect())
}

/// The days in which keys were folded into `(other)`. Manifest and memtable tell when none can have been.
fn folded(
    snapshot: &Arc<Snapshot>,
    stream: &Name,
    rollup: &Rollup,
    levels: &Levels,
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

/// The same ranges in order, those that meet or touch as one.
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

/// About how many raw events lie in a range.
fn rows(snapshot: &Snapshot, stream: &Name, range: TimeRange) -> f64 {
    let parts = snapshot.manifest().parts_of(stream);
    let parts = parts.map(|p| p.rows as f64 * share(p.time, range));
    let chunks = snapshot.chunks(stream.as_str()).iter();
    let chunks = chunks.map(|c| c.events.num_rows() as f64 * share(c.time, range));
    parts.chain(chunks).sum()
}

/// About how many cells of a level lie in a range.
fn cells(snapshot: &Snapshot, rollup: &Rollup, level: Level, range: TimeRange) -> f64 {
    let tiles = snapshot.manifest().tiles_of(rollup.meta.id);
    let sections = tiles.flat_map(|t| &t.files).flat_map(|f| &f.sections);
    let of_level = sections.filter(|s| s.level == level.as_str());
    of_level
        .map(|s| s.cells as f64 * share((s.bucket_min_us, s.bucket_max_us), range))
        .sum()
}

/// The share of some times that lies in a range, if they are spread evenly.
fn share(times: (i64, i64), range: TimeRange) -> f64 {
    if !range.meets(times) {
        return 0.0;
    }
    let width = |first: i64, last: i64| last as f64 - first as f64 + 1.0;
    let within = (times.0.max(range.first), times.1.min(range.last));
    width(within.0, within.1) / width(times.0, times.1)
}

#[cfg(test)]
mod tests;
