//! How many events a stream has, in all or in a range of time that cuts no part: the manifest says it. A rule
//! by itself, before the others: what it answers is neither optimized nor looked for in files.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::stream::source::Source;

/// The rule.
#[derive(Debug)]
pub(crate) struct ManifestCount;

impl OptimizerRule for ManifestCount {
    fn name(&self) -> &'static str {
        "manifest_count"
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let counted = match &plan {
            LogicalPlan::Aggregate(aggregate) => count(aggregate),
            _ => None,
        };
        let Some(rows) = counted else {
            return Ok(Transformed::no(plan));
        };
        let fields = plan.schema().iter();
        let rows = fields.map(|(table, field)| {
            lit(ScalarValue::Int64(Some(rows))).alias_qualified(table.cloned(), field.name())
        });
        let counts = LogicalPlanBuilder::empty(true).project(rows)?.build()?;
        Ok(Transformed::yes(counts))
    }
}

/// The rows that an aggregate counts, when it does nothing else and needs no file for it.
fn count(aggregate: &Aggregate) -> Option<i64> {
    let counts_rows = |expr: &Expr| match expr {
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            func.name() == "count"
                && !params.distinct
                && params.filter.is_none()
                && matches!(params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null())
        }
        _ => false,
    };
    let bare = |expr: &Expr| counts_rows(&expr.clone().unalias());
    if !aggregate.group_expr.is_empty() || !aggregate.aggr_expr.iter().all(bare) {
        return None;
    }
    let source = Source::of(&aggregate.input)?;
    if !source.predicates.is_empty() {
        return None;
    }
    let (snapshot, name) = source.table().of();
    let parts = snapshot.manifest().parts_of(name).map(|p| (p.time, p.rows));
    let chunks = snapshot.chunks(name.as_str()).iter();
    let chunks = chunks.map(|c| (c.time, c.events.num_rows() as u64));
    let mut sum = 0_u64;
    for (time, rows) in parts
        .chain(chunks)
        .filter(|(time, _)| source.range.meets(*time))
    {
        if !source.range.covers(time) {
            return None;
        }
        sum += rows;
    }
    i64::try_from(sum).ok()
}
