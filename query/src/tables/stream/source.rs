//! Recognises a plan that reads the rows of one stream, and rewrites the expressions above its
//! scan to the stream's own columns.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::{TableProvider, source_as_provider};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use storage::TIME;

use super::StreamTable;
use super::prune::{TimeRange, time_range};

/// Rows of a stream that pass some filters.
pub(crate) struct StreamSource {
    provider: Arc<dyn TableProvider>,
    /// Requested times.
    pub(crate) range: TimeRange,
    /// Other conditions on rows, over the stream's columns.
    pub(crate) predicates: Vec<Expr>,
    /// Expression behind each column of the input, over the stream's columns.
    columns: HashMap<Column, Expr>,
}

impl StreamSource {
    /// Returns the source of a plan; `None` unless the plan reads the rows of one stream, each by
    /// itself.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<Self> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source).ok()?;
                stream_table(&*provider)?;
                if scan.fetch.is_some() {
                    return None;
                }
                let mut source = Self {
                    provider,
                    range: TimeRange::ALL,
                    predicates: Vec::new(),
                    columns: by_position(&scan.projected_schema, |nth| {
                        plain(scan.projected_schema.field(nth).name())
                    }),
                };
                for filter in &scan.filters {
                    source.restrict(bare(filter)?);
                }
                Some(source)
            }
            LogicalPlan::Projection(projection) => {
                let mut source = Self::of(&projection.input)?;
                let exprs = projection.expr.iter();
                let exprs: Vec<Expr> = exprs.map(|e| source.resolve(e)).collect::<Option<_>>()?;
                source.columns = by_position(&projection.schema, |nth| exprs[nth].clone());
                Some(source)
            }
            LogicalPlan::Filter(filter) => {
                let mut source = Self::of(&filter.input)?;
                for term in split_conjunction(&filter.predicate) {
                    source.restrict(source.resolve(term)?);
                }
                Some(source)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let mut source = Self::of(&alias.input)?;
                let inner = alias.input.schema();
                let columns: Option<Vec<Expr>> = (0..inner.fields().len())
                    .map(|nth| {
                        let column = Column::from(inner.qualified_field(nth));
                        source.columns.get(&column).cloned()
                    })
                    .collect();
                let columns = columns?;
                source.columns = by_position(&alias.schema, |nth| columns[nth].clone());
                Some(source)
            }
            _ => None,
        }
    }

    /// Returns the table of the stream.
    pub(crate) fn table(&self) -> &StreamTable {
        stream_table(&*self.provider).expect("BUG: it was one when this was made")
    }

    /// Rewrites an expression over the input's columns, without its alias, to the stream's own
    /// columns. `None` if it reads another plan or is volatile.
    pub(crate) fn resolve(&self, expr: &Expr) -> Option<Expr> {
        let expr = expr.clone().unalias();
        if expr.is_volatile() || expr.contains_outer() || has_subquery(&expr) {
            return None;
        }
        let mut known = true;
        let resolved = expr.transform_up(|e| {
            Ok(match e {
                Expr::Column(column) => match self.columns.get(&column) {
                    Some(expr) => Transformed::yes(expr.clone()),
                    None => {
                        known = false;
                        Transformed::no(Expr::Column(column))
                    }
                },
                Expr::Alias(alias) => Transformed::yes(*alias.expr),
                other => Transformed::no(other),
            })
        });
        resolved.ok().filter(|_| known).map(|t| t.data)
    }

    fn restrict(&mut self, predicate: Expr) {
        match time_range(&predicate, TIME) {
            Some(range) => self.range = self.range.intersect(range),
            None => self.predicates.push(predicate),
        }
    }
}

/// Returns a column without a qualifier.
pub(crate) fn plain(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

/// Checks whether an operator compares two values by their order.
pub(crate) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Returns the stream table behind a provider; `None` for other tables.
pub(crate) fn stream_table(provider: &dyn TableProvider) -> Option<&StreamTable> {
    (provider as &dyn Any).downcast_ref()
}

fn by_position(schema: &DFSchema, expr: impl Fn(usize) -> Expr) -> HashMap<Column, Expr> {
    let columns = schema.iter().map(Column::from).enumerate();
    columns.map(|(nth, column)| (column, expr(nth))).collect()
}

/// Removes the qualifiers of all columns.
fn bare(expr: &Expr) -> Option<Expr> {
    let bared = expr.clone().transform_up(|e| {
        Ok(match e {
            Expr::Column(column) => Transformed::yes(plain(&column.name)),
            other => Transformed::no(other),
        })
    });
    bared.ok().map(|t| t.data)
}

fn has_subquery(expr: &Expr) -> bool {
    let found = expr.exists(|e| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::Unnest(_)
        ))
    });
    found.unwrap_or(true)
}

/// Restricts a plan to raw events of its one stream in a time range.
pub(crate) fn within(plan: &LogicalPlan, range: TimeRange) -> Result<LogicalPlan> {
    let within = plan.clone().transform_down(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source)?;
        let table = stream_table(&*provider).expect("BUG: its source is a stream");
        scan.source = table.raw();
        scan.filters
            .extend(range.filter(&Column::new(Some(scan.table_name.clone()), TIME)));
        Ok(Transformed::new(
            LogicalPlan::TableScan(scan),
            true,
            TreeNodeRecursion::Stop,
        ))
    });
    Ok(within?.data)
}
