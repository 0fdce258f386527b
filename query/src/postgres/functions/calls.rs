//! The arguments of one call.

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};

use super::{FunctionScope, names};
use crate::error::{Error, Fault};
use crate::postgres::tables::PG_CATALOG;

/// One call of a function.
pub(super) struct Call<'a> {
    pub(super) scope: &'a FunctionScope,
    pub(super) name: &'static str,
    pub(super) values: &'a [ScalarValue],
}

impl<'a> Call<'a> {
    fn value(&self, at: usize) -> &'a ScalarValue {
        self.values.get(at).unwrap_or(&ScalarValue::Null)
    }

    /// Returns an argument as text, empty for none.
    pub(super) fn text(&self, at: usize) -> Result<String> {
        match self.value(at).cast_to(&DataType::Utf8)? {
            ScalarValue::Utf8(Some(text)) => Ok(text),
            _ => Ok(String::new()),
        }
    }

    /// Returns an argument as an integer, 0 for none.
    pub(super) fn integer(&self, at: usize) -> Result<i64> {
        match self.value(at).cast_to(&DataType::Int64)? {
            ScalarValue::Int64(Some(number)) => Ok(number),
            _ => Ok(0),
        }
    }

    /// Returns an argument as the number of an object. A table may also be named.
    pub(super) fn oid(&self, at: usize) -> Result<u32> {
        match self.value(at).try_as_str().flatten() {
            Some(text) if text.parse::<u32>().is_err() => match self.table(text) {
                Some(oid) => Ok(oid),
                None => Err(missing("regclass", text)),
            },
            _ => Ok(u32::try_from(self.integer(at)?).unwrap_or(0)),
        }
    }

    /// Returns whether an argument is a number.
    pub(super) fn is_number(&self, at: usize) -> bool {
        self.value(at).data_type().is_numeric()
    }

    /// Returns the schemas in which a table without one is looked for. A stream wins over a table
    /// of the catalog with the same name.
    pub(super) fn path(&self) -> [&'a str; 2] {
        [self.scope.session.schema.as_str(), PG_CATALOG]
    }

    /// Returns the number of a table by its name, which may have a schema.
    pub(super) fn table(&self, name: &str) -> Option<u32> {
        let parts = names::split(name)?;
        let (schema, table) = match parts.as_slice() {
            [table] => (None, table),
            [schema, table] | [_, schema, table] => (Some(schema.as_str()), table),
            _ => return None,
        };
        let found = self.scope.objects().find(schema, table, &self.path());
        found.map(|table| table.oid)
    }
}

/// Returns the error of an object that does not exist. `kind` is the type that refers to it.
pub(super) fn missing(kind: &str, name: &str) -> DataFusionError {
    let (what, fault) = match kind {
        "regclass" => ("relation", Fault::NoTable),
        "regproc" | "regprocedure" => ("function", Fault::NoFunction),
        "regnamespace" => ("schema", Fault::NoTable),
        "regtype" => ("type", Fault::Other),
        _ => ("role", Fault::Other),
    };
    Error::of_fault(fault, format!("{what} \"{name}\" does not exist")).into()
}

/// Returns a text.
pub(super) fn text(value: impl Into<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8(Some(value.into())))
}

/// Returns a text, or null.
pub(super) fn maybe(value: Option<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8(value))
}

/// Returns a flag.
pub(super) fn flag(value: bool) -> Result<ScalarValue> {
    Ok(ScalarValue::Boolean(Some(value)))
}

/// Returns null.
pub(super) fn null(_: &Call<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Null)
}
