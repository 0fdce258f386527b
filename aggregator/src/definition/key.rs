//! Key columns: where a key takes its values from, and their type.

use serde::{Deserialize, Serialize};
use storage::{ColumnType, Name, StreamKind, access_fields};

use crate::expression::{Expression, ValueType};

/// The type of a key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyType {
    /// Text; any other type is rendered as text.
    Text,
    /// 16-bit integer (an access log's `status`).
    Int16,
    /// 64-bit integer.
    Int64,
}

impl KeyType {
    /// The type a field has as a key: that of its column in an access log, text anywhere else.
    pub(crate) fn of(field: &str, kind: StreamKind) -> Result<Self, String> {
        match column_type(field, kind) {
            None | Some(ColumnType::Text) => Ok(Self::Text),
            Some(ColumnType::Int16) => Ok(Self::Int16),
            Some(ColumnType::Int64) => Ok(Self::Int64),
            Some(_) => Err(format!(
                "{field} cannot be a key: buckets already divide by time"
            )),
        }
    }

    /// The Arrow type of its column.
    pub fn arrow(self) -> arrow::datatypes::DataType {
        match self {
            Self::Text => ColumnType::Text.arrow(),
            Self::Int16 => ColumnType::Int16.arrow(),
            Self::Int64 => ColumnType::Int64.arrow(),
        }
    }
}

/// The type of an access log's column; `None` where a field may hold anything.
pub(crate) fn column_type(field: &str, kind: StreamKind) -> Option<ColumnType> {
    if field == storage::TIME {
        return Some(ColumnType::Time);
    }
    if kind != StreamKind::Access {
        return None;
    }
    access_fields()
        .into_iter()
        .find(|c| &*c.name == field)
        .map(|c| c.column_type)
}

/// A key column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Its name as a column, and the field it takes its value from unless there is an expression.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub key_type: KeyType,
    /// What its values are computed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expr: Option<Expression>,
}

impl Key {
    /// The key that is a field as it is.
    pub(crate) fn of_field(field: &str, kind: StreamKind) -> Result<Self, String> {
        Ok(Self {
            name: field.to_owned(),
            key_type: KeyType::of(field, kind)?,
            expr: None,
        })
    }

    /// The key that an expression makes.
    pub(crate) fn made(name: &str, expr: Expression, kind: StreamKind) -> Result<Self, String> {
        Name::new(name).map_err(|e| e.to_string())?;
        let key_type = match (&expr, expr.value_type(kind)?) {
            (Expression::Field(field), _) => KeyType::of(field, kind)?,
            (_, ValueType::Number) => KeyType::Int64,
            _ => KeyType::Text,
        };
        let plain = Expression::Field(name.to_owned());
        Ok(Self {
            name: name.to_owned(),
            key_type,
            expr: Some(expr).filter(|expr| *expr != plain),
        })
    }

    /// What its values are computed by, the field of its name by default.
    pub(crate) fn value(&self) -> Expression {
        let plain = || Expression::Field(self.name.clone());
        self.expr.clone().unwrap_or_else(plain)
    }
}
