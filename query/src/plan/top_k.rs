//! Finds the first rows by time, newest or oldest: first the time of the k-th of them, and only
//! then any other column.
//!
//! Parts are in the order of their hosts, so a sort that keeps k rows meets new candidates in
//! every page, and decodes all columns of a page for each. The sort also begins in all partitions
//! at once, while the last lines of a log lie in its last partition. So a search first reads only
//! the times and the columns of the conditions, partition by partition from that end, until it
//! has k rows. Then the query runs in the remaining range of time, which excludes most partitions
//! and many pages.
//!
//! # Invariants
//! * The answer is the same as without the search. The sort and its limit stay, and its first key
//!   is the time, so no row beyond the k-th time is in the answer. Rows of exactly that time stay
//!   in the range.
//! * Search and query read the same snapshot.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::TimestampMicrosecondType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, Sort, col};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{ExecutionPlan, collect};
use storage::TIME;

use crate::plan_node::{NodeKind, PlanNode};
use crate::run::yielding;
use crate::tables::stream::prune::TimeRange;
use crate::tables::stream::source::{StreamSource, plain, within};

/// Maximum limit of a query that is narrowed.
const ROWS_MAX: usize = 10_000;
/// Minimum rows in the range. Reading fewer than this once is faster than a search.
const ROWS_WORTH: u64 = 1 << 18;

/// A plan that reads less, and the plans that were run to narrow it.
pub(crate) struct Narrowed {
    pub(crate) plan: LogicalPlan,
    pub(crate) before: Vec<Arc<dyn ExecutionPlan>>,
}

impl Narrowed {
    /// Wraps a plan that was not narrowed.
    pub(crate) fn not(plan: LogicalPlan) -> Self {
        Self {
            plan,
            before: Vec::new(),
        }
    }
}

/// Narrows the sorts of an optimized plan; with `always` also sorts that are not worth it.
pub(crate) async fn narrow(
    plan: LogicalPlan,
    always: bool,
    state: &SessionState,
    context: &Arc<TaskContext>,
) -> Result<Narrowed> {
    // An EXPLAIN shows the plan and does not run it.
    if matches!(plan, LogicalPlan::Explain(_)) {
        return Ok(Narrowed::not(plan));
    }
    let mut before = Vec::new();
    let mut ranges: Vec<(Sort, TimeRange)> = Vec::new();
    for (sort, search) in sorts(&plan, always)? {
        let range = search.run(&sort, state, context, &mut before).await?;
        ranges.push((sort, range));
    }
    if ranges.is_empty() {
        return Ok(Narrowed::not(plan));
    }
    let narrowed = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Sort(sort) = &node else {
            return Ok(Transformed::no(node));
        };
        let Some((_, range)) = ranges.iter().find(|(known, _)| known == sort) else {
            return Ok(Transformed::no(node));
        };
        let narrowed = LogicalPlan::Sort(Sort {
            input: Arc::new(within(&sort.input, *range)?),
            ..sort.clone()
        });
        Ok(Transformed::new(narrowed, true, TreeNodeRecursion::Jump))
    });
    Ok(Narrowed {
        plan: narrowed?.data,
        before,
    })
}

/// Returns the sorts that can be narrowed, each with its search.
fn sorts(plan: &LogicalPlan, always: bool) -> Result<Vec<(Sort, Search)>> {
    let mut found: Vec<(Sort, Search)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Sort(sort) = node
            && found.iter().all(|(known, _)| known != sort)
            && let Some(search) = Search::of(sort, always)
        {
            found.push((sort.clone(), search));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Search for the first rows of a sort.
struct Search {
    rows: usize,
    newest: bool,
    /// Range of time of the query.
    range: TimeRange,
    /// First and last time in each partition of the range, in the order of the search.
    partitions: Vec<(i64, i64)>,
}

impl Search {
    fn of(sort: &Sort, always: bool) -> Option<Self> {
        let rows = sort.fetch.filter(|rows| (1..=ROWS_MAX).contains(rows))?;
        let first = sort.expr.first()?;
        let source = StreamSource::of(&sort.input)?;
        if source.resolve(&first.expr)? != plain(TIME) {
            return None;
        }
        let (snapshot, name) = source.table().of();
        let mut partitions = BTreeMap::new();
        let mut stored = 0;
        for part in snapshot.manifest().parts_of(name) {
            if source.range.meets(part.time) {
                stored += part.rows;
                let known = partitions.entry(part.partition_us).or_insert(part.time);
                *known = (known.0.min(part.time.0), known.1.max(part.time.1));
            }
        }
        if stored < ROWS_WORTH && !always {
            return None;
        }
        let mut partitions: Vec<_> = partitions.into_values().collect();
        if !first.asc {
            partitions.reverse();
        }
        Some(Self {
            rows,
            newest: !first.asc,
            range: source.range,
            partitions,
        })
    }

    /// Runs the search and returns the range that holds the first rows.
    async fn run(
        &self,
        sort: &Sort,
        state: &SessionState,
        context: &Arc<TaskContext>,
        before: &mut Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<TimeRange> {
        let mut times = Vec::new();
        let mut left = self.range;
        // Each step reads twice as many partitions, for conditions that few rows satisfy.
        let (mut at, mut take) = (0, 1);
        while times.len() < self.rows && left.first <= left.last {
            at += take;
            take *= 2;
            let step = self.step(left, at);
            let plan = self.times_of(sort, step, self.rows - times.len())?;
            let plan = state.optimize(&plan)?;
            let planner = Arc::clone(state.query_planner());
            let plan = planner.create_physical_plan(&plan, state).await?;
            let plan = yielding::interruptible(plan)?;
            before.push(Arc::clone(&plan));
            for batch in collect(plan, Arc::clone(context)).await? {
                let column = batch.column(0).as_primitive::<TimestampMicrosecondType>();
                times.extend(column.iter().flatten());
            }
            match self.newest {
                true if step.first > i64::MIN => left.last = step.first - 1,
                false if step.last < i64::MAX => left.first = step.last + 1,
                _ => break,
            }
        }
        let farthest = match self.newest {
            true => times.into_iter().min(),
            false => times.into_iter().max(),
        };
        Ok(match farthest {
            None => TimeRange {
                first: i64::MAX,
                last: i64::MIN,
            },
            Some(time) if self.newest => TimeRange {
                first: time,
                ..self.range
            },
            Some(time) => TimeRange {
                last: time,
                ..self.range
            },
        })
    }

    /// Returns the part of `left` down to, or up to, the last of so many partitions; all of it
    /// when there are no more partitions.
    fn step(&self, left: TimeRange, partitions: usize) -> TimeRange {
        if partitions >= self.partitions.len() {
            return left;
        }
        let (first, last) = self.partitions[partitions - 1];
        let reached = match self.newest {
            true => TimeRange {
                first,
                last: i64::MAX,
            },
            false => TimeRange {
                first: i64::MIN,
                last,
            },
        };
        left.intersect(reached)
    }

    /// Plans the query for the first times in a range, at most `rows` of them.
    fn times_of(&self, sort: &Sort, range: TimeRange, rows: usize) -> Result<LogicalPlan> {
        let time = sort.expr[0].expr.clone().alias(TIME);
        LogicalPlanBuilder::from(within(&sort.input, range)?)
            .project([time])?
            .sort_with_limit([col(TIME).sort(!self.newest, false)], Some(rows))?
            .build()
    }
}

/// A plan, and the plans that were run to narrow it: the inputs after the first one.
#[derive(Debug)]
pub(crate) struct NarrowedExec {
    steps: usize,
}

impl NarrowedExec {
    /// Adds the plans run before to a plan. In an EXPLAIN ANALYZE they go below the root.
    pub(crate) fn over(
        plan: Arc<dyn ExecutionPlan>,
        before: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if before.is_empty() {
            return Ok(plan);
        }
        if plan.name() == "AnalyzeExec" {
            let told = plan.children().into_iter().cloned();
            let told = told.map(|input| Self::over(input, before.clone()));
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            return Arc::clone(&plan).replace_children(told.collect::<Result<_>>()?, options);
        }
        let steps = before.len();
        Ok(Arc::new(PlanNode::over(Self { steps }, plan, before)))
    }
}

impl NodeKind for NarrowedExec {
    const NAME: &'static str = "NarrowedExec";

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "NarrowedExec: the first rows by time were found in {} steps, listed below",
            self.steps
        )
    }
}
