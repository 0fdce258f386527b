//! A question after binding: its columns and parameters are known, no rule has run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::rules;
use crate::error::{Error, Result};
use crate::tables::catalog::Catalog;

/// A question whose names are columns of its snapshot. Its parameters may have no values yet.
pub(crate) struct Bound {
    pub(super) logical: LogicalPlan,
    pub(super) state: SessionState,
    /// The state differs from that of other queries and is not pooled.
    pub(super) is_changed: bool,
    pub(super) catalog: Arc<Catalog>,
    pub(super) top_k: Option<bool>,
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bound").finish_non_exhaustive()
    }
}

impl Bound {
    /// Returns the columns of the answer. Binding alone does not know their types: the analyzer
    /// finds the one type of the branches of a CASE, and the sides of a UNION. It needs types for
    /// parameters too; where the question implies none, the types of binding remain.
    pub(crate) fn schema(&self) -> SchemaRef {
        let analyzed = rules::analyze(self.logical.clone(), &self.state);
        let analyzed = analyzed.as_ref().unwrap_or(&self.logical);
        Arc::clone(analyzed.schema().inner())
    }

    /// Returns the parameters by name (`$1`), each with its type if the question implies one.
    pub(crate) fn parameters(&self) -> Result<BTreeMap<String, Option<DataType>>> {
        let types = parameter_types(&self.logical);
        let types = types.map_err(|e| Error::of(e, Vec::new))?;
        Ok(types.into_iter().collect())
    }
}

/// Returns the parameters of a plan by name, each with its type if the plan implies one. As in
/// PostgreSQL, `LIMIT` and `OFFSET` imply `bigint`, and `x = ANY ($1)` implies an array of the type
/// of `x`; DataFusion says nothing of these.
pub(super) fn parameter_types(
    plan: &LogicalPlan,
) -> datafusion::error::Result<HashMap<String, Option<DataType>>> {
    let mut types = plan.get_parameter_types()?;
    let mut imply = |parameter: &Expr, implied: DataType| {
        if let Expr::Placeholder(parameter) = parameter
            && let Some(of_parameter @ None) = types.get_mut(&parameter.id)
        {
            *of_parameter = Some(implied);
        }
    };
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for bound in [&limit.skip, &limit.fetch].into_iter().flatten() {
                imply(bound, DataType::Int64);
            }
        }
        let mut schema = None;
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr
                    && call.func.name() == "array_has"
                    && let [list @ Expr::Placeholder(_), item] = call.args.as_slice()
                {
                    let schema = schema.get_or_insert_with(|| merge_schema(&node.inputs()));
                    if let Ok(of_item) = item.get_type(schema) {
                        imply(list, DataType::new_list(of_item, true));
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}
