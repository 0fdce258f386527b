//! Classifies every function that a statement can name by the cost of a call. Nothing stops a
//! call. So a function is bounded in `limits.rs`, and listed there, if its time or its result is
//! more than about linear in the length of its arguments.
//!
//! A function that a new DataFusion adds is in no list, and the test fails until it has been
//! reviewed.

use std::collections::BTreeSet;

use crate::functions::limits::tests_only::{comparing, growing};
use crate::{Engine, EngineOptions};

/// Scalar functions that read each byte or element of their arguments a few times, or sort them,
/// and whose result is at most some twenty times as large.
const LINEAR: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "array_add",
    "array_any_value",
    "array_avg",
    "array_compact",
    "array_dims",
    "array_distance",
    "array_distinct",
    "array_element",
    "array_except",
    "array_has",
    "array_intersect",
    "array_length",
    "array_max",
    "array_min",
    "array_ndims",
    "array_normalize",
    "array_pop_back",
    "array_pop_front",
    "array_position",
    "array_positions",
    "array_product",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_reverse",
    "array_scale",
    "array_slice",
    "array_sort",
    "array_subtract",
    "array_sum",
    "array_union",
    "arrow_cast",
    "arrow_field",
    "arrow_metadata",
    "arrow_try_cast",
    "arrow_typeof",
    "ascii",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "attr",
    "attr_fields",
    "attr_json",
    "attr_names",
    "attr_type",
    "bit_length",
    "cardinality",
    "cast_to_type",
    "cbrt",
    "ceil",
    "character_length",
    "chr",
    "coalesce",
    "contains",
    "cos",
    "cosh",
    "cosine_distance",
    "cot",
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "decode",
    "degrees",
    "distinct_count",
    "empty",
    "encode",
    "ends_with",
    "exp",
    "factorial",
    "file_row_index",
    "find_in_set",
    "flatten",
    "floor",
    "from_unixtime",
    "gcd",
    "get_field",
    "greatest",
    "hist_count",
    "hist_max",
    "hist_mean",
    "hist_min",
    "hist_overflow",
    "hist_quantile",
    "hist_sum",
    "initcap",
    "inner_product",
    "input_file_name",
    "isnan",
    "iszero",
    "lcm",
    "least",
    "left",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "make_date",
    "make_time",
    "map",
    "map_entries",
    "map_extract",
    "map_keys",
    "map_values",
    "named_struct",
    "nanvl",
    "now",
    "nullif",
    "nvl",
    "nvl2",
    "octet_length",
    "path_prefix",
    "pi",
    "power",
    "radians",
    "random",
    "reverse",
    "right",
    "round",
    "signum",
    "sin",
    "sinh",
    "split_part",
    "sqrt",
    "starts_with",
    "string_to_array",
    "struct",
    "substr",
    "substr_index",
    "tan",
    "tanh",
    "time_bucket",
    "to_char",
    "to_date",
    "to_hex",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    "translate",
    "trunc",
    "try_cast_to_type",
    "union_extract",
    "union_tag",
    "upper",
    "url_decode",
    "url_extract_fragment",
    "url_extract_host",
    "url_extract_parameter",
    "url_extract_path",
    "url_extract_protocol",
    "url_extract_query",
    "user_agent_category",
    "user_agent_family",
    "user_agent_os",
    "user_agent_os_version",
    "user_agent_version",
    "uuid",
    "version",
    "with_metadata",
];

/// Aggregates whose state for a group is small, or is the group's input. `run/limits/windows.rs`
/// restricts the windows of the latter.
const AGGREGATES: &[&str] = &[
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "distinct_merge",
    "first_value",
    "grouping",
    "hist_merge",
    "last_value",
    "max",
    "median",
    "min",
    "nth_value",
    "percentile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "string_agg",
    "sum",
    "var",
    "var_pop",
];

/// Window functions: the cost of each row is in proportion to its size.
const WINDOWS: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// Table functions, which make their rows batch by batch.
const TABLES: &[&str] = &["generate_series", "range"];

/// Functions that take a function as an argument. The dialect has no syntax for one.
const HIGHER_ORDER: &[&str] = &[
    "array_any_match",
    "array_filter",
    "array_first",
    "array_transform",
];

fn classified(kind: &str, registered: BTreeSet<String>, lists: &[&[&str]]) {
    let mut known = BTreeSet::new();
    for name in lists.iter().flat_map(|list| list.iter()) {
        assert!(known.insert((*name).to_owned()), "{name} is in two lists");
    }
    let new: Vec<_> = registered.difference(&known).collect();
    let gone: Vec<_> = known.difference(&registered).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "{kind}: not listed: {new:?}; listed but missing: {gone:?}"
    );
}

#[test]
fn every_function_is_classified_by_what_a_call_costs() {
    let engine = Engine::new(EngineOptions::default()).expect("starts");
    let state = engine.state();
    let scalars = state.scalar_functions().values();
    let scalars = scalars.map(|function| function.name().to_owned()).collect();
    let comparing: Vec<&str> = comparing()
        .into_iter()
        .filter(|name| !growing().contains(name))
        .collect();
    classified(
        "scalar functions",
        scalars,
        &[LINEAR, &growing(), &comparing],
    );
    let aggregates = state.aggregate_functions().values();
    let aggregates = aggregates.map(|function| function.name().to_owned());
    classified("aggregates", aggregates.collect(), &[AGGREGATES]);
    let windows = state.window_functions().values();
    let windows = windows.map(|function| function.name().to_owned());
    classified("window functions", windows.collect(), &[WINDOWS]);
    let tables = state.table_functions().keys().cloned();
    classified("table functions", tables.collect(), &[TABLES]);
    let higher = state.higher_order_functions().values();
    let higher = higher.map(|function| function.name().to_owned());
    classified("functions of functions", higher.collect(), &[HIGHER_ORDER]);
}
