//! Chooses the number of rows in a batch: fewer, where operators produce much from each row.
//!
//! An operator cannot be stopped while it processes a batch, and memory for its output is counted
//! only once the output exists. So the output of one batch has to be small, for all of its
//! columns together.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan};

use crate::functions;

/// Maximum functions with long texts or lists, and maximum grouping sets, for which whole batches
/// are small enough.
const FEW: usize = 4;
/// Minimum rows that are worth a batch.
const ROWS_MIN: usize = 16;
/// Maximum memory for a constant in one batch: bytes, and the divisor of the memory for queries.
const CONSTANT_BYTES: usize = 16 << 20;
const CONSTANT_SHARE: usize = 128;
/// Maximum memory for one constant: the divisor of the memory for queries.
const CONSTANT_MAX_SHARE: usize = 32;

/// Factors by which a plan expands one row.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RowExpansion {
    /// Bytes of the longest constant: wherever a constant meets rows, there is one copy for each
    /// row.
    constant: usize,
    /// Number of calls of functions whose result may be far larger than their arguments.
    growing: usize,
    /// Maximum grouping sets of one aggregate, which processes each row once for every set.
    sets: usize,
}

/// Returns the maximum length of a constant in a computation, bytes.
pub(crate) fn longest_constant(memory_bytes: usize) -> usize {
    CONSTANT_BYTES.min(memory_bytes / CONSTANT_MAX_SHARE)
}

impl RowExpansion {
    pub(crate) fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut steps = Self::default();
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Aggregate(Aggregate { group_expr, .. }) = node
                && let [Expr::GroupingSet(set)] = group_expr.as_slice()
            {
                steps.sets = steps.sets.max(sets(set));
            }
            node.apply_expressions(|root| {
                root.apply(|expr| {
                    match expr {
                        Expr::Literal(value, _) => {
                            steps.constant = steps.constant.max(value.size())
                        }
                        other => steps.growing += usize::from(functions::grows(other)),
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(steps)
    }

    /// Returns the bytes of the longest constant.
    pub(crate) fn constant(&self) -> usize {
        self.constant
    }

    /// Returns the rows of a batch, where whole batches have `whole`.
    pub(crate) fn rows(&self, whole: usize, memory_bytes: usize) -> usize {
        let together = CONSTANT_BYTES.min(memory_bytes / CONSTANT_SHARE);
        let times = self.growing.max(self.sets).max(FEW);
        let rows = (whole * FEW / times).max(ROWS_MIN).min(whole);
        // Each row has one copy of the constant for every function that uses it.
        let constants = self.constant.max(1) * self.growing.max(FEW) / FEW;
        rows.min(together / constants).max(1)
    }
}

fn sets(set: &GroupingSet) -> usize {
    match set {
        GroupingSet::Rollup(exprs) => exprs.len() + 1,
        GroupingSet::Cube(exprs) => 1 << exprs.len().min(30),
        GroupingSet::GroupingSets(sets) => sets.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    #[test]
    fn what_is_made_of_a_batch_is_about_as_much_however_much_is_made_of_a_row() {
        let of = |constant, growing, sets| RowExpansion {
            constant,
            growing,
            sets,
        };
        assert_eq!(of(20, 0, 0).rows(8192, GIB), 8192);
        assert_eq!(of(20, 4, 4).rows(8192, GIB), 8192);
        assert_eq!(of(20, 600, 0).rows(8192, GIB), 54);
        assert_eq!(of(20, 0, 1024).rows(8192, GIB), 32);
        assert_eq!(of(20, 0, 1 << 20).rows(8192, GIB), ROWS_MIN);
        assert_eq!(of(7000, 300, 0).rows(8192, GIB / 4), 3);
        assert_eq!(of(1 << 20, 600, 0).rows(8192, GIB), 1);
        assert_eq!(of(1 << 20, 0, 0).rows(8192, GIB), 8);
        assert_eq!(of(100 << 20, 0, 0).rows(8192, GIB), 1);
        assert_eq!(of(20, 600, 0).rows(3, GIB), 3);
    }
}
