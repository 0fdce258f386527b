//! Turns a statement into a physical plan: changes before, between and after DataFusion's own
//! rules.

pub(crate) mod binder;
pub(crate) mod bound;
pub(crate) mod checked_arithmetic;
pub(crate) mod checked_sums;
pub(crate) mod datafusion_fixes;
pub(crate) mod dialect;
pub(crate) mod distinct_predicate;
pub(crate) mod divide;
pub(crate) mod hints;
pub(crate) mod known_counts;
pub(crate) mod planner;
pub(crate) mod rewrite;
pub(crate) mod rollup_rewrite;
pub(crate) mod rules;
pub(crate) mod session_zone;
pub(crate) mod statement;
pub(crate) mod top_k;
