//! Rejects windows for which an operator would hold or read all rows of the window for each row.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    Expr, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};

/// Aggregates whose result is as large as their whole input.
const GATHERING: [&str; 2] = ["array_agg", "string_agg"];
/// Aggregates that read the whole window again for each row.
const COUNTED_AGAIN: [&str; 4] = [
    "median",
    "percentile_cont",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
];
/// Maximum rows before and after a row that such an aggregate may gather.
const ROWS_MAX: u64 = 1000;

/// Rejects aggregates that gather a window without narrow bounds: there is one result for each
/// row, and together the results are as large as the square of the rows. Aggregates that take as
/// much time are rejected too.
///
/// # Errors
/// An error that names the aggregate.
pub(crate) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Window(window) = node else {
            return Ok(TreeNodeRecursion::Continue);
        };
        for expr in &window.window_expr {
            let Expr::WindowFunction(call) = expr.clone().unalias() else {
                continue;
            };
            let WindowFunctionDefinition::AggregateUDF(function) = &call.fun else {
                continue;
            };
            if GATHERING.contains(&function.name()) && !is_narrow(&call.params.window_frame) {
                return plan_err!(
                    "{} over a window makes a result as large as the window for each row; give it at most \
                     {ROWS_MAX} rows on either side (ROWS BETWEEN 9 PRECEDING AND CURRENT ROW), or use GROUP BY",
                    function.name()
                );
            }
            if COUNTED_AGAIN.contains(&function.name()) && ends_with_all(&call.params.window_frame)
            {
                return plan_err!(
                    "{} over a window that ends with the last row looks at all that follows for each row; \
                     end it with CURRENT ROW or at most {ROWS_MAX} rows on",
                    function.name()
                );
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Returns whether a window has a moving start, and holds all rows from there to the last. Its
/// operator reads all of them before the first result, and computes all results at once.
fn ends_with_all(frame: &WindowFrame) -> bool {
    let is_whole = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => by.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    is_whole(&frame.end_bound) && !is_whole(&frame.start_bound)
}

fn is_narrow(frame: &WindowFrame) -> bool {
    let near = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows)))
        | WindowFrameBound::Following(ScalarValue::UInt64(Some(rows))) => *rows <= ROWS_MAX,
        _ => false,
    };
    frame.units == WindowFrameUnits::Rows && near(&frame.start_bound) && near(&frame.end_bound)
}
