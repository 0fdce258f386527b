//! MessagePack (the specification at msgpack.org), as far as Fluent's protocol needs it: the place
//! where a value ends, and its tokens. No value is built in memory, so that a small one cannot
//! announce a large one.
//!
//! # Invariants
//! * No input makes a reader panic, recurse or take memory.
//! * [`Scanner`] finds the same end whatever pieces the bytes come in, and refuses a value that
//!   cannot end within its limit as soon as that is known: each value takes a byte at least.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

use rmp::Marker;

/// Reason for which bytes cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// They are no MessagePack, or end within a value.
    Malformed,
    /// The value has more bytes than its limit.
    TooLong,
}

/// A value without its elements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MsgToken<'a> {
    Nil,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Single(f32),
    Double(f64),
    /// Text, of any bytes.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// So many values follow.
    Array(u64),
    /// So many pairs of values follow.
    Map(u64),
    Extension(u8, &'a [u8]),
}

/// The size of a value: its own bytes, without those of its elements, and the values that follow as
/// its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    bytes: u64,
    elements: u64,
}

/// Reads the size of the value at the beginning; `None` if its first bytes are not all there.
fn size(bytes: &[u8]) -> Result<Option<Size>, Unreadable> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    // The length behind the marker, a number of so many bytes.
    let length = |digits: usize| {
        let digits = bytes.get(1..=digits)?;
        let number = |sum: u64, digit: &u8| sum << 8 | u64::from(*digit);
        Some(digits.iter().fold(0, number))
    };
    let flat = |bytes: u64| Some(Size { bytes, elements: 0 });
    let text =
        |digits: usize, type_bytes: u64| flat(1 + digits as u64 + type_bytes + length(digits)?);
    let nested = |digits: usize, each: u64| {
        Some(Size {
            bytes: 1 + digits as u64,
            elements: each * length(digits)?,
        })
    };
    let inline = |elements: u64| Some(Size { bytes: 1, elements });
    Ok(match Marker::from_u8(first) {
        Marker::Reserved => return Err(Unreadable::Malformed),
        Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => {
            flat(1)
        }
        Marker::U8 | Marker::I8 => flat(2),
        Marker::U16 | Marker::I16 => flat(3),
        Marker::U32 | Marker::I32 | Marker::F32 => flat(5),
        Marker::U64 | Marker::I64 | Marker::F64 => flat(9),
        Marker::FixStr(length) => flat(1 + u64::from(length)),
        Marker::Str8 | Marker::Bin8 => text(1, 0),
        Marker::Str16 | Marker::Bin16 => text(2, 0),
        Marker::Str32 | Marker::Bin32 => text(4, 0),
        Marker::FixExt1 => flat(3),
        Marker::FixExt2 => flat(4),
        Marker::FixExt4 => flat(6),
        Marker::FixExt8 => flat(10),
        Marker::FixExt16 => flat(18),
        Marker::Ext8 => text(1, 1),
        Marker::Ext16 => text(2, 1),
        Marker::Ext32 => text(4, 1),
        Marker::FixArray(length) => inline(length.into()),
        Marker::Array16 => nested(2, 1),
        Marker::Array32 => nested(4, 1),
        Marker::FixMap(length) => inline(2 * u64::from(length)),
        Marker::Map16 => nested(2, 2),
        Marker::Map32 => nested(4, 2),
    })
}

/// Finds the end of a value whose bytes come in pieces.
#[derive(Debug)]
pub(crate) struct Scanner {
    /// The place of the next value to look at, from the beginning.
    at: u64,
    /// Values that are still to come.
    left: u64,
    bytes_max: u64,
}

impl Scanner {
    /// Begins with a value of so many bytes at most.
    pub(crate) fn within(bytes_max: u64) -> Self {
        Self {
            at: 0,
            left: 1,
            bytes_max,
        }
    }

    /// Looks at all bytes that have come since the beginning. Returns the length of the value, if
    /// its end is among them.
    ///
    /// # Errors
    /// If there is no value, or none within the limit.
    pub(crate) fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Unreadable> {
        while self.left > 0 {
            let place = usize::try_from(self.at).unwrap_or(usize::MAX);
            let Some(size) = bytes.get(place..).map_or(Ok(None), size)? else {
                return Ok(None);
            };
            self.at += size.bytes;
            self.left = self.left - 1 + size.elements;
            if self.at + self.left > self.bytes_max {
                return Err(Unreadable::TooLong);
            }
        }
        let end = usize::try_from(self.at).unwrap_or(usize::MAX);
        Ok((end <= bytes.len()).then_some(end))
    }
}

/// Reads tokens one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens<'a>(&'a [u8]);

impl<'a> Tokens<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the first bytes that were not read, so many of them at most.
    pub(crate) fn first(self, length: usize) -> &'a [u8] {
        self.0.get(..length).unwrap_or(self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the next token.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn next(&mut self) -> Result<MsgToken<'a>, Unreadable> {
        let size = size(self.0)?.ok_or(Unreadable::Malformed)?;
        let length = usize::try_from(size.bytes).map_err(|_| Unreadable::Malformed)?;
        let (own, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(Unreadable::Malformed)?;
        self.0 = rest;
        Ok(token(own, size.elements))
    }

    /// Skips a value with its elements. Returns its bytes.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn skip(&mut self) -> Result<&'a [u8], Unreadable> {
        let end = Scanner::within(self.0.len() as u64).end(self.0);
        let end = end.ok().flatten().ok_or(Unreadable::Malformed)?;
        let (value, rest) = self.0.split_at(end);
        self.0 = rest;
        Ok(value)
    }
}

/// Reads a token from its own bytes, of which there are as many as its size says.
fn token(own: &[u8], elements: u64) -> MsgToken<'_> {
    let payload = |from: usize| own.get(from..).unwrap_or_default();
    let unsigned = || {
        let number = |sum: u64, digit: &u8| sum << 8 | u64::from(*digit);
        payload(1).iter().fold(0, number)
    };
    // The number has so many bits, of which the first is the sign.
    let signed = |bits: u32| (unsigned() << (64 - bits)).cast_signed() >> (64 - bits);
    match Marker::from_u8(own[0]) {
        Marker::FixPos(number) => MsgToken::Unsigned(number.into()),
        Marker::FixNeg(number) => MsgToken::Int(number.into()),
        Marker::True => MsgToken::Bool(true),
        Marker::False => MsgToken::Bool(false),
        Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => MsgToken::Unsigned(unsigned()),
        Marker::I8 => MsgToken::Int(signed(8)),
        Marker::I16 => MsgToken::Int(signed(16)),
        Marker::I32 => MsgToken::Int(signed(32)),
        Marker::I64 => MsgToken::Int(signed(64)),
        Marker::F32 => MsgToken::Single(f32::from_bits((unsigned() & 0xffff_ffff) as u32)),
        Marker::F64 => MsgToken::Double(f64::from_bits(unsigned())),
        Marker::FixStr(_) => MsgToken::Text(payload(1)),
        Marker::Str8 => MsgToken::Text(payload(2)),
        Marker::Str16 => MsgToken::Text(payload(3)),
        Marker::Str32 => MsgToken::Text(payload(5)),
        Marker::Bin8 => MsgToken::Bytes(payload(2)),
        Marker::Bin16 => MsgToken::Bytes(payload(3)),
        Marker::Bin32 => MsgToken::Bytes(payload(5)),
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => MsgToken::Array(elements),
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => MsgToken::Map(elements / 2),
        Marker::FixExt1
        | Marker::FixExt2
        | Marker::FixExt4
        | Marker::FixExt8
        | Marker::FixExt16 => extension(payload(1)),
        Marker::Ext8 => extension(payload(2)),
        Marker::Ext16 => extension(payload(3)),
        Marker::Ext32 => extension(payload(5)),
        Marker::Null | Marker::Reserved => MsgToken::Nil,
    }
}

fn extension(payload: &[u8]) -> MsgToken<'_> {
    match payload.split_first() {
        Some((kind, data)) => MsgToken::Extension(*kind, data),
        None => MsgToken::Nil,
    }
}

#[cfg(test)]
mod tests;
