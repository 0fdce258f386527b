//! Distinguishes -0 from 0 in sorts of the first rows, which otherwise lose rows of -0.
//!
//! A sort puts -0 before 0. Once it has the required number of rows, it considers only rows that
//! come before the last of them. It selects these by comparisons,
//! `x < 0 OR (x = 0 AND time < …)`, for which -0 and 0 are equal: a row of -0 is lost though it
//! comes before that row of 0. The same happens with `enable_topk_dynamic_filter_pushdown` off,
//! and for rows in memory, because the sort then applies the filter itself.
//!
//! So each key of floats is followed by a key that is less for -0 than for all other values. It
//! depends on the key before it and changes no order. The filter for rows before 0 is now
//! `x < 0 OR (x = 0 AND sign_of_zero(x) < 0) OR …`, of which scans use as much as before.

use std::fmt::{Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{AsArray, Int8Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

/// Physical rule that adds the keys. It has to run when sorts and their limits have their final
/// places, and before the filters of sorts are pushed to scans.
#[derive(Debug)]
pub(super) struct FirstFloats;

impl PhysicalOptimizerRule for FirstFloats {
    fn name(&self) -> &str {
        "first_floats"
    }
    fn schema_check(&self) -> bool {
        true
    }
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            let told_apart = match node.downcast_ref::<SortExec>() {
                Some(sort) => telling_zeros_apart(sort)?,
                None => None,
            };
            Ok(match told_apart {
                Some(sort) => Transformed::yes(Arc::new(sort) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        });
        Ok(plan?.data)
    }
}

/// Returns the same sort of the first rows with more keys, if it has keys of floats.
fn telling_zeros_apart(sort: &SortExec) -> Result<Option<SortExec>> {
    if sort.fetch().is_none() {
        return Ok(None);
    }
    let schema = sort.input().schema();
    let mut keys = Vec::new();
    for key in sort.expr() {
        keys.push(key.clone());
        if key.expr.data_type(&schema)?.is_floating() {
            let expr = Arc::new(SignOfZero(Arc::clone(&key.expr)));
            keys.push(PhysicalSortExpr::new(expr, key.options));
        }
    }
    if keys.len() == sort.expr().len() {
        return Ok(None);
    }
    Ok(LexOrdering::new(keys).map(|keys| {
        SortExec::new(keys, Arc::clone(sort.input()))
            .with_preserve_partitioning(sort.preserve_partitioning())
            .with_fetch(sort.fetch())
    }))
}

/// -1 for -0, 0 for every other number, null for null.
#[derive(Debug, Eq)]
struct SignOfZero(Arc<dyn PhysicalExpr>);

// Derived implementations do not compile (<https://github.com/rust-lang/rust/issues/78808>).
impl PartialEq for SignOfZero {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for SignOfZero {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Display for SignOfZero {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "sign_of_zero({})", self.0)
    }
}

impl PhysicalExpr for SignOfZero {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Int8)
    }
    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.0.nullable(schema)
    }
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let floats = self.0.evaluate(batch)?.into_array(batch.num_rows())?;
        let floats = cast(&floats, &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>();
        let below_zero = (-0.0_f64).to_bits();
        let signs: Int8Array = floats.unary(|x| -i8::from(x.to_bits() == below_zero));
        Ok(ColumnarValue::Array(Arc::new(signs)))
    }
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }
    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(floats) if children.is_empty() => Ok(Arc::new(Self(floats))),
            _ => internal_err!("BUG: the sign of a zero is of one expression"),
        }
    }
    fn fmt_sql(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "sign_of_zero(")?;
        self.0.fmt_sql(f)?;
        write!(f, ")")
    }
}
