//! Evaluates conditions on one text column once for each distinct value instead of once for each
//! row.
//!
//! A part stores each distinct value of a column once, and the scan returns a view of its value
//! for each row: rows of the same value have the same view. So patterns are matched against a
//! day's few hundred user agents, not against its million rows.
//!
//! # Invariants
//! * The same rows pass. Two different views may hold the same text, but equal views never hold
//!   different texts.
//! * Only conditions with expensive functions or patterns are evaluated this way. Statistics
//!   prune nothing by such conditions anyway.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Filter, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::prelude::col;
use hashbrown::HashMap;

use crate::tables::stream::source::{StreamSource, is_comparison};

/// Name of the text column in a rewritten condition.
const VALUE: &str = "value";
/// Functions of a text that may occur in a rewritten condition. Each of them makes it expensive.
const FUNCTIONS: [&str; 8] = [
    "lower",
    "upper",
    "contains",
    "starts_with",
    "ends_with",
    "strpos",
    "regexp_like",
    "character_length",
];
/// Rows after which the evaluation checks whether values repeat.
const TRIED: usize = 1024;

/// Optimizer rule that evaluates such conditions once for each value.
#[derive(Debug)]
pub(crate) struct DistinctPredicate {
    /// Checks whether the rows of a plan have one view for each value.
    shares_views: fn(&LogicalPlan) -> bool,
}

impl DistinctPredicate {
    /// Creates the rule for filters over the rows of a stream.
    pub(crate) fn of_streams() -> Self {
        Self {
            shares_views: |plan| StreamSource::of(plan).is_some(),
        }
    }
}

impl OptimizerRule for DistinctPredicate {
    fn name(&self) -> &'static str {
        "each_value_once"
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let filter = match plan {
            LogicalPlan::Filter(filter) if (self.shares_views)(&filter.input) => filter,
            other => return Ok(Transformed::no(other)),
        };
        let schema = Arc::clone(filter.input.schema());
        let mut is_changed = false;
        let terms = split_conjunction_owned(filter.predicate.clone());
        let terms = terms.into_iter().map(|term| match once(&term, &schema) {
            Some(once) => {
                is_changed = true;
                once
            }
            None => term,
        });
        let predicate = conjunction(terms.collect::<Vec<_>>());
        match predicate.filter(|_| is_changed) {
            Some(predicate) => Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(
                predicate,
                filter.input,
            )?))),
            None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        }
    }
}

/// Returns the same condition, evaluated once for each value; `None` when it is not of that kind.
fn once(term: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (mut is_dear, mut is_known) = (false, true);
    let walked = term.apply(|expr| {
        match expr {
            Expr::Like(like) => is_dear |= like.case_insensitive || !begins(&like.pattern),
            Expr::BinaryExpr(BinaryExpr { op, .. }) => match op {
                Operator::RegexMatch
                | Operator::RegexIMatch
                | Operator::RegexNotMatch
                | Operator::RegexNotIMatch => is_dear = true,
                Operator::And | Operator::Or => {}
                op => is_known &= is_comparison(*op),
            },
            Expr::ScalarFunction(call) => {
                is_dear = true;
                is_known &= FUNCTIONS.contains(&call.name());
            }
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::InList(_) => {}
            _ => is_known = false,
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.ok().filter(|_| is_dear && is_known)?;
    let columns = term.column_refs();
    let mut columns = columns.into_iter();
    let (Some(column), None) = (columns.next(), columns.next()) else {
        return None;
    };
    let text = Expr::Column(column.clone());
    if text.get_type(schema).ok()? != DataType::Utf8View
        || term.get_type(schema).ok()? != DataType::Boolean
    {
        return None;
    }
    let of_value = term.clone().transform(|expr| {
        Ok(match expr {
            Expr::Column(_) => Transformed::yes(col(VALUE)),
            other => Transformed::no(other),
        })
    });
    let each = PerDistinctValue {
        signature: Signature::exact(vec![DataType::Utf8View], Volatility::Immutable),
        condition: of_value.ok()?.data,
        compiled: OnceLock::new(),
    };
    Some(ScalarUDF::new_from_impl(each).call(vec![text]))
}

/// Returns whether a pattern fixes the beginning of a text: statistics prune pages by that.
fn begins(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(value, _) => {
            let text = value.try_as_str().flatten();
            text.is_some_and(|text| !text.starts_with(['%', '_']))
        }
        _ => false,
    }
}

/// A condition on a text, as a function of that text.
#[derive(Debug)]
struct PerDistinctValue {
    signature: Signature,
    /// Condition over the column [`VALUE`].
    condition: Expr,
    compiled: OnceLock<(Arc<Schema>, Arc<dyn PhysicalExpr>)>,
}

impl PartialEq for PerDistinctValue {
    fn eq(&self, other: &Self) -> bool {
        self.condition == other.condition
    }
}

impl Eq for PerDistinctValue {}

impl Hash for PerDistinctValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl PerDistinctValue {
    fn evaluate(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let (schema, compiled) = match self.compiled.get() {
            Some(compiled) => compiled,
            None => {
                let field = Field::new(VALUE, DataType::Utf8View, true);
                let schema = Arc::new(Schema::new(vec![field]));
                let compiled = create_physical_expr(
                    &self.condition,
                    &DFSchema::try_from(Arc::clone(&schema))?,
                    &ExecutionProps::new(),
                    &PhysicalPlanningContext::default(),
                )?;
                self.compiled.get_or_init(|| (schema, compiled))
            }
        };
        let batch = RecordBatch::try_new(Arc::clone(schema), vec![Arc::clone(values)])?;
        compiled.evaluate(&batch)?.into_array(values.len())
    }
}

impl ScalarUDFImpl for PerDistinctValue {
    fn name(&self) -> &'static str {
        "each_value"
    }
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.schema_name(args)
    }
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let texts = args.iter().map(ToString::to_string).collect::<Vec<_>>();
        Ok(format!(
            "each_value({}: {})",
            texts.join(", "),
            self.condition
        ))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&args.args)?.remove(0);
        let passed = match different(values.as_string_view()) {
            Some((places, values_of_rows)) => {
                let passed = self.evaluate(&take(&values, &places, None)?)?;
                take(&passed, &values_of_rows, None)?
            }
            None => self.evaluate(&values)?,
        };
        Ok(ColumnarValue::Array(passed))
    }
}

/// Returns one row of each distinct view, and for each row the position of its view among these;
/// `None` when most rows differ.
fn different(values: &StringViewArray) -> Option<(UInt32Array, UInt32Array)> {
    let mut known: HashMap<Option<u128>, u32> = HashMap::new();
    let mut places = Vec::new();
    let mut values_of_rows = Vec::with_capacity(values.len());
    for (row, view) in values.views().iter().enumerate() {
        let view = values.is_valid(row).then_some(*view);
        let nth = *known.entry(view).or_insert_with(|| {
            places.push(row as u32);
            places.len() as u32 - 1
        });
        values_of_rows.push(nth);
        if row + 1 == TRIED && places.len() > TRIED / 2 {
            return None;
        }
    }
    Some((places.into(), values_of_rows.into()))
}

#[cfg(test)]
mod tests;
