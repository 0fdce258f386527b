//! DataFusion's functions whose result may be far larger than their arguments, refused before they make
//! it: what a function makes is not in the memory that queries are given.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast_with_options, kernels::length::length};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// What one call may make of one batch of rows, bytes.
const BYTES_MAX: u64 = 64 << 20;

/// What such a function makes of one row: of its arguments as text lengths or whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// A text or an element, so many times.
    Times,
    /// A text of so many characters.
    Padded,
    /// The numbers from one to another.
    Between,
}

const GROWING: [(&str, Growth); 6] = [
    ("repeat", Growth::Times),
    ("array_repeat", Growth::Times),
    ("lpad", Growth::Padded),
    ("rpad", Growth::Padded),
    ("range", Growth::Between),
    ("generate_series", Growth::Between),
];

/// Puts the capped functions in the place of DataFusion's.
pub(super) fn cap(state: &mut SessionState) -> Result<()> {
    for (name, growth) in GROWING {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(Capped { inner, growth })))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Capped {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Capped {
    /// Bytes of the result, at least; nothing where the arguments are no numbers.
    fn bytes(&self, args: &ScalarFunctionArgs) -> Result<u64> {
        let rows = args.number_rows;
        let at = |i: usize| args.args.get(i).map(|arg| numbers(arg, rows)).transpose();
        let sum = |of: &dyn Fn(usize) -> u64| (0..rows).map(of).fold(0, u64::saturating_add);
        let get = |of: &Option<Int64Array>, row: usize, otherwise: i64| match of {
            Some(of) if of.is_valid(row) => of.value(row),
            _ => otherwise,
        };
        Ok(match self.growth {
            Growth::Times => {
                let (what, times) = (sizes(args.args.first(), rows)?, at(1)?);
                sum(&|row| {
                    let times = u64::try_from(get(&times, row, 0)).unwrap_or(0);
                    times.saturating_mul(what.as_ref().map_or(8, |w| w[row]))
                })
            }
            Growth::Padded => {
                let length = at(1)?;
                sum(&|row| u64::try_from(get(&length, row, 0)).unwrap_or(0))
            }
            Growth::Between => {
                let (first, second, step) = (at(0)?, at(1)?, at(2)?);
                sum(&|row| {
                    let first = get(&first, row, 0);
                    // With one argument it counts from zero.
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
        })
    }
}

/// An argument as whole numbers; null where it is none.
fn numbers(arg: &ColumnarValue, rows: usize) -> Result<Int64Array> {
    let array = arg.to_array(rows)?;
    if !array.data_type().is_integer() {
        return Ok(Int64Array::new_null(rows));
    }
    let options = CastOptions::default();
    let cast = cast_with_options(&array, &DataType::Int64, &options)?;
    Ok(cast.as_primitive::<Int64Type>().clone())
}

/// The bytes of a text in each row; nothing of what is no text.
fn sizes(arg: Option<&ColumnarValue>, rows: usize) -> Result<Option<Vec<u64>>> {
    let Some(arg) = arg else { return Ok(None) };
    let array: ArrayRef = arg.to_array(rows)?;
    if !array.data_type().is_string() {
        return Ok(None);
    }
    let lengths = cast_with_options(
        &*length(&*array)?,
        &DataType::Int64,
        &CastOptions::default(),
    )?;
    let lengths = lengths.as_primitive::<Int64Type>();
    let of = |length: Option<i64>| u64::try_from(length.unwrap_or(0)).unwrap_or(0);
    Ok(Some(lengths.iter().map(of).collect()))
}

impl ScalarUDFImpl for Capped {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }
    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }
    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.bytes(&args)?;
        if bytes > BYTES_MAX {
            return exec_err!(
                "{} would make {bytes} bytes of {} rows, at most {BYTES_MAX} are made at once; make shorter ones",
                self.name(),
                args.number_rows
            );
        }
        self.inner.invoke_with_args(args)
    }
}
