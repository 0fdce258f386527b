//! Expressions: what a rollup computes from an event before it counts it.
//!
//! An [`Expression`] is a value (a key), a [`Condition`] says which events a measure counts. Both
//! are written as in SQL, read once, and kept in one canonical spelling, so that two definitions
//! are equal when their texts are. A grammar of our own is smaller than a subset of an SQL parser's:
//! `user`, `method` and `time` are fields here and keywords there.
//!
//! ```text
//! condition   values compared (= <> < <= > >=) with a literal, is [not] null, [not] in (…),
//!             [not] like '…'; joined by not, and, or and parentheses
//! value       field, "field", path_prefix(value, n), regexp_capture(value, 're' [, group]),
//!             lower(value), upper(value), value / n, value % n
//! literal     17, -2, 0.5, 'text' ('' is a quote)
//! ```
//!
//! # Meaning
//! * As in SQL, null makes a comparison neither true nor false; only what is true is counted. A
//!   field that an event lacks is null.
//! * The literal says how a field is compared: with text as text, with a number as a number.
//!   Integers are compared exactly, a decimal as a double.
//! * `/` and `%` are of integers, towards zero; what is no integer, or overflows, is null.
//! * Text is a stranger's: patterns run in time linear in it, and their size is limited.

mod evaluate;
mod lexer;
mod parse;
mod print;
mod types;

pub(crate) use types::ValueType;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// A compiled pattern takes at most this, bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A value of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Expression {
    /// A field as it is.
    Field(String),
    /// The first segments of a path: of `/a/b/c`, 1 gives `/a` and 0 gives `/`.
    PathPrefix(Box<Self>, u16),
    /// What a group of a pattern matched first, null without a match.
    Capture(Box<Self>, Pattern, u16),
    /// Text in lower case.
    Lower(Box<Self>),
    /// Text in upper case.
    Upper(Box<Self>),
    /// Integer division by a constant, towards zero.
    Quotient(Box<Self>, i64),
    /// What that division leaves, with the sign of the value.
    Remainder(Box<Self>, i64),
}

/// Which events a measure counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Condition {
    /// A comparison with a literal.
    Compare(Expression, Operator, Literal),
    /// Equal to one of these.
    In(Expression, Vec<Literal>),
    /// Like an SQL pattern: `%` any text, `_` any character, `\` before one means itself.
    Like(Expression, String),
    /// Null.
    IsNull(Expression),
    /// Not.
    Not(Box<Self>),
    /// All of them.
    And(Vec<Self>),
    /// One of them.
    Or(Vec<Self>),
}

/// How a value is compared.
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
    /// Compiles it.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(text)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|e| format!("the pattern is wrong: {e}"))?;
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
    /// The field that it is computed from.
    pub(crate) fn field(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::PathPrefix(of, _)
            | Self::Capture(of, ..)
            | Self::Lower(of)
            | Self::Upper(of)
            | Self::Quotient(of, _)
            | Self::Remainder(of, _) => of.field(),
        }
    }
}

impl Condition {
    /// Adds the fields that it reads.
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

    /// Its opposite; two of them cancel each other, in three-valued logic too.
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
