//! Windows that would hold, or look at, all of what they are over once for each row.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    Expr, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};

/// Aggregates whose result is as large as all that they were given.
const GATHERING: [&str; 2] = ["array_agg", "string_agg"];
/// Aggregates that look at all of a window again for each row.
const COUNTED_AGAIN: [&str; 4] = [
    "median",
    "percentile_cont",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
];
/// Rows before and after a row that such an aggregate may gather.
const ROWS_MAX: u64 = 1000;

/// Refuses aggregates that gather a window without narrow bounds: there is one result for each row, and
/// together they are as large as the square of the rows. And those that take as long.
///
/// # Errors
/// Naming the aggregate.
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

/// Returns whether a window moves on, and holds all rows from its beginning to the last. Its
/// operator has all of them before the first result, and makes all results at once.
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
