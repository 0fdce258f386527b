//! A fragment: the part of a question that one store answers from the rows of one stream, or of one
//! system table.
//!
//! # Invariants
//! * A fragment is a scan and a list of steps, each of which reads the rows of the step before. It
//!   can name a table that the asking account sees and functions of this program, and nothing else:
//!   no file, no subquery (one in an expression is refused when it is decoded). A peer builds its
//!   plan from that list.
//! * The columns of the scan have the types that all stores have agreed upon. A store that lacks a
//!   column has nulls in it. So the same steps lead to the same columns everywhere.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Projection, Sort,
    SortExpr, SubqueryAlias, cast, lit,
};
/// A part of a question, over the rows of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fragment {
    /// The name of the stream.
    pub(crate) stream: String,
    /// The name by which the steps call it.
    pub(crate) relation: TableReference,
    /// The columns that the steps read, with their types.
    pub(crate) columns: Vec<(String, DataType)>,
    pub(crate) steps: Vec<FragmentStep>,
    pub(crate) hints: ReadHints,
}

/// The ways to the rows that the hints of a question leave open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReadHints {
    /// Raw events answer, even where a rollup could.
    pub(crate) no_rollup: bool,
    /// The columns whose indexes may be used; `None` for all.
    pub(crate) indexes: Option<Vec<String>>,
}

/// A step of a fragment, over the rows of the step before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FragmentStep {
    Filter(Expr),
    Project(Vec<Expr>),
    /// Another name for the rows.
    Alias(TableReference),
    Group {
        by: Vec<Expr>,
        aggregates: Vec<Expr>,
    },
    /// The first `fetch` rows in an order.
    First {
        by: Vec<SortExpr>,
        fetch: usize,
    },
    /// Any so many rows.
    Limit(usize),
}

impl Fragment {
    /// Returns the plan of this fragment over the rows of a store's stream.
    pub(crate) fn plan(&self, rows: LogicalPlan) -> Result<LogicalPlan> {
        let agreed = agreed_columns(&self.columns, rows.schema())?;
        let rows = Projection::try_new(agreed, Arc::new(rows))?;
        let rows = LogicalPlan::Projection(rows);
        let named = SubqueryAlias::try_new(Arc::new(rows), self.relation.clone())?;
        let named = LogicalPlan::SubqueryAlias(named);
        let mut steps = self.steps.iter();
        steps.try_fold(named, |plan, step| step.over(plan))
    }
}

/// Returns columns upon which several stores agree, over those that one store has.
pub(crate) fn agreed_columns(
    columns: &[(String, DataType)],
    schema: &DFSchema,
) -> Result<Vec<Expr>> {
    let columns = columns.iter().map(|(name, wanted)| {
        let found = schema.index_of_column_by_name(None, name);
        let value = match found {
            Some(nth) => Expr::Column(Column::from(schema.qualified_field(nth))),
            None => lit(ScalarValue::try_from(wanted)?),
        };
        let value = match value.get_type(schema)? == *wanted {
            true => value,
            false => cast(value, wanted.clone()),
        };
        Ok(value.alias(name))
    });
    columns.collect()
}

impl FragmentStep {
    fn over(&self, rows: LogicalPlan) -> Result<LogicalPlan> {
        let rows = Arc::new(rows);
        Ok(match self {
            Self::Filter(predicate) => {
                LogicalPlan::Filter(Filter::try_new(predicate.clone(), rows)?)
            }
            Self::Project(exprs) => {
                LogicalPlan::Projection(Projection::try_new(exprs.clone(), rows)?)
            }
            Self::Alias(name) => {
                LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(rows, name.clone())?)
            }
            Self::Group { by, aggregates } => {
                LogicalPlan::Aggregate(Aggregate::try_new(rows, by.clone(), aggregates.clone())?)
            }
            Self::First { by, fetch } => LogicalPlan::Sort(Sort {
                expr: by.clone(),
                input: rows,
                fetch: Some(*fetch),
            }),
            Self::Limit(most) => {
                let rows = LogicalPlanBuilder::new_from_arc(rows);
                rows.limit(0, Some(*most))?.build()?
            }
        })
    }

    /// Returns the expressions of the step.
    pub(crate) fn exprs(&self) -> Box<dyn Iterator<Item = &Expr> + '_> {
        match self {
            Self::Filter(predicate) => Box::new(std::iter::once(predicate)),
            Self::Project(exprs) => Box::new(exprs.iter()),
            Self::Group { by, aggregates } => Box::new(by.iter().chain(aggregates)),
            Self::First { by, .. } => Box::new(by.iter().map(|key| &key.expr)),
            Self::Alias(_) | Self::Limit(_) => Box::new(std::iter::empty()),
        }
    }
}

/// Checks that a fragment can contain an expression: it computes its value from the columns of a
/// row alone.
pub(crate) fn is_of_rows(expr: &Expr) -> bool {
    let reads_more = |e: &Expr| {
        Ok(matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::WindowFunction(_)
                | Expr::GroupingSet(_)
                | Expr::Unnest(_)
        ))
    };
    !expr.is_volatile() && !expr.exists(reads_more).unwrap_or(true)
}
