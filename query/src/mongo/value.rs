//! Values as MongoDB compares them ("Comparison/Sort Order" in its manual).
//!
//! # Invariants
//! * [`compare`] is a total order. Numbers of all types compare by their exact values; NaN is equal
//!   to itself and less than every other number.
//! * [`put_key`] writes the same bytes for two values if and only if they compare equal.

use std::cmp::Ordering;
use std::str::FromStr;

use bigdecimal::num_bigint::Sign;
use bigdecimal::{BigDecimal, ToPrimitive, Zero};
use bson::{Bson, Decimal128, Document};

/// A number of any of the four types.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BsonNumber {
    /// Of 32 or 64 bits.
    Int(i64),
    Double(f64),
    /// A decimal of 34 digits that is finite; other decimals are doubles here.
    Decimal(BigDecimal),
}

impl BsonNumber {
    /// Returns the number that a value is; `None` for one of another type.
    pub(super) fn of(value: &Bson) -> Option<Self> {
        Some(match value {
            Bson::Int32(number) => Self::Int(i64::from(*number)),
            Bson::Int64(number) => Self::Int(*number),
            Bson::Double(number) => Self::Double(*number),
            Bson::Decimal128(number) => Self::of_decimal(*number),
            _ => return None,
        })
    }

    fn of_decimal(number: Decimal128) -> Self {
        let text = number.to_string();
        match BigDecimal::from_str(&text) {
            Ok(finite) => Self::Decimal(finite),
            Err(_) if text.contains("NaN") => Self::Double(f64::NAN),
            Err(_) if text.starts_with('-') => Self::Double(f64::NEG_INFINITY),
            Err(_) => Self::Double(f64::INFINITY),
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Int(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::Decimal(number) => number.is_zero(),
        }
    }

    pub(super) fn is_nan(&self) -> bool {
        matches!(self, Self::Double(number) if number.is_nan())
    }

    /// Returns the nearest double.
    pub(super) fn to_double(&self) -> f64 {
        match self {
            Self::Int(number) => *number as f64,
            Self::Double(number) => *number,
            Self::Decimal(number) => number.to_f64().unwrap_or(f64::NAN),
        }
    }

    /// Returns the number if it is an integer of 64 bits, whatever its type.
    pub(super) fn to_integer(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Double(number) => {
                let fits = number.fract() == 0.0 && (-TWO_63..TWO_63).contains(number);
                fits.then_some(*number as i64)
            }
            Self::Decimal(number) if number.is_integer() => number.to_i64(),
            Self::Decimal(_) => None,
        }
    }

    /// Compares two numbers by their exact values.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Double(a), Self::Double(b)) => compare_doubles(*a, *b),
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            (Self::Int(a), Self::Double(b)) => compare_int(*a, *b),
            (Self::Double(a), Self::Int(b)) => compare_int(*b, *a).reverse(),
            (Self::Int(a), Self::Decimal(b)) => BigDecimal::from(*a).cmp(b),
            (Self::Decimal(a), Self::Int(b)) => a.cmp(&BigDecimal::from(*b)),
            (Self::Double(a), Self::Decimal(b)) => compare_decimal(*a, b),
            (Self::Decimal(a), Self::Double(b)) => compare_decimal(*b, a).reverse(),
        }
    }
}

/// The first double beyond integers of 64 bits.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

fn compare_doubles(a: f64, b: f64) -> Ordering {
    let of_nan = || b.is_nan().cmp(&a.is_nan());
    a.partial_cmp(&b).unwrap_or_else(of_nan)
}

fn compare_int(a: i64, b: f64) -> Ordering {
    if b.is_nan() || b < -TWO_63 {
        Ordering::Greater
    } else if b >= TWO_63 {
        Ordering::Less
    } else {
        // The cast cuts towards zero, so that the fraction has the sign of the double.
        a.cmp(&(b as i64))
            .then_with(|| compare_doubles(0.0, b.fract()))
    }
}

fn compare_decimal(a: f64, b: &BigDecimal) -> Ordering {
    match BigDecimal::try_from(a) {
        Ok(a) => a.cmp(b),
        Err(_) if a == f64::INFINITY => Ordering::Greater,
        Err(_) => Ordering::Less,
    }
}

/// Returns the place of a value's type in the order of types.
pub(super) fn type_rank(value: &Bson) -> u8 {
    match value {
        Bson::MinKey => 0,
        Bson::Undefined => 1,
        Bson::Null => 2,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 3,
        Bson::String(_) | Bson::Symbol(_) => 4,
        Bson::Document(_) => 5,
        Bson::Array(_) => 6,
        Bson::Binary(_) => 7,
        Bson::ObjectId(_) => 8,
        Bson::Boolean(_) => 9,
        Bson::DateTime(_) => 10,
        Bson::Timestamp(_) => 11,
        Bson::RegularExpression(_) => 12,
        Bson::DbPointer(_) => 13,
        Bson::JavaScriptCode(_) => 14,
        Bson::JavaScriptCodeWithScope(_) => 15,
        Bson::MaxKey => 16,
    }
}

/// Compares two values of any types.
pub(super) fn compare(a: &Bson, b: &Bson) -> Ordering {
    let by_type = type_rank(a).cmp(&type_rank(b));
    by_type.then_with(|| compare_of_type(a, b))
}

/// Compares as [`compare`], with a missing value between the least key and all others.
pub(super) fn compare_optional(a: Option<&Bson>, b: Option<&Bson>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(a, b),
        (Some(Bson::MinKey), None) => Ordering::Less,
        (None, Some(Bson::MinKey)) => Ordering::Greater,
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

fn compare_of_type(a: &Bson, b: &Bson) -> Ordering {
    if let (Some(a), Some(b)) = (BsonNumber::of(a), BsonNumber::of(b)) {
        return a.compare(&b);
    }
    match (a, b) {
        (Bson::String(a) | Bson::Symbol(a), Bson::String(b) | Bson::Symbol(b)) => a.cmp(b),
        (Bson::Document(a), Bson::Document(b)) => compare_documents(a, b),
        (Bson::Array(a), Bson::Array(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
            let first = pairs.into_iter().find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Bson::Binary(a), Bson::Binary(b)) => {
            let kind = |of: &bson::Binary| (of.bytes.len(), u8::from(of.subtype));
            kind(a).cmp(&kind(b)).then_with(|| a.bytes.cmp(&b.bytes))
        }
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (Bson::Boolean(a), Bson::Boolean(b)) => a.cmp(b),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.cmp(b),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => {
            (a.time, a.increment).cmp(&(b.time, b.increment))
        }
        (Bson::RegularExpression(a), Bson::RegularExpression(b)) => {
            let parts = |of: &bson::Regex| (of.pattern.to_string(), of.options.to_string());
            parts(a).cmp(&parts(b))
        }
        (Bson::JavaScriptCode(a), Bson::JavaScriptCode(b)) => a.cmp(b),
        (Bson::JavaScriptCodeWithScope(a), Bson::JavaScriptCodeWithScope(b)) => {
            let by_code = a.code.cmp(&b.code);
            by_code.then_with(|| compare_documents(&a.scope, &b.scope))
        }
        (Bson::DbPointer(a), Bson::DbPointer(b)) => format!("{a:?}").cmp(&format!("{b:?}")),
        _ => Ordering::Equal,
    }
}

/// Compares fields in their order: by type, then by name, then by value.
fn compare_documents(a: &Document, b: &Document) -> Ordering {
    let pairs = a.iter().zip(b).map(|((name_a, a), (name_b, b))| {
        let by_type = type_rank(a).cmp(&type_rank(b));
        let by_name = by_type.then_with(|| name_a.cmp(name_b));
        by_name.then_with(|| compare_of_type(a, b))
    });
    let first = pairs.into_iter().find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Returns whether a value counts as true in a condition: all do but false, null and zero.
pub(super) fn is_true(value: Option<&Bson>) -> bool {
    match value {
        None | Some(Bson::Null | Bson::Undefined | Bson::Boolean(false)) => false,
        Some(value) => BsonNumber::of(value).is_none_or(|number| !number.is_zero()),
    }
}

/// Appends the key of a value, by which equal values are found.
pub(super) fn put_key(value: &Bson, key: &mut Vec<u8>) {
    key.push(type_rank(value));
    if let Some(number) = BsonNumber::of(value) {
        return put_number_key(&number, key);
    }
    match value {
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => {
            put_bytes(text.as_bytes(), key);
        }
        Bson::Document(document) => put_document_key(document, key),
        Bson::Array(items) => {
            put_length(items.len(), key);
            items.iter().for_each(|item| put_key(item, key));
        }
        Bson::Binary(binary) => {
            key.push(binary.subtype.into());
            put_bytes(&binary.bytes, key);
        }
        Bson::ObjectId(id) => key.extend(id.bytes()),
        Bson::Boolean(truth) => key.push(u8::from(*truth)),
        Bson::DateTime(time) => key.extend(time.timestamp_millis().to_le_bytes()),
        Bson::Timestamp(time) => {
            key.extend(time.time.to_le_bytes());
            key.extend(time.increment.to_le_bytes());
        }
        Bson::RegularExpression(regex) => {
            put_bytes(regex.pattern.as_str().as_bytes(), key);
            put_bytes(regex.options.as_str().as_bytes(), key);
        }
        Bson::JavaScriptCodeWithScope(code) => {
            put_bytes(code.code.as_bytes(), key);
            put_document_key(&code.scope, key);
        }
        Bson::DbPointer(pointer) => put_bytes(format!("{pointer:?}").as_bytes(), key),
        // The type says all of these.
        _ => {}
    }
}

fn put_document_key(document: &Document, key: &mut Vec<u8>) {
    put_length(document.len(), key);
    for (name, value) in document {
        put_bytes(name.as_bytes(), key);
        put_key(value, key);
    }
}

/// Writes an integer of 64 bits as such, another double as one, and only what is neither as a
/// decimal: that is the same for equal numbers of all types.
fn put_number_key(number: &BsonNumber, key: &mut Vec<u8>) {
    if let Some(integer) = number.to_integer() {
        key.push(0);
        key.extend(integer.to_le_bytes());
        return;
    }
    let double = match number {
        _ if number.is_nan() => Some(f64::NAN),
        BsonNumber::Decimal(decimal) => {
            let nearest = number.to_double();
            let is_same = nearest.is_finite() && compare_decimal(nearest, decimal).is_eq();
            is_same.then_some(nearest)
        }
        BsonNumber::Int(_) | BsonNumber::Double(_) => Some(number.to_double()),
    };
    match (double, number) {
        (Some(double), _) => {
            key.push(1);
            key.extend(double.to_bits().to_le_bytes());
        }
        (None, BsonNumber::Decimal(decimal)) => {
            let (digits, scale) = decimal.normalized().into_bigint_and_exponent();
            let (sign, bytes) = digits.to_bytes_le();
            key.extend([2, u8::from(sign == Sign::Minus)]);
            key.extend(scale.to_le_bytes());
            put_bytes(&bytes, key);
        }
        (None, _) => unreachable!("BUG: only a decimal is no double"),
    }
}

fn put_bytes(bytes: &[u8], key: &mut Vec<u8>) {
    put_length(bytes.len(), key);
    key.extend(bytes);
}

fn put_length(length: usize, key: &mut Vec<u8>) {
    key.extend((length as u64).to_le_bytes());
}
