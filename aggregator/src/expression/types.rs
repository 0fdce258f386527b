//! Type checks of expressions when a rollup is defined: a comparison that could never be true is
//! refused then, not noticed later in an empty report.

use storage::{ColumnType, StreamKind, TIME, access_fields, counter_fields};

use super::{Condition, Expression, Literal};

/// The type of a value, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    Text,
    Number,
    /// The type of a field of documents, which may hold any value.
    Unknown,
}

/// Returns the type of an access log's column; `None` if the field may hold any type.
pub(crate) fn column_type(field: &str, kind: StreamKind) -> Option<ColumnType> {
    if field == TIME {
        return Some(ColumnType::Time);
    }
    let fields = match kind {
        StreamKind::Access => access_fields(),
        StreamKind::Counters => counter_fields(),
        _ => return None,
    };
    fields
        .into_iter()
        .find(|c| &*c.name == field)
        .map(|c| c.column_type)
}

impl Expression {
    /// Returns the type of the value in a stream of this kind.
    ///
    /// # Errors
    /// A message if the value cannot be computed from the type of its field.
    pub(crate) fn value_type(&self, kind: StreamKind) -> Result<ValueType, String> {
        match self {
            Self::Field(name) if name == TIME => Err(format!(
                "{TIME} cannot be used in an expression: buckets already divide by time"
            )),
            Self::Field(name) => Ok(match column_type(name, kind) {
                None => ValueType::Unknown,
                Some(ColumnType::Text) => ValueType::Text,
                Some(_) => ValueType::Number,
            }),
            Self::PathPrefix(of, _)
            | Self::Capture(of, ..)
            | Self::UrlParameter(of, _)
            | Self::Text(_, of) => {
                of.value_type(kind)?;
                Ok(ValueType::Text)
            }
            Self::Quotient(of, _) | Self::Remainder(of, _) => match of.value_type(kind)? {
                ValueType::Text => Err(format!("{of} is text; / and % need integers")),
                _ => Ok(ValueType::Number),
            },
        }
    }
}

impl Condition {
    /// Checks that each value is compared with literals of its type.
    ///
    /// # Errors
    /// A message with the first value that is not.
    pub(crate) fn check(&self, kind: StreamKind) -> Result<(), String> {
        match self {
            Self::Compare(value, _, literal) => comparable(value, literal, kind),
            Self::In(value, literals) => literals
                .iter()
                .try_for_each(|literal| comparable(value, literal, kind)),
            Self::Like(value, _) | Self::IsNull(value) => value.value_type(kind).map(|_| ()),
            Self::Not(condition) => condition.check(kind),
            Self::And(all) | Self::Or(all) => all.iter().try_for_each(|c| c.check(kind)),
        }
    }
}

fn comparable(value: &Expression, literal: &Literal, kind: StreamKind) -> Result<(), String> {
    match (value.value_type(kind)?, literal) {
        (ValueType::Text, Literal::Integer(_) | Literal::Decimal(_)) => Err(format!(
            "{value} is text; compare it with text such as '{literal}'"
        )),
        (ValueType::Number, Literal::Text(_)) => Err(format!(
            "{value} is a number; compare it with a number, not with {literal}"
        )),
        _ => Ok(()),
    }
}
