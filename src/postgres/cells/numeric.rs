//! The binary format of `numeric`: digits to the base 10,000 (PostgreSQL's
//! `numeric_send`).

use bytes::{Buf, BufMut, BytesMut};

const NEGATIVE: u16 = 0x4000;
/// Decimal digits of one digit.
const GROUP: usize = 4;

/// Appends a number written as `-123.45`.
pub(super) fn put(text: &str, out: &mut BytesMut) {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (NEGATIVE, rest),
        None => (0, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let before = whole.len().div_ceil(GROUP);
    let padded = format!(
        "{}{whole}{fraction}{}",
        "0".repeat(before * GROUP - whole.len()),
        "0".repeat(fraction.len().div_ceil(GROUP) * GROUP - fraction.len())
    );
    let groups = padded.as_bytes().chunks(GROUP);
    let mut groups: Vec<i16> = groups
        .map(|group| {
            group
                .iter()
                .fold(0, |n, digit| n * 10 + i16::from(digit - b'0'))
        })
        .collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let count = |n: usize| i16::try_from(n).expect("BUG: a number has at most 76 digits");
    let weight = match groups.is_empty() {
        true => 0,
        false => count(before) - count(leading) - 1,
    };
    out.put_i16(count(groups.len()));
    out.put_i16(weight);
    out.put_u16(if groups.is_empty() { 0 } else { sign });
    out.put_i16(count(fraction.len()));
    for group in groups {
        out.put_i16(group);
    }
}

/// Reads a number; `None` if the bytes are not one, or it is not finite.
pub(in crate::postgres) fn read(mut bytes: &[u8]) -> Option<String> {
    /// Digits that a parameter may have.
    const DIGITS_MAX: i16 = 256;
    if bytes.len() < 8 {
        return None;
    }
    let (count, weight, sign, scale) = (
        bytes.get_i16(),
        bytes.get_i16(),
        bytes.get_u16(),
        bytes.get_i16(),
    );
    let is_small = |n: i16| (-DIGITS_MAX..=DIGITS_MAX).contains(&n);
    let is_number = matches!(sign, 0 | NEGATIVE)
        && is_small(count)
        && is_small(weight)
        && is_small(scale)
        && scale >= 0
        && usize::try_from(count).is_ok_and(|count| bytes.len() == 2 * count);
    if !is_number {
        return None;
    }
    let groups: Vec<i16> = bytes.chunks(2).map(|mut group| group.get_i16()).collect();
    if groups.iter().any(|group| !(0..10_000).contains(group)) {
        return None;
    }
    let group = |at: i16| {
        let at = usize::try_from(weight - at).ok();
        at.and_then(|at| groups.get(at)).copied().unwrap_or(0)
    };
    let whole: String = (0..=weight.max(0))
        .rev()
        .map(|at| format!("{:04}", group(at)))
        .collect();
    let groups_after = (scale + 3) / 4;
    let after: String = (1..=groups_after)
        .map(|at| format!("{:04}", group(-at)))
        .collect();
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let sign = if sign == NEGATIVE { "-" } else { "" };
    let after = &after[..usize::try_from(scale).ok()?];
    Some(match after.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{after}"),
    })
}
