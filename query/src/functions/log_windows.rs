//! The windows of a range aggregation of LogQL, as functions of the time of an event.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arrays::over_arrays;

/// The windows `(t - offset - range, t - offset]` of the instants `t` of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Windows {
    /// The first instant, nanoseconds since 1970.
    pub(crate) start_ns: i64,
    /// The distance of two instants, nanoseconds; at least 1.
    pub(crate) step_ns: i64,
    /// The number of instants.
    pub(crate) count: usize,
    /// The length of a window, nanoseconds.
    pub(crate) range_ns: i64,
    /// The distance from the end of a window to its instant, nanoseconds.
    pub(crate) offset_ns: i64,
}

impl Windows {
    /// Returns the first and the last instant, in microseconds, of events in any window.
    pub(crate) fn times_us(self) -> (i64, i64) {
        let start = i128::from(self.start_ns) - i128::from(self.offset_ns);
        let first_ns = start - i128::from(self.range_ns);
        let last = start + i128::from(self.count() - 1) * i128::from(self.step_ns);
        (
            limited(first_ns.div_euclid(1000) + 1),
            limited(last.div_euclid(1000)),
        )
    }

    /// Returns the first window that contains an event, or one behind the last of all windows.
    fn first(self, time_us: i64) -> i64 {
        self.steps_until(time_us, 0).clamp(0, self.count())
    }

    /// Returns the last window that contains an event, or -1.
    fn last(self, time_us: i64) -> i64 {
        self.steps_until(time_us, self.range_ns)
            .clamp(0, self.count())
            - 1
    }

    fn count(self) -> i64 {
        i64::try_from(self.count).unwrap_or(i64::MAX)
    }

    /// Returns the instants at which [`Windows::first`] or [`Windows::last`] changes, microseconds
    /// since 1970: an event on the end of a window is in it, and one after that is not.
    fn changes(self, is_last: bool) -> Vec<i64> {
        let before_ns =
            i128::from(self.offset_ns) + i128::from(if is_last { self.range_ns } else { 0 });
        let ends = (0..self.count as i128).map(|nth| {
            let at_ns = i128::from(self.start_ns) + nth * i128::from(self.step_ns);
            (at_ns - before_ns).div_euclid(1000) + 1
        });
        // No event has a time beyond 64 bits.
        ends.filter_map(|at_us| i64::try_from(at_us).ok()).collect()
    }

    /// Returns how many steps after the first instant the first instant at or after
    /// `time + offset + later_ns` is.
    fn steps_until(self, time_us: i64, later_ns: i64) -> i64 {
        // A division of 128 bits takes several times as long, and each event needs one or two.
        let narrow = || {
            let ns = time_us.checked_mul(1000)?.checked_add(self.offset_ns)?;
            let since_ns = ns.checked_sub(self.start_ns)?.checked_add(later_ns)?;
            Some(-since_ns.checked_neg()?.div_euclid(self.step_ns))
        };
        narrow().unwrap_or_else(|| {
            let ns = i128::from(time_us) * 1000 + i128::from(self.offset_ns);
            let since_ns = ns - i128::from(self.start_ns) + i128::from(later_ns);
            limited(-(-since_ns).div_euclid(i128::from(self.step_ns)))
        })
    }
}

fn limited(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the number of the first window (or the last one) that contains an event.
pub(crate) fn window_function(windows: Windows, is_last: bool) -> Expr {
    let function = ScalarUDF::new_from_impl(WindowOf {
        windows,
        is_last,
        signature: Signature::any(1, Volatility::Immutable),
    });
    function.call(vec![Expr::Column(Column::from_name(storage::TIME))])
}

/// Returns the instants at which a function of [`window_function`] changes, microseconds since
/// 1970; `None` for other functions.
pub(crate) fn window_changes(call: &ScalarFunction) -> Option<Vec<i64>> {
    let function = call.func.inner().downcast_ref::<WindowOf>()?;
    Some(function.windows.changes(function.is_last))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WindowOf {
    windows: Windows,
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
        let windows = self.windows;
        over_arrays(args, |columns| {
            let times = columns[0].as_primitive::<TimestampMicrosecondType>();
            let each = times.values().iter();
            let each = match self.is_last {
                true => each.map(|time| windows.last(*time)).collect(),
                false => each.map(|time| windows.first(*time)).collect(),
            };
            let numbers = Int64Array::new(each, times.nulls().cloned());
            Ok(Arc::new(numbers) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers as queries have them, and those at which a sum of them overflows.
    fn numbers() -> impl Strategy<Value = i64> {
        prop_oneof![
            -200_000i64..200_000,
            (-200i64..200).prop_map(|n| n * 60_000_000_000),
            any::<i64>(),
        ]
    }

    proptest! {
        #[test]
        fn an_event_lies_in_the_windows_from_the_first_to_the_last(
            time_us in prop_oneof![-500i64..500, numbers()],
            (start_ns, offset_ns) in (numbers(), numbers()),
            step_ns in prop_oneof![1i64..100_000, Just(60_000_000_000), 1i64..i64::MAX],
            range_ns in prop_oneof![1i64..300_000, Just(60_000_000_000), 1i64..i64::MAX],
            count in 1usize..40,
        ) {
            let windows = Windows { start_ns, step_ns, count, range_ns, offset_ns };
            let at = i128::from(time_us) * 1000;
            let contains = |nth: &i64| {
                let end = i128::from(start_ns) + i128::from(*nth) * i128::from(step_ns)
                    - i128::from(offset_ns);
                end - i128::from(range_ns) < at && at <= end
            };
            let found: Vec<i64> = (0..count as i64).filter(contains).collect();
            let (first, last) = (windows.first(time_us), windows.last(time_us));
            match found.first().zip(found.last()) {
                Some(ends) => prop_assert_eq!((&first, &last), ends),
                None => prop_assert!(first > last),
            }
            // Both change by one at each of their changes, and nowhere else.
            for is_last in [false, true] {
                let changes = windows.changes(is_last);
                let before = changes.iter().map(|at_us| at_us.saturating_sub(1));
                let around: Vec<i64> = changes.iter().copied().chain(before).collect();
                for at_us in around.into_iter().chain([time_us]).filter(|_| changes.len() == count) {
                    let passed = changes.iter().filter(|change| **change <= at_us).count();
                    let number = match is_last {
                        false => windows.first(at_us),
                        true => windows.last(at_us) + 1,
                    };
                    prop_assert_eq!(number, passed as i64);
                }
            }
        }
    }
}
