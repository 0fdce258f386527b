//! Functions over the states that levels carry: `hist_*` and `distinct_*`.
//!
//! `hist_merge(size)` and `distinct_merge(visitors_state)` merge states across buckets; the others
//! read one. A state is decoded once for each row and encoded once for each group. Values of a
//! histogram over a decimal field are fractions, so quantiles, sums and bounds are doubles.

use std::sync::Arc;

use aggregator::state::{Distinct, Histogram, STATE, StateKind};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::error::Error;
use crate::functions::arrays::over_arrays;

/// Factor by which a decimal field's values are multiplied in its states.
pub(crate) const SCALE: f64 = 1e6;

fn wrong(error: aggregator::Error) -> DataFusionError {
    Error::invalid(error.to_string()).into()
}

/// A state that can be merged with others of its kind.
trait Mergeable: Sized + std::fmt::Debug + Send + Sync + 'static {
    /// Usual memory of one state, bytes.
    const BYTES: usize;
    fn decode_state(bytes: &[u8]) -> Result<Self>;
    fn merge_state(&mut self, other: Self) -> Result<()>;
    fn encode_state(&self) -> Vec<u8>;
}

impl Mergeable for Histogram {
    const BYTES: usize = 4 * 1024;
    fn decode_state(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(wrong)
    }
    fn merge_state(&mut self, other: Self) -> Result<()> {
        self.merge(&other).map_err(wrong)
    }
    fn encode_state(&self) -> Vec<u8> {
        self.encode()
    }
}

impl Mergeable for Distinct {
    const BYTES: usize = 4 * 1024;
    fn decode_state(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(wrong)
    }
    fn merge_state(&mut self, other: Self) -> Result<()> {
        self.merge(&other);
        Ok(())
    }
    fn encode_state(&self) -> Vec<u8> {
        self.encode()
    }
}

/// Kind of state that a function merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Histogram,
    Distinct,
}

/// `hist_merge` or `distinct_merge`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StateMerge {
    signature: Signature,
    of: Of,
}

impl StateMerge {
    fn new(of: Of) -> Self {
        Self {
            signature: Signature::exact(vec![DataType::Binary], Volatility::Immutable),
            of,
        }
    }
}

impl AggregateUDFImpl for StateMerge {
    fn name(&self) -> &str {
        match self.of {
            Of::Histogram => "hist_merge",
            Of::Distinct => "distinct_merge",
        }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }
    fn return_field(&self, _: &[FieldRef]) -> Result<FieldRef> {
        let kind = match self.of {
            Of::Histogram => StateKind::Histogram,
            Of::Distinct => StateKind::Distinct,
        };
        let mark = (STATE.to_owned(), kind.name().to_owned());
        let field = Field::new(self.name(), DataType::Binary, true);
        Ok(Arc::new(field.with_metadata([mark].into())))
    }
    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match self.of {
            Of::Histogram => Box::new(Merged::<Histogram>(None)),
            Of::Distinct => Box::new(Merged::<Distinct>(None)),
        })
    }
}

/// Accumulator of merged states; `None` before the first one.
#[derive(Debug)]
struct Merged<S>(Option<S>);

impl<S: Mergeable> Accumulator for Merged<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for bytes in values[0].as_binary::<i32>().iter().flatten() {
            let state = S::decode_state(bytes)?;
            match &mut self.0 {
                Some(merged) => merged.merge_state(state)?,
                none => *none = Some(state),
            }
        }
        Ok(())
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Binary(self.0.as_ref().map(S::encode_state)))
    }
    fn size(&self) -> usize {
        size_of_val(self) + if self.0.is_some() { S::BYTES } else { 0 }
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

/// Returns the functions that merge.
pub(super) fn aggregates() -> [AggregateUDF; 2] {
    [Of::Histogram, Of::Distinct].map(|of| AggregateUDF::new_from_impl(StateMerge::new(of)))
}

/// Number that a function reads from one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Read {
    Quantile,
    Count,
    Sum,
    Mean,
    Min,
    Max,
    Overflow,
    Distinct,
}

const READS: [(Read, &str); 8] = [
    (Read::Quantile, "hist_quantile"),
    (Read::Count, "hist_count"),
    (Read::Sum, "hist_sum"),
    (Read::Mean, "hist_mean"),
    (Read::Min, "hist_min"),
    (Read::Max, "hist_max"),
    (Read::Overflow, "hist_overflow"),
    (Read::Distinct, "distinct_count"),
];

/// Reads a number from a state.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ReadState {
    signature: Signature,
    read: Read,
    name: &'static str,
}

impl Read {
    fn is_count(self) -> bool {
        matches!(self, Self::Count | Self::Overflow | Self::Distinct)
    }

    fn count(self, bytes: &[u8]) -> Result<i64> {
        let count = match self {
            Self::Distinct => Distinct::decode_state(bytes)?.count(),
            Self::Overflow => Histogram::decode_state(bytes)?.overflow(),
            _ => Histogram::decode_state(bytes)?.count(),
        };
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }

    fn number(self, bytes: &[u8], q: f64) -> Result<Option<f64>> {
        let histogram = Histogram::decode_state(bytes)?;
        let scale = if histogram.is_scaled() { SCALE } else { 1.0 };
        let value = |v: Option<i128>| v.map(|v| v as f64 / scale);
        Ok(match self {
            Self::Quantile => histogram.quantile(q),
            Self::Sum => value(histogram.sum()),
            // The count is that of the summed values: neither has the values that did not fit.
            Self::Mean => value(histogram.sum()).map(|sum| sum / histogram.count() as f64),
            Self::Min => value(histogram.min()),
            _ => value(histogram.max()),
        })
    }
}

impl ScalarUDFImpl for ReadState {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.read.is_count() {
            DataType::Int64
        } else {
            DataType::Float64
        })
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let read = self.read;
        over_arrays(args, |columns| {
            let states = columns[0].as_binary::<i32>();
            if read.is_count() {
                let counts = states.iter().map(|s| s.map(|s| read.count(s)).transpose());
                return Ok(Arc::new(counts.collect::<Result<Int64Array>>()?) as ArrayRef);
            }
            let quantiles = columns.get(1).map(|q| q.as_primitive::<Float64Type>());
            let numbers = states.iter().enumerate().map(|(i, state)| {
                let q = match quantiles {
                    Some(q) if q.is_null(i) => return Ok(None),
                    Some(q) => q.value(i),
                    None => 0.0,
                };
                if !(0.0..=1.0).contains(&q) {
                    return Err(Error::invalid(format!(
                        "a quantile must be between 0 and 1, not {q}"
                    ))
                    .into());
                }
                state.map_or(Ok(None), |state| read.number(state, q))
            });
            Ok(Arc::new(numbers.collect::<Result<Float64Array>>()?))
        })
    }
}

/// Returns the functions that read one state.
pub(super) fn scalars() -> Vec<ScalarUDF> {
    let of = |(read, name): (Read, &'static str)| {
        let mut types = vec![DataType::Binary];
        if read == Read::Quantile {
            types.push(DataType::Float64);
        }
        ScalarUDF::new_from_impl(ReadState {
            signature: Signature::exact(types, Volatility::Immutable),
            read,
            name,
        })
    };
    READS.into_iter().map(of).collect()
}
