//! Conditions on the values of one field.

use std::cmp::Ordering;

use bson::{Bson, Document};
use regex::Regex;

use super::DocumentCondition;
use crate::mongo::path::FieldPath;
use crate::mongo::value::{BsonNumber, compare, type_rank};

/// A condition on the values of a field.
#[derive(Debug)]
pub(super) enum Predicate {
    Compare(ComparedBy, Bson),
    In {
        values: Vec<Bson>,
        patterns: Vec<Regex>,
    },
    Exists,
    /// The types, by their numbers in BSON.
    Type(Vec<i32>),
    Pattern(Regex),
    Size(i64),
    /// The divisor and the remainder.
    Modulo(i64, i64),
    /// A document in an array matches.
    ElementMatches(Box<DocumentCondition>),
    /// An element of an array meets all of these.
    ElementMeets(Vec<Self>),
    /// Each of them holds, and there is one.
    Each(Vec<Self>),
    /// Not all of them hold.
    Not(Vec<Self>),
}

/// An operator of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparedBy {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

impl Predicate {
    /// Returns whether the condition holds for the values of a path.
    pub(super) fn holds(&self, path: &FieldPath, document: &Document) -> bool {
        match self {
            Self::Not(predicates) => !predicates.iter().all(|p| p.holds(path, document)),
            Self::Each(predicates) => {
                !predicates.is_empty() && predicates.iter().all(|p| p.holds(path, document))
            }
            predicate => path.any(document, &mut |value, is_element| {
                predicate.is_met(value, is_element)
            }),
        }
    }

    /// Returns whether one value meets the condition.
    fn is_met(&self, value: Option<&Bson>, is_element: bool) -> bool {
        let Some(found) = value else {
            return self.is_met_by_missing();
        };
        match self {
            Self::Compare(ComparedBy::Eq, wanted) => equal(found, wanted),
            Self::Compare(comparison, wanted) => is_ordered(*comparison, found, wanted),
            Self::In { values, patterns } => {
                let matches = |pattern: &Regex| text(found).is_some_and(|t| pattern.is_match(t));
                values.iter().any(|wanted| equal(found, wanted)) || patterns.iter().any(matches)
            }
            Self::Exists => !is_element,
            Self::Type(types) => types.contains(&type_number(found)),
            Self::Pattern(pattern) => text(found).is_some_and(|text| pattern.is_match(text)),
            Self::Size(size) => {
                let length = found.as_array().filter(|_| !is_element).map(Vec::len);
                length.is_some_and(|length| i64::try_from(length) == Ok(*size))
            }
            Self::Modulo(divisor, remainder) => {
                let number = BsonNumber::of(found).filter(|number| !number.is_nan());
                let whole = number.and_then(|number| truncated(&number));
                whole.is_some_and(|whole| whole.checked_rem(*divisor) == Some(*remainder))
            }
            Self::ElementMatches(condition) => items(found, is_element)
                .iter()
                .filter_map(Bson::as_document)
                .any(|document| condition.matches(document)),
            Self::ElementMeets(predicates) => items(found, is_element)
                .iter()
                .any(|item| predicates.iter().all(|p| p.is_met(Some(item), false))),
            Self::Each(predicates) => {
                !predicates.is_empty() && predicates.iter().all(|p| p.is_met(value, is_element))
            }
            Self::Not(predicates) => !predicates.iter().all(|p| p.is_met(value, is_element)),
        }
    }

    fn is_met_by_missing(&self) -> bool {
        match self {
            Self::Compare(comparison, wanted) => match comparison {
                ComparedBy::Eq => *wanted == Bson::Null,
                ComparedBy::Gt => *wanted == Bson::MinKey,
                ComparedBy::Gte => matches!(wanted, Bson::Null | Bson::MinKey),
                ComparedBy::Lt => *wanted == Bson::MaxKey,
                ComparedBy::Lte => matches!(wanted, Bson::Null | Bson::MaxKey),
            },
            Self::In { values, .. } => values.contains(&Bson::Null),
            _ => false,
        }
    }
}

/// Returns the elements of a field that is an array.
fn items(value: &Bson, is_element: bool) -> &[Bson] {
    match value {
        Bson::Array(items) if !is_element => items,
        _ => &[],
    }
}

fn text(value: &Bson) -> Option<&str> {
    match value {
        Bson::String(text) | Bson::Symbol(text) => Some(text),
        _ => None,
    }
}

/// Returns the integer of a number without its fraction.
fn truncated(number: &BsonNumber) -> Option<i64> {
    match number {
        BsonNumber::Double(double) => BsonNumber::Double(double.trunc()).to_integer(),
        BsonNumber::Decimal(decimal) => BsonNumber::Decimal(decimal.with_scale(0)).to_integer(),
        number => number.to_integer(),
    }
}

/// Returns whether two values are equal, whatever the order of the fields of documents in them:
/// events keep none.
pub(super) fn equal(a: &Bson, b: &Bson) -> bool {
    match (a, b) {
        (Bson::Document(a), Bson::Document(b)) => {
            let is_same = |(name, value)| b.get(name).is_some_and(|other| equal(value, other));
            a.len() == b.len() && a.iter().all(is_same)
        }
        (Bson::Array(a), Bson::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (a, b) => compare(a, b).is_eq(),
    }
}

/// Compares values of one class of types; those of others are in no order, but for the least and
/// the greatest of all.
fn is_ordered(comparison: ComparedBy, found: &Bson, wanted: &Bson) -> bool {
    let is_of_all = matches!(wanted, Bson::MinKey | Bson::MaxKey);
    if !is_of_all && type_rank(found) != type_rank(wanted) {
        return false;
    }
    let is_nan = |value: &Bson| BsonNumber::of(value).is_some_and(|number| number.is_nan());
    let order = compare(found, wanted);
    if is_nan(found) != is_nan(wanted) {
        return false;
    }
    match comparison {
        ComparedBy::Eq => order == Ordering::Equal,
        ComparedBy::Gt => order == Ordering::Greater,
        ComparedBy::Gte => order != Ordering::Less,
        ComparedBy::Lt => order == Ordering::Less,
        ComparedBy::Lte => order != Ordering::Greater,
    }
}

/// Returns the number of a value's type in BSON.
fn type_number(value: &Bson) -> i32 {
    match value {
        Bson::Double(_) => 1,
        Bson::String(_) => 2,
        Bson::Document(_) => 3,
        Bson::Array(_) => 4,
        Bson::Binary(_) => 5,
        Bson::Undefined => 6,
        Bson::ObjectId(_) => 7,
        Bson::Boolean(_) => 8,
        Bson::DateTime(_) => 9,
        Bson::Null => 10,
        Bson::RegularExpression(_) => 11,
        Bson::DbPointer(_) => 12,
        Bson::JavaScriptCode(_) => 13,
        Bson::Symbol(_) => 14,
        Bson::JavaScriptCodeWithScope(_) => 15,
        Bson::Int32(_) => 16,
        Bson::Timestamp(_) => 17,
        Bson::Int64(_) => 18,
        Bson::Decimal128(_) => 19,
        Bson::MinKey => -1,
        Bson::MaxKey => 127,
    }
}
