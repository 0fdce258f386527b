//! Expressions: values and conditions that a rollup computes from an event before counting it.
//!
//! An [`Expression`] is a value (of a key), a [`Condition`] selects the events that a measure
//! counts. Both are written as in SQL, parsed once, and stored in one canonical spelling, so that
//! two definitions are equal when their texts are. A grammar of our own is smaller than a subset of
//! an SQL parser's: `user`, `method` and `time` are fields here and keywords in SQL.
//!
//! ```text
//! condition   values compared (= <> < <= > >=) with a literal, is [not] null, [not] in (…),
//!             [not] like '…'; joined by not, and, or and parentheses
//! value       field, "field", path_prefix(value, n), regexp_capture(value, 're' [, group]),
//!             url_extract_parameter(value, 'name'), f(value) where f is a `TextFunction`,
//!             value / n, value % n
//! literal     17, -2, 0.5, 'text' ('' is a quote)
//! ```
//!
//! # Meaning
//! * As in SQL, a comparison with null is neither true nor false; an event is counted only if the
//!   condition is true. A field that an event lacks is null.
//! * The literal decides how a field is compared: with text as text, with a number as a number.
//!   Integers are compared exactly, a decimal as a double.
//! * `/` and `%` are integer operations, towards zero. Their result is null if the value is no
//!   integer or the operation overflows.
//! * Text of events is untrusted: patterns run in time linear in its length, and their size is
//!   limited.

mod cast;
mod evaluate;
mod lexer;
mod parse;
mod print;
mod types;

pub(crate) use cast::{as_text, whole};
pub(crate) use types::{ValueType, column_type};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::text_function::TextFunction;

/// Size limit of a compiled pattern, bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A value of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Expression {
    /// The value of a field.
    Field(String),
    /// The first segments of a path: of `/a/b/c`, `/a` for 1 and `/` for 0.
    PathPrefix(Box<Self>, u16),
    /// The text of a group in a pattern's first match, null without a match.
    Capture(Box<Self>, Pattern, u16),
    /// The first parameter of this name in the query of a URL.
    UrlParameter(Box<Self>, String),
    /// A function of one text.
    Text(TextFunction, Box<Self>),
    /// Integer division by a constant, towards zero.
    Quotient(Box<Self>, i64),
    /// The remainder of that division, with the sign of the value.
    Remainder(Box<Self>, i64),
}

/// A condition on the events that a measure counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Condition {
    /// A comparison with a literal.
    Compare(Expression, Operator, Literal),
    /// The value equals one of these literals.
    In(Expression, Vec<Literal>),
    /// The value matches an SQL pattern: `%` is any text, `_` any character; `\` escapes either.
    Like(Expression, String),
    /// The value is null.
    IsNull(Expression),
    /// Negation.
    Not(Box<Self>),
    /// Conjunction.
    And(Vec<Self>),
    /// Disjunction.
    Or(Vec<Self>),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=`
    Equal,
    /// `<>`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A constant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Literal {
    /// An integer.
    Integer(i64),
    /// A finite decimal: the bits of a double.
    Decimal(u64),
    /// Text.
    Text(String),
}

/// A regular expression, equal to another of the same text.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A message with the fault of the pattern.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(text)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|e| format!("the pattern is invalid: {e}"))?;
        Ok(Self {
            text: text.to_owned(),
            regex,
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl std::hash::Hash for Pattern {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Expression {
    /// Returns the field from which the value is computed.
    pub fn field(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::PathPrefix(of, _)
            | Self::Capture(of, ..)
            | Self::UrlParameter(of, _)
            | Self::Text(_, of)
            | Self::Quotient(of, _)
            | Self::Remainder(of, _) => of.field(),
        }
    }
}

impl Condition {
    /// Adds the fields that the condition reads.
    pub(crate) fn add_fields(&self, fields: &mut Vec<String>) {
        match self {
            Self::Compare(value, ..)
            | Self::In(value, _)
            | Self::Like(value, _)
            | Self::IsNull(value) => fields.push(value.field().to_owned()),
            Self::Not(condition) => condition.add_fields(fields),
            Self::And(all) | Self::Or(all) => all.iter().for_each(|c| c.add_fields(fields)),
        }
    }

    /// Returns the negation. A double negation cancels out, in three-valued logic too.
    fn negated(self) -> Self {
        match self {
            Self::Not(condition) => *condition,
            condition => Self::Not(Box::new(condition)),
        }
    }
}

impl TryFrom<String> for Expression {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl TryFrom<String> for Condition {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.to_string()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

#[cfg(test)]
mod tests;
