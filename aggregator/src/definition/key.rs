//! Key columns: the source of their values, and their type.

use serde::{Deserialize, Serialize};
use storage::{ColumnType, Name, StreamKind};

use crate::expression::{Expression, ValueType, column_type};

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
    /// Returns the type of a field as a key: its column's in an access log, text in other streams.
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

    /// Returns the Arrow type of the key column.
    pub fn arrow(self) -> arrow::datatypes::DataType {
        match self {
            Self::Text => ColumnType::Text.arrow(),
            Self::Int16 => ColumnType::Int16.arrow(),
            Self::Int64 => ColumnType::Int64.arrow(),
        }
    }
}

/// A key column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Name of the column; without an expression also the field that holds its values.
    pub name: String,
    /// Type of the column.
    #[serde(rename = "type")]
    pub key_type: KeyType,
    /// Expression that computes the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expr: Option<Expression>,
}

impl Key {
    /// Creates the key whose values are those of a field.
    pub(crate) fn of_field(field: &str, kind: StreamKind) -> Result<Self, String> {
        Ok(Self {
            name: field.to_owned(),
            key_type: KeyType::of(field, kind)?,
            expr: None,
        })
    }

    /// Creates the key whose values an expression computes.
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

    /// Returns the expression of the values, by default the field of the key's name.
    pub fn value(&self) -> Expression {
        let plain = || Expression::Field(self.name.clone());
        self.expr.clone().unwrap_or_else(plain)
    }
}
