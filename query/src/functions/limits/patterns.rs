//! Regular expressions and LIKE patterns: estimates of their cost, and the operators that match
//! them as functions, which can be bounded if the pattern is long or is not a constant.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Datum, Scalar};
use arrow::compute::cast;
use arrow::compute::kernels::comparison::{ilike, like};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::{BinaryExpr, Like, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};

use crate::regex_steps::{TEXT_STEPS_MAX, states, steps};

/// Names of LIKE and ILIKE as functions.
pub(super) const NAMES: [&str; 2] = ["LIKE", "ILIKE"];
/// Longest pattern, bytes. One twice as long exceeds, once compiled, the size limit of a regular
/// expression.
const BYTES_MAX: usize = 256 << 10;
/// Patterns up to this weight are left to the operators, which have fast paths for them.
const LIGHT: u64 = 1000;

/// Estimates the number of states of a regular expression. An invalid one counts as 1, and the
/// compiler reports its error.
///
/// # Errors
/// When the pattern is too long to be parsed.
pub(super) fn weight(pattern: &str) -> Result<u64> {
    if pattern.len() > BYTES_MAX {
        return too_long(pattern);
    }
    Ok(regex_syntax::parse(pattern).map_or(1, |hir| states(&hir)))
}

/// Estimates the number of states of a LIKE pattern. With wildcards inside it becomes a regular
/// expression.
fn weight_of_like(pattern: &str) -> Result<u64> {
    if pattern.len() > BYTES_MAX {
        return too_long(pattern);
    }
    let has_inner = pattern.trim_matches('%').contains(['%', '_']);
    Ok(if has_inner { pattern.len() as u64 } else { 1 })
}

fn too_long<T>(pattern: &str) -> Result<T> {
    exec_err!(
        "a pattern has {} bytes; the limit is {BYTES_MAX}",
        pattern.len()
    )
}

/// Checks whether a pattern is a constant of the statement and cheap to match.
pub(super) fn is_light(pattern: &Expr, weight: impl Fn(&str) -> Result<u64>) -> bool {
    match pattern {
        Expr::Literal(
            ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text),
            _,
        ) => match text {
            Some(text) => weight(text).is_ok_and(|weight| weight <= LIGHT),
            None => true,
        },
        // Parameters were replaced by their values before.
        _ => false,
    }
}

/// Checks whether an expression matches a pattern that is long or is not a constant.
pub(super) fn is_heavy(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_match(binary.op) && !is_light(&binary.right, weight),
        Expr::SimilarTo(like) => !is_light(&like.pattern, weight),
        Expr::Like(like) => like.escape_char.is_none() && !is_light(&like.pattern, weight_of_like),
        _ => false,
    }
}

fn is_match(op: Operator) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(
        op,
        RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch
    )
}

/// Replaces the operators that match such patterns by functions.
#[derive(Debug)]
pub(super) struct ByFunction {
    /// `regexp_like`, bounded.
    pub(super) regexp_like: Arc<ScalarUDF>,
}

impl FunctionRewrite for ByFunction {
    fn name(&self) -> &str {
        "patterns as functions"
    }
    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        if !is_heavy(&expr) {
            return Ok(Transformed::no(expr));
        }
        let call = |function: &Arc<ScalarUDF>, args| {
            Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
        };
        let (matches, is_negated) = match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                use Operator::{RegexIMatch, RegexNotIMatch, RegexNotMatch};
                let mut args = vec![*left, *right];
                if matches!(op, RegexIMatch | RegexNotIMatch) {
                    args.push(lit("i"));
                }
                let is_negated = matches!(op, RegexNotMatch | RegexNotIMatch);
                (call(&self.regexp_like, args), is_negated)
            }
            Expr::SimilarTo(of) => {
                let mut args = vec![*of.expr, *of.pattern];
                if of.case_insensitive {
                    args.push(lit("i"));
                }
                (call(&self.regexp_like, args), of.negated)
            }
            Expr::Like(Like {
                negated,
                expr,
                pattern,
                case_insensitive,
                ..
            }) => {
                let function = Arc::new(ScalarUDF::new_from_impl(Likes::new(case_insensitive)));
                (call(&function, vec![*expr, *pattern]), negated)
            }
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(match is_negated {
            true => Expr::Not(Box::new(matches)),
            false => matches,
        }))
    }
}

/// `LIKE` or `ILIKE` as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Likes {
    signature: Signature,
    is_case_insensitive: bool,
}

impl Likes {
    fn new(is_case_insensitive: bool) -> Self {
        Self {
            signature: Signature::string(2, Volatility::Immutable),
            is_case_insensitive,
        }
    }
}

impl ScalarUDFImpl for Likes {
    fn name(&self) -> &str {
        NAMES[usize::from(self.is_case_insensitive)]
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, patterns] = args.args.as_slice() else {
            return exec_err!("{} takes a text and a pattern", self.name());
        };
        let (texts, patterns) = (Texts::of(texts)?, Texts::of(patterns)?);
        let is_one = texts.is_one && patterns.is_one;
        for row in 0..if is_one { 1 } else { args.number_rows } {
            let weight = weight_of_like(patterns.at(row))?;
            let steps = steps(weight, texts.at(row).len());
            if steps > TEXT_STEPS_MAX {
                return exec_err!(
                    "{} would take {steps} steps for one row; the limit is {TEXT_STEPS_MAX}; \
                     make its pattern shorter",
                    self.name()
                );
            }
        }
        let matches = match self.is_case_insensitive {
            true => ilike(&*texts.datum(), &*patterns.datum())?,
            false => like(&*texts.datum(), &*patterns.datum())?,
        };
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&matches, 0)?),
            false => ColumnarValue::Array(Arc::new(matches)),
        })
    }
}

/// A text for each row, or one constant, which is not expanded to all rows.
struct Texts {
    array: ArrayRef,
    is_one: bool,
}

impl Texts {
    fn of(arg: &ColumnarValue) -> Result<Self> {
        let (array, is_one) = match arg {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        let array = cast(&array, &DataType::Utf8View)?;
        Ok(Self { array, is_one })
    }

    fn at(&self, row: usize) -> &str {
        let row = if self.is_one { 0 } else { row };
        match self.array.is_valid(row) {
            true => self.array.as_string_view().value(row),
            false => "",
        }
    }

    fn datum(&self) -> Box<dyn Datum> {
        match self.is_one {
            true => Box::new(Scalar::new(Arc::clone(&self.array))),
            false => Box::new(Arc::clone(&self.array)),
        }
    }
}
