//! SQL functions that clients of PostgreSQL call. They compute from the objects and the session of
//! one statement, and exist for that statement alone.

mod arrays;
mod calls;
mod catalog;
mod names;
mod references;
mod server;

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, OnceLock};

use arrow::array::{ArrayRef, new_empty_array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::objects::Objects;
use super::session::StatementSession;
use super::types;
use calls::Call;

/// Lists the objects of a catalog.
type ListObjects = dyn Fn() -> Arc<Objects> + Send + Sync;

/// The state that the functions of one statement read.
pub(crate) struct FunctionScope {
    session: StatementSession,
    /// The objects, once a function has asked for them.
    objects: OnceLock<Arc<Objects>>,
    list: Box<ListObjects>,
}

impl fmt::Debug for FunctionScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionScope").finish_non_exhaustive()
    }
}

/// The type of a function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Returns {
    Bool,
    Int4,
    Int8,
    Oid,
    Text,
    Texts,
    Stamp,
    /// Each element of a list with its place.
    Places,
    /// A number for a name, and a name for a number.
    NameOrOid,
}

/// A function of the table.
#[derive(Debug, Clone, Copy)]
struct Definition {
    name: &'static str,
    /// The least and the greatest number of arguments.
    arity: (usize, usize),
    returns: Returns,
    /// A null argument gives null, and the function is not called.
    is_strict: bool,
    compute: fn(&Call<'_>) -> Result<ScalarValue>,
}

const fn strict(
    name: &'static str,
    arity: (usize, usize),
    returns: Returns,
    compute: fn(&Call<'_>) -> Result<ScalarValue>,
) -> Definition {
    Definition {
        name,
        arity,
        returns,
        is_strict: true,
        compute,
    }
}

const fn lenient(
    name: &'static str,
    arity: (usize, usize),
    returns: Returns,
    compute: fn(&Call<'_>) -> Result<ScalarValue>,
) -> Definition {
    Definition {
        is_strict: false,
        ..strict(name, arity, returns, compute)
    }
}

/// All functions by name.
static ALL: LazyLock<HashMap<&'static str, &'static Definition>> = LazyLock::new(|| {
    let tables = [
        arrays::TABLE,
        catalog::TABLE,
        names::TABLE,
        references::TABLE,
        server::TABLE,
    ];
    let all = tables.into_iter().flatten();
    all.map(|function| (function.name, function)).collect()
});

/// Returns whether a name is that of one of these functions.
pub(crate) fn is_known(name: &str) -> bool {
    ALL.contains_key(name)
}

/// Returns the names of all functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.keys().copied()
}

/// The functions of array types.
const OF_ARRAYS: [&str; 4] = ["array_in", "array_out", "array_recv", "array_send"];

/// Returns the number of a function: that of PostgreSQL for the functions of array types, which
/// clients compare with, and otherwise one that follows from its name.
pub(crate) fn function_oid(name: &str) -> u32 {
    match OF_ARRAYS.iter().position(|known| *known == name) {
        Some(at) => types::OF_ARRAYS[at],
        None => {
            let bytes = name.bytes();
            let sum = bytes.fold(7_u32, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
            10_000 + sum % 2_000
        }
    }
}

impl FunctionScope {
    /// Creates the scope of a statement.
    pub(crate) fn new(session: StatementSession, list: Box<ListObjects>) -> Self {
        Self {
            session,
            objects: OnceLock::new(),
            list,
        }
    }

    fn objects(&self) -> &Objects {
        self.objects.get_or_init(|| (self.list)())
    }

    /// Returns the function of a name, for this statement.
    pub(crate) fn function(self: &Arc<Self>, name: &str) -> Option<Arc<ScalarUDF>> {
        let definition = *ALL.get(name)?;
        // Without a session of PostgreSQL, `version()` is the one of this program.
        if name == "version" && self.session.values.is_none() {
            return None;
        }
        let (least, most) = definition.arity;
        let arities = (least..=most).map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        Some(Arc::new(ScalarUDF::new_from_impl(CatalogFunction {
            definition,
            scope: Arc::clone(self),
            signature: Signature::one_of(arities.collect(), Volatility::Stable),
        })))
    }
}

/// A function with the state of its statement.
#[derive(Debug)]
struct CatalogFunction {
    definition: &'static Definition,
    scope: Arc<FunctionScope>,
    signature: Signature,
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name && Arc::ptr_eq(&self.scope, &other.scope)
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

/// Returns the type of the result for the types of the arguments.
fn result_type(returns: Returns, arguments: &[DataType]) -> Result<DataType> {
    let of = |name| types::field("", name, true).data_type().clone();
    Ok(match returns {
        Returns::Bool => DataType::Boolean,
        Returns::Int4 => DataType::Int32,
        Returns::Int8 => DataType::Int64,
        Returns::Oid => of("oid"),
        Returns::Text => DataType::Utf8,
        Returns::Texts => of("_text"),
        Returns::Stamp => of("timestamptz"),
        Returns::NameOrOid => match arguments {
            [number] if number.is_numeric() => DataType::Utf8,
            _ => of("oid"),
        },
        Returns::Places => match arguments {
            [DataType::List(element)] => arrays::places_type(element.data_type()),
            _ => return plan_err!("_pg_expandarray takes an array"),
        },
    })
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.definition.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        result_type(self.definition.returns, arguments)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of_type = args.return_type().clone();
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        if args.args.iter().all(is_constant) {
            let values = args.args.into_iter().map(|arg| match arg {
                ColumnarValue::Scalar(value) => Ok(value),
                ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            return Ok(ColumnarValue::Scalar(self.call(&values, &of_type)?));
        }
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = (0..args.number_rows).map(|row| {
            let values = columns.iter();
            let values = values.map(|column| ScalarValue::try_from_array(column, row));
            self.call(&values.collect::<Result<Vec<_>>>()?, &of_type)
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let column: ArrayRef = match rows.is_empty() {
            true => new_empty_array(&of_type),
            false => ScalarValue::iter_to_array(rows)?,
        };
        Ok(ColumnarValue::Array(column))
    }
}

impl CatalogFunction {
    fn call(&self, values: &[ScalarValue], of_type: &DataType) -> Result<ScalarValue> {
        if self.definition.is_strict && values.iter().any(ScalarValue::is_null) {
            return ScalarValue::try_from(of_type);
        }
        let call = Call {
            scope: &self.scope,
            name: self.definition.name,
            values,
        };
        match (self.definition.compute)(&call)? {
            ScalarValue::Null => ScalarValue::try_from(of_type),
            value => Ok(value),
        }
    }
}
