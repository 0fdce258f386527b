//! Comparisons of a stored value with one of a filter.
//!
//! # Invariants
//! * Only values of one class of types are in an order; the keys below and above all values are in
//!   one with every value.
//! * NaN is equal to itself, and neither less nor greater than a number.

use std::cmp::Ordering;

use bson::Bson;

use crate::mongo::value::{BsonNumber, compare, type_rank};

/// An operator of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ComparedBy {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

/// Returns whether a stored value is equal to one of a filter.
///
/// This is where we differ from MongoDB: the fields of documents may come in any order, for stored
/// events keep none. Arrays keep theirs, so the documents inside them must match field by field.
fn equal(found: &Bson, wanted: &Bson) -> bool {
    match (found, wanted) {
        (Bson::Document(found), Bson::Document(wanted)) => {
            let is_same = |(name, value)| found.get(name).is_some_and(|other| equal(other, value));
            found.len() == wanted.len() && wanted.iter().all(is_same)
        }
        (found, wanted) => compare(found, wanted).is_eq(),
    }
}

/// Returns whether a value is equal to one of a filter; an element of an array keeps the order of
/// its fields.
pub(super) fn equal_at(found: &Bson, wanted: &Bson, is_element: bool) -> bool {
    match is_element {
        true => compare(found, wanted).is_eq(),
        false => equal(found, wanted),
    }
}

impl ComparedBy {
    /// Returns whether a stored value stands in this order to one of a filter.
    pub(super) fn is_met(self, found: &Bson, wanted: &Bson, is_element: bool) -> bool {
        if self == Self::Eq {
            return equal_at(found, wanted, is_element);
        }
        let is_bound_of_all = matches!(wanted, Bson::MinKey | Bson::MaxKey);
        if !is_bound_of_all && type_rank(found) != type_rank(wanted) {
            return false;
        }
        // A filter accepts a document that is equal in its own sense for `$gte` and `$lte` too.
        if self.includes_equal() && equal_at(found, wanted, is_element) {
            return true;
        }
        if is_nan(found) != is_nan(wanted) {
            return false;
        }
        match (self, compare(found, wanted)) {
            (Self::Gt | Self::Gte, Ordering::Greater) | (Self::Lt | Self::Lte, Ordering::Less) => {
                true
            }
            (_, Ordering::Equal) => self.includes_equal(),
            _ => false,
        }
    }

    /// Returns whether a missing field meets the comparison: it counts as null.
    pub(super) fn is_met_by_missing(self, wanted: &Bson) -> bool {
        match wanted {
            Bson::Null => self.includes_equal(),
            Bson::MinKey => matches!(self, Self::Gt | Self::Gte),
            Bson::MaxKey => matches!(self, Self::Lt | Self::Lte),
            _ => false,
        }
    }

    fn includes_equal(self) -> bool {
        matches!(self, Self::Eq | Self::Gte | Self::Lte)
    }
}

fn is_nan(value: &Bson) -> bool {
    match value {
        Bson::Double(number) => number.is_nan(),
        Bson::Decimal128(_) => BsonNumber::of(value).is_some_and(|number| number.is_nan()),
        _ => false,
    }
}

/// The values of `$in`, sorted so that one of very many is found soon.
#[derive(Debug, Default)]
pub(super) struct ValueList(Vec<Bson>);

impl ValueList {
    pub(super) fn new(mut values: Vec<Bson>) -> Self {
        values.sort_by(compare);
        values.dedup_by(|a, b| compare(a, b).is_eq());
        Self(values)
    }

    pub(super) fn contains(&self, found: &Bson, is_element: bool) -> bool {
        if self
            .0
            .binary_search_by(|value| compare(value, found))
            .is_ok()
        {
            return true;
        }
        // Documents are equal to more than their place in the order says.
        let is_document = matches!(found, Bson::Document(_));
        is_document && !is_element && self.0.iter().any(|wanted| equal(found, wanted))
    }

    pub(super) fn values(&self) -> &[Bson] {
        &self.0
    }
}
