//! Answers the number of events of a stream from the manifest: of all events, or of those in a
//! range of time that cuts no part. The rule is separate and runs before the others, so that its
//! answers are neither optimized nor searched for in files.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::tables::stream::StreamTable;
use crate::tables::stream::prune::TimeRange;
use crate::tables::stream::source::{StreamSource, stream_table};

/// Optimizer rule that replaces such a count with a constant.
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
        match counted {
            Some(rows) => Ok(Transformed::yes(constant(&plan, rows)?)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// Returns the answer of `SELECT count(*) FROM stream`, which needs no analysis, optimization or
/// scan; `None` for every other plan.
pub(crate) fn known(plan: &LogicalPlan) -> Result<Option<RecordBatch>> {
    let LogicalPlan::Projection(projection) = plan else {
        return Ok(None);
    };
    let LogicalPlan::Aggregate(aggregate) = &*projection.input else {
        return Ok(None);
    };
    let is_column = |expr: &Expr| match expr {
        Expr::Alias(alias) => matches!(*alias.expr, Expr::Column(_)),
        other => matches!(other, Expr::Column(_)),
    };
    if !projection.expr.iter().all(is_column) || !only_counts(aggregate) {
        return Ok(None);
    }
    let mut input = &*aggregate.input;
    let provider = loop {
        input = match input {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::TableScan(scan) if scan.filters.is_empty() && scan.fetch.is_none() => {
                break source_as_provider(&scan.source)?;
            }
            _ => return Ok(None),
        }
    };
    let rows = stream_table(&*provider).and_then(|table| rows(table, TimeRange::ALL));
    let Some(rows) = rows else {
        return Ok(None);
    };
    let schema = plan.schema().inner();
    let column = Arc::new(Int64Array::from(vec![rows])) as ArrayRef;
    let columns = vec![column; schema.fields().len()];
    Ok(Some(RecordBatch::try_new(Arc::clone(schema), columns)?))
}

/// Returns a plan of one row that has `rows` in each column of `plan`.
fn constant(plan: &LogicalPlan, rows: i64) -> Result<LogicalPlan> {
    let fields = plan.schema().iter();
    let rows = fields.map(|(table, field)| {
        lit(ScalarValue::Int64(Some(rows))).alias_qualified(table.cloned(), field.name())
    });
    LogicalPlanBuilder::empty(true).project(rows)?.build()
}

/// Returns whether an aggregate counts all rows, and nothing else.
fn only_counts(aggregate: &Aggregate) -> bool {
    let counts_rows = |expr: &Expr| match expr {
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            func.name() == "count"
                && !params.distinct
                && params.filter.is_none()
                && matches!(params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null())
        }
        _ => false,
    };
    let bare = |expr: &Expr| match expr {
        Expr::Alias(alias) => counts_rows(&alias.expr),
        other => counts_rows(other),
    };
    aggregate.group_expr.is_empty() && aggregate.aggr_expr.iter().all(bare)
}

/// Returns the rows that an aggregate counts, if it does nothing else and needs no file.
fn count(aggregate: &Aggregate) -> Option<i64> {
    if !only_counts(aggregate) {
        return None;
    }
    let source = StreamSource::of(&aggregate.input)?;
    if !source.predicates.is_empty() {
        return None;
    }
    rows(source.table(), source.range)
}

/// Returns the number of events of a stream in a range; `None` when the range cuts a part or a
/// chunk.
fn rows(table: &StreamTable, range: TimeRange) -> Option<i64> {
    let (snapshot, name) = table.of();
    let parts = snapshot.manifest().parts_of(name).map(|p| (p.time, p.rows));
    let chunks = snapshot.chunks(name.as_str()).iter();
    let chunks = chunks.map(|c| (c.time, c.events.num_rows() as u64));
    let mut sum = 0_u64;
    for (time, rows) in parts.chain(chunks).filter(|(time, _)| range.meets(*time)) {
        if !range.covers(time) {
            return None;
        }
        sum += rows;
    }
    i64::try_from(sum).ok()
}
