//! `string_agg` that reports the memory it needs.
//!
//! DataFusion's function reports the bytes of its arguments. But each group is one text with
//! spare capacity, which is copied into the output array, and copied again when it is sorted and
//! written to the disk. All of these copies have to fit into the memory limit.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::FieldRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionState;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
};

use super::inner::aggregate_as_inner;

/// Bytes of memory for each byte of the arguments. There are three copies: the text, the output
/// array, and the array that is sorted or written. Each has twice the capacity it needs, since it
/// grew by doubling.
const TIMES: usize = 6;

/// Replaces DataFusion's function.
pub(super) fn tell(state: &mut SessionState) -> Result<()> {
    let inner = state.udaf("string_agg")?;
    state.register_udaf(Arc::new(told(&inner)))?;
    Ok(())
}

fn told(inner: &Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::new_from_impl(Told {
        inner: Arc::clone(inner),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Told {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Told {
    aggregate_as_inner!();

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Telling(self.inner.accumulator(args)?)))
    }
    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let inner = self.inner.create_sliding_accumulator(args)?;
        Ok(Box::new(Telling(inner)))
    }
    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(Box::new(TellingGroups(inner)))
    }
    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = AggregateUDF::clone(&self.inner).with_beneficial_ordering(beneficial)?;
        let told = inner.map(|inner| Self {
            inner: Arc::new(inner),
        });
        Ok(told.map(|told| Arc::new(told) as Arc<dyn AggregateUDFImpl>))
    }
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(inner) => ReversedUDAF::Reversed(Arc::new(told(&inner))),
            as_it_is => as_it_is,
        }
    }
}

#[derive(Debug)]
struct Telling(Box<dyn Accumulator>);

impl Accumulator for Telling {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }
    fn size(&self) -> usize {
        self.0.size().saturating_mul(TIMES)
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }
    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

struct TellingGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for TellingGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, count)
    }
    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit)
    }
    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit)
    }
    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.0.merge_batch(values, groups, count)
    }
    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }
    fn size(&self) -> usize {
        self.0.size().saturating_mul(TIMES)
    }
}
