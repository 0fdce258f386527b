//! Bounds on DataFusion's functions whose result may be far larger than their arguments, or that
//! compare all of one argument with all of another. A call beyond a bound is refused before it
//! begins: its result is not part of the memory that queries get, and nothing stops a call once
//! it runs.

mod joined;
mod patterns;
mod work;

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast_with_options, kernels::length::length};
use arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
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
use crate::functions::sizes::size;
use work::{COMPARING, Work};

/// Largest result of one call for one batch of rows, bytes.
const BYTES_MAX: u64 = 64 << 20;

/// Number of `||` in a statement up to which they are left to DataFusion.
const FEW_JOINS: usize = 4;

/// Size of a function's result for one row, from its arguments as text lengths or integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument (a text or an element), repeated as often as the second one requires.
    Times,
    /// A text of as many characters, or a list of as many elements, as the second argument
    /// requires. Each has this many bytes.
    Padded(u64),
    /// The integers, or the instants, from one argument to another.
    Between,
    /// All arguments concatenated. Two equal arguments double the size each time.
    Together,
    /// The first text with the third one in many places: wherever the second one stands, or at
    /// every byte if a pattern may match the empty text.
    Replaced { by_pattern: bool },
    /// List elements with the second text between them.
    Joined,
    /// One element of each list, for each element of the longest list.
    Zipped,
}

const GROWING: [(&str, Growth); 18] = [
    ("repeat", Growth::Times),
    ("array_repeat", Growth::Times),
    ("array_resize", Growth::Padded(8)),
    ("lpad", Growth::Padded(1)),
    ("rpad", Growth::Padded(1)),
    ("range", Growth::Between),
    ("generate_series", Growth::Between),
    ("concat", Growth::Together),
    ("concat_ws", Growth::Together),
    ("overlay", Growth::Together),
    ("make_array", Growth::Together),
    ("array_append", Growth::Together),
    ("array_prepend", Growth::Together),
    ("array_concat", Growth::Together),
    ("replace", Growth::Replaced { by_pattern: false }),
    ("regexp_replace", Growth::Replaced { by_pattern: true }),
    ("array_to_string", Growth::Joined),
    ("arrays_zip", Growth::Zipped),
];

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
                "{} would make {bytes} bytes of {rows} rows, at most {BYTES_MAX} are made at once; make shorter ones",
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
                "{} would make a constant of {bytes} bytes, at most {most} are computed with; make it shorter",
                self.name()
            );
        }
        Ok(())
    }

    /// Estimates the bytes of `rows` rows of the result; 0 if the arguments are not numbers.
    fn bytes(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<u64> {
        let at = |i: usize| args.args.get(i).map(|arg| numbers(arg, rows)).transpose();
        let sum = |of: &dyn Fn(usize) -> u64| (0..rows).map(of).fold(0, u64::saturating_add);
        let get = |of: &Option<Int64Array>, row: usize, otherwise: i64| match of {
            Some(of) if of.is_valid(row) => of.value(row),
            _ => otherwise,
        };
        let Some(growth) = self.growth else {
            return Ok(0);
        };
        Ok(match growth {
            Growth::Times => {
                let (what, times) = (sizes(args.args.first(), rows)?, at(1)?);
                let all = args.args.first().map_or(0, |arg| bytes(arg, rows));
                let each = (all / rows.max(1) as u64).max(8);
                sum(&|row| {
                    let times = u64::try_from(get(&times, row, 0)).unwrap_or(0);
                    times.saturating_mul(what.as_ref().map_or(each, |w| w[row]))
                })
            }
            Growth::Padded(each) => {
                let length = at(1)?;
                sum(&|row| {
                    let length = u64::try_from(get(&length, row, 0)).unwrap_or(0);
                    length.saturating_mul(each)
                })
            }
            Growth::Between => {
                let (first, second, step) = (at(0)?, at(1)?, at(2)?);
                let given = [&first, &second, &step];
                sum(&|row| {
                    if given.into_iter().flatten().any(|of| of.is_null(row)) {
                        return 0;
                    }
                    let first = get(&first, row, 0);
                    // A single argument is the end of a range from zero.
                    let (from, to) = match &second {
                        None => (0, first),
                        Some(_) => (first, get(&second, row, first)),
                    };
                    let step = get(&step, row, 1);
                    if (step > 0) != (from < to) {
                        return 0;
                    }
                    let count = from.abs_diff(to).div_ceil(step.unsigned_abs().max(1));
                    count.saturating_mul(8)
                })
            }
            Growth::Together => {
                let arrays = args.args.iter().map(|arg| bytes(arg, rows));
                arrays.fold(0, u64::saturating_add)
            }
            Growth::Replaced { by_pattern } => {
                let (what, by) = (
                    sizes(args.args.first(), rows)?,
                    sizes(args.args.get(2), rows)?,
                );
                let of = sizes(args.args.get(1), rows)?;
                let everywhere = !by_pattern || args.args.len() > 3;
                let (Some(what), Some(by), Some(of)) = (what, by, of) else {
                    return Ok(0);
                };
                sum(&|row| {
                    let places = match (everywhere, by_pattern) {
                        (false, _) => 1,
                        (true, true) => what[row] + 1,
                        (true, false) => what[row] / of[row].max(1) + 1,
                    };
                    what[row].saturating_add(places.saturating_mul(by[row]))
                })
            }
            Growth::Joined => {
                let list = args.args.first().map_or(0, |arg| bytes(arg, rows));
                let between = sizes(args.args.get(1), rows)?.unwrap_or_default();
                let longest = between.into_iter().max().unwrap_or(0);
                // An element takes four bytes at least, as an offset or as a value.
                list.saturating_add((list / 4).saturating_mul(longest))
            }
            Growth::Zipped => {
                let lists = args.args.iter().map(|arg| work::lengths(arg, rows));
                let lists = lists.collect::<Result<Vec<_>>>()?;
                let longest = |row: usize| lists.iter().map(|list| list[row]).max();
                let each = 8 * lists.len() as u64;
                sum(&|row| longest(row).unwrap_or(0).saturating_mul(each))
            }
        })
    }
}

/// Returns the bytes of an argument, of all rows together.
fn bytes(arg: &ColumnarValue, rows: usize) -> u64 {
    match arg {
        ColumnarValue::Array(array) => size(array),
        ColumnarValue::Scalar(value) => (value.size() as u64).saturating_mul(rows as u64),
    }
}

/// Converts an argument to integers: instants and intervals to microseconds, other types to null.
fn numbers(arg: &ColumnarValue, rows: usize) -> Result<Int64Array> {
    let mut array = arg.to_array(rows)?;
    let options = CastOptions::default();
    array = match array.data_type() {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            let microseconds = DataType::Timestamp(TimeUnit::Microsecond, None);
            cast_with_options(&array, &microseconds, &options)?
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let spans = array.as_primitive::<IntervalMonthDayNanoType>();
            let days = |v: IntervalMonthDayNano| i64::from(v.months) * 30 + i64::from(v.days);
            let span = |v| days(v) * 86_400_000_000 + v.nanoseconds / 1000;
            return Ok(spans.iter().map(|v| v.map(span)).collect());
        }
        kind if kind.is_integer() => array,
        _ => return Ok(Int64Array::new_null(rows)),
    };
    let cast = cast_with_options(&array, &DataType::Int64, &options)?;
    Ok(cast.as_primitive::<Int64Type>().clone())
}

/// Returns the bytes of a text in each row; `None` for other types.
fn sizes(arg: Option<&ColumnarValue>, rows: usize) -> Result<Option<Vec<u64>>> {
    let Some(arg) = arg else { return Ok(None) };
    // A constant is not expanded to all rows.
    let (array, times) = match arg {
        ColumnarValue::Array(array) => (Arc::clone(array), 1),
        ColumnarValue::Scalar(value) => (value.to_array()?, rows),
    };
    if !array.data_type().is_string() {
        return Ok(None);
    }
    let lengths = length(&*array)?;
    let lengths = cast_with_options(&*lengths, &DataType::Int64, &CastOptions::default())?;
    let lengths = lengths.as_primitive::<Int64Type>();
    let of = |length: Option<i64>| u64::try_from(length.unwrap_or(0)).unwrap_or(0);
    let lengths: Vec<u64> = lengths.iter().map(of).collect();
    Ok(Some(lengths.repeat(times)))
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
