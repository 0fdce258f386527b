//! SQL functions beyond DataFusion's own: `time_bucket`, `attr` and its relatives, `hist_*`,
//! `distinct_*`, parts of URLs and user agents. Also corrected or faster versions of DataFusion's
//! functions, and bounds on functions whose result may be far larger than their arguments.

pub(crate) mod arrays;
pub(crate) mod attr;
#[cfg(test)]
mod classes;
mod date_part;
pub(crate) mod date_trunc;
pub(crate) mod inner;
mod interval_times;
mod limits;
pub(crate) mod log_windows;
pub(crate) mod sizes;
pub(crate) mod states;
mod string_agg;
pub(crate) mod texts;
mod time_bucket;
mod version;
pub(crate) mod zones;

pub(crate) use limits::{compares, grows};
pub(crate) use time_bucket::Width;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{AggregateUDF, LogicalPlan, ScalarUDF};

use crate::plan::checked_sums;

/// Registers the functions in a session. No function makes a constant of more than
/// `longest_constant` bytes.
pub(crate) fn register(state: &mut SessionState, longest_constant: usize) -> Result<()> {
    let mut scalars = vec![ScalarUDF::new_from_impl(time_bucket::TimeBucket::new())];
    scalars.push(ScalarUDF::new_from_impl(version::Version::new()));
    scalars.extend(attr::scalars());
    scalars.extend(states::scalars());
    scalars.extend(texts::scalars());
    for function in scalars {
        state.register_udf(Arc::new(function))?;
    }
    for function in states::aggregates() {
        let function: AggregateUDF = function;
        state.register_udaf(Arc::new(function))?;
    }
    let operators = interval_times::IntervalOperators::new();
    state.register_expr_planner(Arc::new(operators))?;
    date_part::replace(state)?;
    date_trunc::replace(state)?;
    checked_sums::replace(state)?;
    string_agg::tell(state)?;
    limits::cap(state, longest_constant as u64)
}

/// Bounds the results of a statement's own operators, if they may be large. Returns whether the
/// session was changed for it.
pub(crate) fn bound(state: &mut SessionState, plan: &LogicalPlan) -> Result<bool> {
    let is_capped = limits::cap_patterns(state, plan)?;
    Ok(limits::cap_joins(state, plan)? || is_capped)
}

#[cfg(test)]
mod tests;
