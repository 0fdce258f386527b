//! Divides a plan among the stores whose rows it reads.
//!
//! # Invariants
//! * The result equals that of the same plan over one store with the rows of all. Filters and
//!   projections treat each row by itself; an aggregate is divided only if each of its functions
//!   has a merge (`plan/divide/split.rs`); the first rows of all are among the first of each store,
//!   and are ordered again. Everything else is computed here, from the rows.
//! * No scan of a [`ShardedTable`] is left.

mod split;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Result, plan_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, FetchType, LogicalPlan, LogicalPlanBuilder, Projection,
    SkipType, Sort, TableScan, TableScanBuilder, Union, cast,
};

use crate::tables::sharded::fragment::{Fragment, FragmentStep, is_of_rows};
use crate::tables::sharded::pruning::may_have_rows;
use crate::tables::sharded::{RemoteTable, ShardedTable};
use crate::tables::stream::source::plain;
use split::Split;

/// Divides all scans of streams of several stores. `time_zone` is that of the session.
pub(crate) fn divided(
    plan: LogicalPlan,
    functions: &dyn FunctionRegistry,
    time_zone: Option<&str>,
) -> Result<LogicalPlan> {
    let divide = Divide {
        functions,
        time_zone,
    };
    let divided = plan.transform_down_with_subqueries(|node| match divide.of(&node)? {
        Some(plan) => Ok(Transformed::new(plan, true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(node)),
    })?;
    // The schema of a node depends on those below, whose columns may have become nullable.
    match divided.transformed {
        true => Ok(divided.data.recompute_schema()?),
        false => Ok(divided.data),
    }
}

/// Returns whether a plan scans a stream of several stores.
pub(crate) fn is_sharded(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source);
            found |= provider.is_ok_and(|p| ShardedTable::of(&*p).is_some());
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

struct Divide<'a> {
    functions: &'a dyn FunctionRegistry,
    time_zone: Option<&'a str>,
}

/// The rows of a stream of several stores after some steps, each row by itself.
struct RowChain {
    table: Arc<dyn TableProvider>,
    fragment: Fragment,
    schema: DFSchemaRef,
    /// A limit stands below: rows are left out, so nothing above may be computed by the stores.
    is_limited: bool,
}

impl Divide<'_> {
    /// Returns the divided plan of a node that reads nothing but the rows of such a stream.
    fn of(&self, node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        match node {
            LogicalPlan::Aggregate(aggregate) => {
                let exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                if !exprs.clone().all(|expr| self.sends(expr)) {
                    return Ok(None);
                }
                let Some(chain) = self.chain(&aggregate.input)?.filter(|c| !c.is_limited) else {
                    return Ok(None);
                };
                self.aggregate(aggregate, chain)
            }
            LogicalPlan::Sort(
                sort @ Sort {
                    fetch: Some(fetch), ..
                },
            ) if sort.expr.iter().all(|key| self.sends(&key.expr)) => {
                let Some(mut chain) = self.chain(&sort.input)?.filter(|c| !c.is_limited) else {
                    return Ok(None);
                };
                chain.fragment.steps.push(FragmentStep::First {
                    by: sort.expr.clone(),
                    fetch: *fetch,
                });
                Ok(Some(LogicalPlan::Sort(Sort {
                    input: Arc::new(self.union(chain)?),
                    ..sort.clone()
                })))
            }
            LogicalPlan::Limit(limit) => {
                let (Ok(FetchType::Literal(Some(fetch))), Ok(skip)) =
                    (limit.get_fetch_type(), limit.get_skip_type())
                else {
                    return Ok(None);
                };
                let SkipType::Literal(skip) = skip else {
                    return Ok(None);
                };
                let Some(mut chain) = self.chain(&limit.input)? else {
                    return Ok(None);
                };
                if !chain.is_limited {
                    chain
                        .fragment
                        .steps
                        .push(FragmentStep::Limit(fetch.saturating_add(skip)));
                }
                let mut limit = limit.clone();
                limit.input = Arc::new(self.union(chain)?);
                Ok(Some(LogicalPlan::Limit(limit)))
            }
            LogicalPlan::TableScan(scan) => self.scan(scan),
            other => match self.chain(other)? {
                Some(chain) => self.union(chain).map(Some),
                None => Ok(None),
            },
        }
    }

    /// Divides a scan. A limit of its own applies to each store and to all rows; filters that no
    /// peer can evaluate apply here.
    fn scan(&self, scan: &TableScan) -> Result<Option<LogicalPlan>> {
        let filters = scan.filters.iter().cloned();
        let (sent, kept): (Vec<Expr>, Vec<Expr>) = filters.partition(|f| self.sends(f));
        let chain = match kept.is_empty() {
            true => RowChain::of_scan(scan)?,
            // All columns, and all rows: the filters may read some that the scan does not return.
            false => {
                let all = TableScanBuilder::new(scan.table_name.clone(), Arc::clone(&scan.source));
                RowChain::of_scan(&all.with_filters(sent).build()?)?
            }
        };
        let Some(chain) = chain else {
            return Ok(None);
        };
        let mut rows = LogicalPlanBuilder::from(self.union(chain)?);
        if !kept.is_empty() {
            for filter in kept {
                rows = rows.filter(qualified(filter, scan)?)?;
            }
            let shown = scan.projected_schema.columns();
            rows = rows.project(shown.into_iter().map(Expr::Column))?;
        }
        if scan.fetch.is_some() {
            rows = rows.limit(0, scan.fetch)?;
        }
        rows.build().map(Some)
    }

    fn aggregate(&self, aggregate: &Aggregate, mut chain: RowChain) -> Result<Option<LogicalPlan>> {
        let Some(split) = Split::of(aggregate)? else {
            return Ok(None);
        };
        chain.fragment.steps.push(split.step());
        chain.schema = Arc::clone(chain.with_steps()?.schema());
        let rows = self.union(chain)?;
        split.finish(aggregate, rows, self.functions).map(Some)
    }

    /// Returns the chain of a plan; `None` unless it reads one stream of several stores, each row
    /// by itself.
    fn chain(&self, plan: &LogicalPlan) -> Result<Option<RowChain>> {
        let (input, step) = match plan {
            LogicalPlan::TableScan(scan) => {
                return match scan.filters.iter().all(|filter| self.sends(filter)) {
                    true => RowChain::of_scan(scan),
                    false => Ok(None),
                };
            }
            LogicalPlan::Projection(projection) => (
                &projection.input,
                FragmentStep::Project(projection.expr.clone()),
            ),
            LogicalPlan::Filter(filter) => (
                &filter.input,
                FragmentStep::Filter(filter.predicate.clone()),
            ),
            LogicalPlan::SubqueryAlias(alias) => {
                (&alias.input, FragmentStep::Alias(alias.alias.clone()))
            }
            _ => return Ok(None),
        };
        if !step.exprs().all(|expr| self.sends(expr)) {
            return Ok(None);
        }
        let Some(mut chain) = self.chain(input)? else {
            return Ok(None);
        };
        if chain.is_limited {
            return Ok(None);
        }
        chain.fragment.steps.push(step);
        chain.schema = Arc::clone(plan.schema());
        Ok(Some(chain))
    }

    /// Returns whether a peer can compute an expression: of the columns of a row, and of functions
    /// that it knows by the same name.
    fn sends(&self, expr: &Expr) -> bool {
        let is_unknown = |e: &Expr| {
            Ok(match e {
                Expr::ScalarFunction(call) => {
                    let known = self.functions.udf(call.name());
                    known.map_or(true, |known| known != call.func)
                }
                Expr::AggregateFunction(call) => {
                    let known = self.functions.udaf(call.func.name());
                    known.map_or(true, |known| known != call.func)
                }
                Expr::HigherOrderFunction(_) => true,
                _ => false,
            })
        };
        is_of_rows(expr) && !expr.exists(is_unknown).unwrap_or(true)
    }

    /// Returns the rows of all stores.
    fn union(&self, chain: RowChain) -> Result<LogicalPlan> {
        let Some(table) = ShardedTable::of(&*chain.table) else {
            return plan_err!("BUG: a chain over another table");
        };
        let (fragment, schema) = (&chain.fragment, &chain.schema);
        let (sent, columns) = sent(fragment, schema);
        let mut inputs = Vec::new();
        if let Some(own) = &table.own {
            let name = table.name.as_str();
            let rows = LogicalPlanBuilder::scan(name, provider_as_source(Arc::clone(own)), None)?;
            inputs.push(Arc::new(renamed(fragment.plan(rows.build()?)?, &columns)?));
        }
        let mut peers = may_have_rows(fragment, &table.peers);
        if peers.is_empty() && inputs.is_empty() {
            // One store answers that there are no rows.
            peers.extend(table.peers.first().cloned());
        }
        if !peers.is_empty() {
            let remote = RemoteTable {
                peers,
                fragment: sent,
                time_zone: self.time_zone.map(str::to_owned),
                schema: Arc::clone(&columns),
            };
            let source = provider_as_source(Arc::new(remote));
            let rows = LogicalPlanBuilder::scan(table.name.as_str(), source, None)?;
            inputs.push(Arc::new(renamed(rows.build()?, &columns)?));
        }
        let all = match inputs.len() {
            1 => inputs.remove(0),
            _ => Arc::new(LogicalPlan::Union(Union::try_new(inputs)?)),
        };
        let names = columns.fields().iter().zip(schema.iter());
        let names = names.map(|(column, (qualifier, field))| {
            plain(column.name()).alias_qualified(qualifier.cloned(), field.name())
        });
        let named = Projection::try_new(names.collect(), all)?;
        Ok(LogicalPlan::Projection(named))
    }
}

/// Returns a fragment with its columns renamed by their places, and these columns: two columns may
/// have one name, as far as a table knows names.
fn sent(fragment: &Fragment, schema: &DFSchemaRef) -> (Fragment, SchemaRef) {
    let name = |nth: usize| format!("__column_{nth}");
    let columns = schema.iter().enumerate();
    let renamed = columns.map(|(nth, column)| {
        let column = Expr::Column(Column::from(column));
        column.alias(name(nth))
    });
    let mut fragment = fragment.clone();
    fragment
        .steps
        .push(FragmentStep::Project(renamed.collect()));
    let fields = schema.fields().iter().enumerate();
    let fields = fields.map(|(nth, field)| Field::clone(field).with_name(name(nth)));
    (fragment, Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Gives a plan the names and the types of some columns, by their places.
fn renamed(plan: LogicalPlan, columns: &Schema) -> Result<LogicalPlan> {
    let own = Arc::clone(plan.schema());
    let pairs = own.iter().zip(columns.fields());
    let exprs = pairs.map(|(column, wanted)| {
        let column = Expr::Column(Column::from(column));
        let column = match column.get_type(&own)? == *wanted.data_type() {
            true => column,
            false => cast(column, wanted.data_type().clone()),
        };
        Ok(column.alias(wanted.name()))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let renamed = Projection::try_new(exprs, Arc::new(plan))?;
    Ok(LogicalPlan::Projection(renamed))
}

impl RowChain {
    fn of_scan(scan: &TableScan) -> Result<Option<Self>> {
        let table = source_as_provider(&scan.source)?;
        let Some(sharded) = ShardedTable::of(&*table) else {
            return Ok(None);
        };
        let schema = TableProvider::schema(sharded);
        let column = |name: &str| -> Result<(String, DataType)> {
            let field = schema.field_with_name(name)?;
            Ok((name.to_owned(), field.data_type().clone()))
        };
        let fields = scan.projected_schema.fields().iter();
        let mut columns = fields
            .map(|field| column(field.name()))
            .collect::<Result<Vec<_>>>()?;
        let kept = columns.len();
        for filter in &scan.filters {
            for read in filter.column_refs() {
                if !columns.iter().any(|(name, _)| *name == read.name) {
                    columns.push(column(&read.name)?);
                }
            }
        }
        let mut steps = Vec::new();
        let named = |name: &str| Expr::Column(Column::new(Some(scan.table_name.clone()), name));
        let filters = scan.filters.iter().map(|f| qualified(f.clone(), scan));
        if let Some(all) = conjunction(filters.collect::<Result<Vec<_>>>()?) {
            steps.push(FragmentStep::Filter(all));
            if columns.len() > kept {
                let shown = columns.iter().take(kept);
                steps.push(FragmentStep::Project(
                    shown.map(|(name, _)| named(name)).collect(),
                ));
            }
        }
        steps.extend(scan.fetch.map(FragmentStep::Limit));
        Ok(Some(Self {
            fragment: Fragment {
                stream: sharded.name.clone(),
                relation: scan.table_name.clone(),
                columns,
                steps,
                hints: sharded.hints.clone(),
            },
            table: Arc::clone(&table),
            schema: Arc::clone(&scan.projected_schema),
            is_limited: scan.fetch.is_some(),
        }))
    }

    /// Returns the plan of the fragment over no rows, for its columns.
    fn with_steps(&self) -> Result<LogicalPlan> {
        let fields = self.fragment.columns.iter();
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let source = provider_as_source(Arc::new(EmptyTable::new(schema)));
        let rows = LogicalPlanBuilder::scan(self.fragment.relation.clone(), source, None)?;
        self.fragment.plan(rows.build()?)
    }
}

/// Returns a filter of a scan with the name of the table at its columns.
fn qualified(filter: Expr, scan: &TableScan) -> Result<Expr> {
    let named = filter.transform_up(|expr| {
        Ok(match expr {
            Expr::Column(column) if column.relation.is_none() => {
                let relation = Some(scan.table_name.clone());
                Transformed::yes(Expr::Column(Column::new(relation, column.name)))
            }
            other => Transformed::no(other),
        })
    });
    named.map(|t| t.data)
}
