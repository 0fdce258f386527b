//! Functions of texts that rollup keys have too: `path_prefix(path, n)`, parts of URLs and of user
//! agents. `aggregator` defines them; the names are in [`TextFunction`].

use std::sync::Arc;

use aggregator::{TextFunction, path_prefix, url_parameter};
use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::functions::arrays::over_arrays;

/// Name of the function with the first segments of a path.
pub(crate) const PATH_PREFIX: &str = "path_prefix";
/// Name of the function with a parameter of a URL.
pub(crate) const URL_PARAMETER: &str = "url_extract_parameter";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Function {
    OfText(TextFunction),
    PathPrefix,
    UrlParameter,
}

/// Returns the function of one text that this module has under a name.
pub(crate) fn text_function(name: &str) -> Option<TextFunction> {
    TextFunction::of_name(name).filter(is_own)
}

/// `lower` and `upper` are DataFusion's.
fn is_own(function: &TextFunction) -> bool {
    !matches!(function, TextFunction::Lower | TextFunction::Upper)
}

/// Returns the functions of this module.
pub(super) fn scalars() -> impl Iterator<Item = ScalarUDF> {
    let of_text = TextFunction::ALL.into_iter().filter(is_own);
    let all = of_text.map(Function::OfText);
    let all = all.chain([Function::PathPrefix, Function::UrlParameter]);
    all.map(|function| {
        ScalarUDF::new_from_impl(OfText {
            function,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfText {
    function: Function,
    signature: Signature,
}

impl ScalarUDFImpl for OfText {
    fn name(&self) -> &str {
        match self.function {
            Function::OfText(function) => function.name(),
            Function::PathPrefix => PATH_PREFIX,
            Function::UrlParameter => URL_PARAMETER,
        }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |t: &DataType| t.is_string() || t.is_null();
        let is_count = |t: &DataType| t.is_integer() || t.is_null();
        let name = self.name();
        match (self.function, types) {
            (Function::OfText(_), [text]) if is_text(text) => Ok(vec![DataType::Utf8]),
            (Function::OfText(_), _) => plan_err!("{name} takes one text: {name}(column)"),
            (Function::PathPrefix, [text, n]) if is_text(text) && is_count(n) => {
                Ok(vec![DataType::Utf8, DataType::Int64])
            }
            (Function::PathPrefix, _) => {
                plan_err!("{name} takes a path and a number of segments: {name}(path, 1)")
            }
            (Function::UrlParameter, [text, key]) if is_text(text) && is_text(key) => {
                Ok(vec![DataType::Utf8, DataType::Utf8])
            }
            (Function::UrlParameter, _) => {
                plan_err!("{name} takes a URL and a name: {name}(referrer, 'utm_source')")
            }
        }
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |columns| {
            let texts = columns[0].as_string::<i32>();
            let values = match self.function {
                Function::OfText(function) => function.of_column(texts),
                Function::PathPrefix => prefixes(texts, columns[1].as_primitive::<Int64Type>())?,
                Function::UrlParameter => parameters(texts, columns[1].as_string::<i32>()),
            };
            Ok(Arc::new(values) as ArrayRef)
        })
    }
}

fn prefixes(paths: &StringArray, counts: &Int64Array) -> Result<StringArray> {
    let rows = paths.iter().zip(counts);
    let prefix = |(path, n): (Option<&str>, Option<i64>)| {
        let (Some(path), Some(n)) = (path, n) else {
            return Ok(None);
        };
        let Ok(n) = usize::try_from(n) else {
            return exec_err!("{PATH_PREFIX} takes 0 or more segments, not {n}");
        };
        Ok(Some(path_prefix(path, n).to_owned()))
    };
    rows.map(prefix).collect()
}

fn parameters(urls: &StringArray, names: &StringArray) -> StringArray {
    let rows = urls.iter().zip(names);
    rows.map(|(url, name)| url_parameter(url?, name?)).collect()
}
