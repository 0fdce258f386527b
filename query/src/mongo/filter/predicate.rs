//! Conditions on the values of one field.

use bson::Bson;

use super::DocumentCondition;
use super::comparison::{ComparedBy, ValueList};
use super::pattern::TextPattern;
use super::work::MatchWork;
use crate::mongo::path::{DottedPath, PathRoot};
use crate::mongo::value::BsonNumber;

/// A condition on the values of a field.
#[derive(Debug)]
pub(super) enum Predicate {
    Compare(ComparedBy, Bson),
    In {
        values: ValueList,
        patterns: Vec<TextPattern>,
    },
    Exists,
    /// The types, by their numbers in BSON.
    Type(Vec<i32>),
    Pattern(TextPattern),
    /// The number of elements.
    Size(usize),
    Modulo {
        divisor: i64,
        remainder: i64,
    },
    Element(ElementCondition),
    /// Each of them holds, and there is one.
    Each(Vec<Self>),
    /// Not all of them hold.
    Not(Vec<Self>),
}

/// The condition of `$elemMatch`.
#[derive(Debug)]
pub(super) enum ElementCondition {
    /// On the fields of an element.
    Fields(Box<DocumentCondition>),
    /// On the element itself.
    Value(Vec<Predicate>),
}

impl ElementCondition {
    pub(super) fn is_met(&self, item: &Bson, work: &mut MatchWork<'_>) -> bool {
        match self {
            Self::Fields(condition) => {
                PathRoot::of(item).is_some_and(|root| condition.matches(root, work))
            }
            Self::Value(predicates) => predicates.iter().all(|p| p.is_met(Some(item), true, work)),
        }
    }
}

impl Predicate {
    /// Returns whether the condition holds for the values of a path. A negation is one of the whole
    /// path: no value of it may meet the condition.
    pub(super) fn holds(
        &self,
        path: &DottedPath,
        root: PathRoot<'_>,
        work: &mut MatchWork<'_>,
    ) -> bool {
        match self {
            Self::Not(predicates) => !predicates.iter().all(|p| p.holds(path, root, work)),
            Self::Each(predicates) => {
                !predicates.is_empty() && predicates.iter().all(|p| p.holds(path, root, work))
            }
            // These look at the array at the end alone, and not at the arrays in it.
            Self::Size(_) | Self::Element(_) => path.any(root, &mut |value, is_element| {
                !is_element && self.is_met(value, false, work)
            }),
            _ => path.any(root, &mut |value, is_element| {
                self.is_met(value, is_element, work)
            }),
        }
    }

    /// Returns whether one value meets the condition.
    fn is_met(&self, value: Option<&Bson>, is_element: bool, work: &mut MatchWork<'_>) -> bool {
        if !work.goes_on() {
            return true;
        }
        match self {
            Self::Each(predicates) => {
                !predicates.is_empty()
                    && predicates.iter().all(|p| p.is_met(value, is_element, work))
            }
            Self::Not(predicates) => !predicates.iter().all(|p| p.is_met(value, is_element, work)),
            _ => match value {
                Some(found) => self.is_met_by(found, is_element, work),
                None => self.is_met_by_missing(),
            },
        }
    }

    fn is_met_by(&self, found: &Bson, is_element: bool, work: &mut MatchWork<'_>) -> bool {
        match self {
            Self::Compare(comparison, wanted) => comparison.is_met(found, wanted, is_element),
            Self::In { values, patterns } => {
                values.contains(found, is_element)
                    || patterns.iter().any(|p| work.is_match(p, found))
            }
            Self::Exists => true,
            Self::Type(types) => types.contains(&type_number(found)),
            Self::Pattern(pattern) => work.is_match(pattern, found),
            Self::Size(size) => found.as_array().is_some_and(|items| items.len() == *size),
            Self::Modulo { divisor, remainder } => {
                let whole = BsonNumber::of(found).and_then(|number| truncated(&number));
                whole.is_some_and(|whole| whole.wrapping_rem(*divisor) == *remainder)
            }
            Self::Element(condition) => found
                .as_array()
                .is_some_and(|items| items.iter().any(|item| condition.is_met(item, work))),
            Self::Each(_) | Self::Not(_) => unreachable!("BUG: is_met looks into lists"),
        }
    }

    fn is_met_by_missing(&self) -> bool {
        match self {
            Self::Compare(comparison, wanted) => comparison.is_met_by_missing(wanted),
            Self::In { values, .. } => values.contains(&Bson::Null, false),
            _ => false,
        }
    }
}

/// Returns the integer of a number without its fraction; `None` beyond 64 bits.
pub(super) fn truncated(number: &BsonNumber) -> Option<i64> {
    match number {
        BsonNumber::Double(double) => BsonNumber::Double(double.trunc()).to_integer(),
        BsonNumber::Decimal(decimal) => {
            // A number with a huge exponent would have as many digits if it were cut.
            let is_near = number.to_double().abs() < 1e19;
            let cut = is_near.then(|| BsonNumber::Decimal(decimal.with_scale(0)));
            cut.and_then(|cut| cut.to_integer())
        }
        BsonNumber::Int(number) => Some(*number),
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
