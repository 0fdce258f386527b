//! The column `state` of `system.quarantine`: `waiting`, `replayed` or `dropped`, computed from
//! the sequence number and the snapshot's resolutions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{StringViewArray, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::cast::as_uint64_array;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use storage::{Settlement, Snapshot};

use crate::functions::arrays::over_arrays;

/// The name of the column.
pub(crate) const STATE: &str = "state";

/// SQL function: `_seq` → `state`. Two of them are equal if they have the same snapshot.
#[derive(Debug)]
pub(crate) struct StateOf {
    snapshot: Arc<Snapshot>,
    signature: Signature,
}

impl StateOf {
    pub(crate) fn new(snapshot: &Arc<Snapshot>) -> Self {
        Self {
            snapshot: Arc::clone(snapshot),
            signature: Signature::exact(vec![DataType::UInt64], Volatility::Immutable),
        }
    }

    fn compute(&self, seqs: &UInt64Array) -> StringViewArray {
        let settled = self.snapshot.settled();
        let state = |seq| settled.how(seq).map_or("waiting", Settlement::as_str);
        seqs.iter().map(|seq| seq.map(state)).collect()
    }
}

impl PartialEq for StateOf {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }
}

impl Eq for StateOf {}

impl Hash for StateOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.snapshot).hash(state);
    }
}

impl ScalarUDFImpl for StateOf {
    fn name(&self) -> &str {
        "quarantine_state"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |columns| {
            Ok(Arc::new(self.compute(as_uint64_array(&columns[0])?)))
        })
    }
}
