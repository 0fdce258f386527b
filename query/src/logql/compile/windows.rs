//! The windows of a range aggregation that an event lies in.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::functions::arrays::over_arrays;
use crate::logql::labels::named;
use crate::logql::matrix::Steps;

/// The windows `(t - offset - range, t - offset]` of every instant `t` of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Windows {
    pub(crate) steps: Steps,
    pub(crate) range_ns: i64,
    pub(crate) offset_ns: i64,
}

impl Windows {
    /// Returns the first and the last instant, in microseconds, of events in any window.
    pub(crate) fn times_us(self) -> (i64, i64) {
        let first = i128::from(self.steps.start_ns) - i128::from(self.offset_ns);
        let first_ns = first - i128::from(self.range_ns);
        let last = i128::from(self.steps.at(self.steps.count - 1)) - i128::from(self.offset_ns);
        (
            limited(first_ns.div_euclid(1000) + 1),
            limited(last.div_euclid(1000)),
        )
    }

    /// Returns the first and the last window that contain an event.
    pub(crate) fn of(self, time_us: i64) -> (i64, i64) {
        let since = i128::from(time_us) * 1000 + i128::from(self.offset_ns)
            - i128::from(self.steps.start_ns);
        let step = i128::from(self.steps.step_ns);
        let ceiling = |ns: i128| -(-ns).div_euclid(step);
        let last = i64::try_from(self.steps.count - 1).unwrap_or(i64::MAX);
        let first = limited(ceiling(since)).max(0);
        let until = limited(ceiling(since + i128::from(self.range_ns)) - 1).min(last);
        (first, until)
    }
}

fn limited(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the number of the first window (or the last one) that contains an event.
pub(crate) fn window_function(windows: Windows, is_last: bool) -> Expr {
    let function = ScalarUDF::new_from_impl(WindowOf {
        windows: (
            windows.steps.start_ns,
            windows.steps.step_ns,
            windows.steps.count,
            windows.range_ns,
            windows.offset_ns,
        ),
        is_last,
        signature: Signature::any(1, Volatility::Immutable),
    });
    function.call(vec![named(storage::TIME)])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowOf {
    windows: (i64, i64, usize, i64, i64),
    is_last: bool,
    signature: Signature,
}

impl ScalarUDFImpl for WindowOf {
    fn name(&self) -> &str {
        if self.is_last {
            "logql_last_window"
        } else {
            "logql_window"
        }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (start_ns, step_ns, count, range_ns, offset_ns) = self.windows;
        let windows = Windows {
            steps: Steps {
                start_ns,
                step_ns,
                count,
            },
            range_ns,
            offset_ns,
        };
        over_arrays(args, |columns| {
            let times = columns[0].as_primitive::<TimestampMicrosecondType>();
            let each = times.values().iter().map(|time| {
                let (first, last) = windows.of(*time);
                if self.is_last { last } else { first }
            });
            let numbers = Int64Array::new(each.collect(), times.nulls().cloned());
            Ok(Arc::new(numbers) as ArrayRef)
        })
    }
}
