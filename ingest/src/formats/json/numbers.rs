//! The numbers and the depth of a line by its text. The JSON parser reads integers beyond 64 bits
//! as floats, and floats of many digits with an error in the last place.

use bson::{Bson, Decimal128};

use crate::documents::Value;

/// The digits that a decimal of BSON has.
const DECIMAL_DIGITS: usize = 34;
/// Powers of ten up to this one are floats.
const EXACT_POWER: u64 = 22;
/// So are integers up to this one.
const EXACT_INTEGER: u64 = 1 << f64::MANTISSA_DIGITS;

/// Returns an integer of more than 64 bits as a decimal, else as its text.
pub(super) fn wide_integer(digits: &str) -> Bson {
    let significant = digits.trim_start_matches('-').trim_end_matches('0').len();
    match digits.parse::<Decimal128>() {
        Ok(decimal) if significant <= DECIMAL_DIGITS => Bson::Decimal128(decimal),
        _ => Bson::String(digits.to_owned()),
    }
}

/// Returns the numbers of a line that the JSON parser misreads: the rank of each among all of its
/// numbers, and its exact value.
pub(super) fn find_inexact(line: &str) -> Vec<(usize, Value)> {
    let numbers = numbers(line).enumerate();
    let exact = |(rank, number)| Some((rank, inexact(number)?));
    numbers.filter_map(exact).collect()
}

fn inexact(number: &str) -> Option<Value> {
    if !number.contains(['.', 'e', 'E']) {
        // The JSON parser reads exactly the integers of 64 bits, with or without a sign.
        let is_read =
            number.len() < 19 || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
        return (!is_read).then(|| Value::Other(wide_integer(number)));
    }
    if is_exact(number) {
        return None;
    }
    number.parse().ok().map(Value::Float)
}

/// Returns whether reading a number rounds once: an integer that is a float, times or by a power of
/// ten that is one.
fn is_exact(number: &str) -> bool {
    let (digits, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = whole
        .trim_start_matches('-')
        .bytes()
        .chain(fraction.bytes());
    let integer = digits.fold(0_u64, |n, d| {
        n.saturating_mul(10).saturating_add(u64::from(d - b'0'))
    });
    let power = power.parse::<i64>().ok();
    let power = power.and_then(|p| p.checked_sub(fraction.len() as i64));
    integer <= EXACT_INTEGER && power.is_some_and(|p| p.unsigned_abs() <= EXACT_POWER)
}

/// Returns the numbers of a line of JSON in order.
fn numbers(line: &str) -> impl Iterator<Item = &str> {
    let bytes = line.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at = after_string(bytes, at),
                b'-' | b'0'..=b'9' => {
                    let begin = at;
                    while at < bytes.len()
                        && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                    {
                        at += 1;
                    }
                    return Some(&line[begin..at]);
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Returns the levels of objects and arrays in one another, as far as the line goes.
pub(super) fn depth(line: &str) -> usize {
    let bytes = line.as_bytes();
    let (mut at, mut depth, mut deepest) = (0, 0_usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = after_string(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        at += 1;
    }
    deepest
}

/// Returns the byte after a string that begins at `at`.
fn after_string(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    at + 1
}
