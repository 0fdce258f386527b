//! Bounds on DataFusion's functions whose result may be far larger than their arguments, or that
//! compare all of one argument with all of another. A call beyond a bound is refused before it
//! begins: its result is not part of the memory that queries get, and nothing stops a call once
//! it runs.

mod growth;
mod joined;
mod patterns;
mod work;

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::inner::scalar_as_inner;
use growth::{GROWING, Growth};
use work::{COMPARING, Work};

/// Largest result of one call for one batch of rows, bytes.
const BYTES_MAX: u64 = 64 << 20;

/// Number of `||` in a statement up to which they are left to DataFusion.
const FEW_JOINS: usize = 4;

/// Replaces DataFusion's functions by capped ones.
pub(super) fn cap(state: &mut SessionState, longest_constant: u64) -> Result<()> {
    let mut names: Vec<&str> = GROWING.iter().map(|(name, _)| *name).collect();
    names.extend(COMPARING.iter().map(|(name, _)| *name));
    names.sort_unstable();
    names.dedup();
    for name in names {
        let capped = LimitedFunction {
            inner: state.udf(name)?,
            growth: of(&GROWING, name),
            work: of(&COMPARING, name),
            longest_constant,
        };
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(capped)))?;
    }
    Ok(())
}

fn of<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let (_, found) = table.iter().find(|(known, _)| *known == name)?;
    Some(*found)
}

/// Caps the operators that match patterns too, if one of them in the plan is expensive. Returns
/// whether it did.
pub(super) fn cap_patterns(state: &mut SessionState, plan: &LogicalPlan) -> Result<bool> {
    let mut is_heavy = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|root| {
            root.apply(|expr| {
                is_heavy |= patterns::is_heavy(expr);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if is_heavy {
        let regexp_like = state.udf("regexp_like")?;
        state.register_function_rewrite(Arc::new(patterns::ByFunction { regexp_like }))?;
    }
    Ok(is_heavy)
}

/// Caps `||` too, if its results in the plan may be large. A few of them, without any other
/// function that grows, at most double their input that many times, and are not capped. Returns
/// whether it did.
pub(super) fn cap_joins(state: &mut SessionState, plan: &LogicalPlan) -> Result<bool> {
    let (mut joins, mut growing) = (0, false);
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|root| {
            root.apply(|expr| {
                if is_join(expr) {
                    joins += 1;
                } else {
                    growing |= grows(expr);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if joins == 0 || (joins <= FEW_JOINS && !growing) {
        return Ok(false);
    }
    let inner = Arc::new(ScalarUDF::new_from_impl(joined::Join::new()));
    let capped = LimitedFunction {
        inner,
        growth: Some(Growth::Together),
        work: None,
        longest_constant: BYTES_MAX,
    };
    let join = Arc::new(ScalarUDF::new_from_impl(capped));
    state.register_function_rewrite(Arc::new(joined::ByFunction(join)))?;
    Ok(true)
}

/// Checks whether the result of an expression may be far larger than its arguments.
pub(crate) fn grows(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            let name = call.name();
            name == joined::NAME || GROWING.iter().any(|(growing, _)| *growing == name)
        }
        other => is_join(other),
    }
}

/// Checks whether an expression compares all of one argument with all of another one that is not
/// a constant.
pub(crate) fn compares(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() else {
        return false;
    };
    let name = call.fun().name();
    let is_known = patterns::NAMES.contains(&name) || of(&COMPARING, name).is_some();
    is_known && call.args().get(1).is_some_and(|arg| !arg.is::<Literal>())
}

fn is_join(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedFunction {
    inner: Arc<ScalarUDF>,
    growth: Option<Growth>,
    work: Option<Work>,
    /// Largest result of a call with constants alone, which runs before the plan does, bytes.
    longest_constant: u64,
}

impl LimitedFunction {
    fn check(&self, bytes: u64, rows: usize) -> Result<()> {
        if bytes > BYTES_MAX {
            return exec_err!(
                "{} would produce {bytes} bytes for {rows} rows; the limit is {BYTES_MAX}; produce shorter values",
                self.name()
            );
        }
        Ok(())
    }

    /// Refuses a large constant, since a constant is copied each time the plan is.
    fn check_constant(&self, bytes: u64) -> Result<()> {
        let most = self.longest_constant;
        if bytes > most {
            return exec_err!(
                "{} would produce a constant of {bytes} bytes; the limit is {most}; make it shorter",
                self.name()
            );
        }
        Ok(())
    }

    /// Estimates the bytes of `rows` rows of the result.
    fn bytes(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<u64> {
        match self.growth {
            Some(growth) => growth.bytes(&args.args, rows),
            None => Ok(0),
        }
    }
}

impl ScalarUDFImpl for LimitedFunction {
    scalar_as_inner!();

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // DataFusion would turn the call into an operator, which has no bound.
        if self.work == Some(Work::Pattern)
            && args
                .get(1)
                .is_some_and(|pattern| !patterns::is_light(pattern, patterns::weight))
        {
            return Ok(ExprSimplifyResult::Original(args));
        }
        // DataFusion concatenates constants here, before any call.
        if self.growth == Some(Growth::Together) {
            let sizes = args.iter().map(|arg| match arg {
                Expr::Literal(value, _) => value.size() as u64,
                _ => 0,
            });
            self.check(sizes.fold(0, u64::saturating_add), 1)?;
        }
        self.inner.simplify(args, info)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(work) = self.work {
            work.check(self.name(), &args)?;
        }
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        if args.args.iter().all(is_constant) {
            // The result is computed once for all rows.
            self.check_constant(self.bytes(&args, 1)?)?;
        } else {
            self.check(self.bytes(&args, args.number_rows)?, args.number_rows)?;
        }
        self.inner.invoke_with_args(args)
    }
}

/// Lists for the test that classifies all functions.
#[cfg(test)]
pub(super) mod tests_only {
    use super::{COMPARING, GROWING};

    pub(in crate::functions) fn growing() -> Vec<&'static str> {
        GROWING.iter().map(|(name, _)| *name).collect()
    }

    pub(in crate::functions) fn comparing() -> Vec<&'static str> {
        COMPARING.iter().map(|(name, _)| *name).collect()
    }
}
