//! `version()`: the versions of Logmill and of DataFusion.

use arrow::datatypes::DataType;
use datafusion::DATAFUSION_VERSION;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Version {
    signature: Signature,
}

impl Version {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::nullary(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Version {
    fn name(&self) -> &'static str {
        "version"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let own = env!("CARGO_PKG_VERSION");
        let text = format!("Logmill {own} (DataFusion {DATAFUSION_VERSION})");
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))))
    }
}
