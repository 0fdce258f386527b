//! Lines of fields in a fixed order, as products document them: words, texts in quotes, stamps in
//! brackets, with one space between them.
//!
//! A format is a table of [`FieldRule`]s. Later versions of a product append fields: a line may end
//! behind the fields that every version has, and fields behind the last rule are the column
//! `extra`.

use crate::bad::Bad;
use crate::documents::{DocumentRow, Value};
use crate::stamp::Written;
use crate::text::{ByteSpan, LineText};

/// The column of the text behind the last known field.
pub(super) const EXTRA: &str = "extra";

/// The form in which a field stands in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldShape {
    /// Without spaces.
    Word,
    /// In double quotes, up to the first one behind an even number of backslashes; or a bare `-`.
    Escaped,
    /// In double quotes, up to the first one with a space or the end of the line behind it; or a
    /// bare `-`.
    Quoted,
    /// In square brackets.
    Bracketed,
}

/// Reads a stamp.
pub(super) type ReadStamp = fn(text: &str, written: Written<'_>) -> Option<i64>;
/// Appends the values of a field that has parts of its own.
pub(super) type PushParts = fn(line: LineText<'_>, place: ByteSpan, row: &mut DocumentRow);

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldType {
    Text,
    Int,
    /// A number of which -1 says that there is none.
    FloatOrMinusOne,
    /// `ADDRESS:PORT`; the port gets the column of this name.
    Address(&'static str),
    /// The time of the event.
    Stamp(ReadStamp),
    /// A field that becomes several columns.
    Parts(PushParts),
}

/// One field of a format: its column, form and type. `-` is null in each.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldRule {
    name: &'static str,
    shape: FieldShape,
    field_type: FieldType,
}

impl FieldRule {
    pub(super) const fn new(name: &'static str, shape: FieldShape, field_type: FieldType) -> Self {
        Self {
            name,
            shape,
            field_type,
        }
    }

    /// Makes a rule for a text without spaces.
    pub(super) const fn word(name: &'static str) -> Self {
        Self::new(name, FieldShape::Word, FieldType::Text)
    }

    /// Makes a rule for an integer.
    pub(super) const fn int(name: &'static str) -> Self {
        Self::new(name, FieldShape::Word, FieldType::Int)
    }

    fn push(
        &self,
        line: LineText<'_>,
        place: ByteSpan,
        row: &mut DocumentRow,
        written: Written<'_>,
    ) -> Option<()> {
        let text = line.part(place);
        match self.field_type {
            FieldType::Stamp(read) => row.time_us = Some(read(&text, written)?),
            _ if text == "-" => {}
            FieldType::Text => row.push_text(self.name, &text),
            FieldType::Int => row.push_value(self.name, Value::Int(text.parse().ok()?)),
            FieldType::FloatOrMinusOne if text == "-1" => {}
            FieldType::FloatOrMinusOne => {
                let number = text
                    .parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite())?;
                row.push_value(self.name, Value::Float(number));
            }
            FieldType::Address(port) => push_address(self.name, port, &text, row),
            FieldType::Parts(push) => push(line, place, row),
        }
        Some(())
    }
}

/// Reads a line by the rules of its format, the first `required` of which every line has. Returns
/// the number of its fields that stand in quotes.
///
/// # Errors
/// `reason`, or `bad_time` for the stamp.
pub(super) fn read_fields(
    line: LineText<'_>,
    (rules, required): (&[FieldRule], usize),
    reason: &'static str,
    row: &mut DocumentRow,
    written: Written<'_>,
) -> Result<usize, Bad> {
    let (mut fields, mut quoted) = (Fields::new(line, 0), 0);
    for (rank, rule) in rules.iter().enumerate() {
        if fields.is_at_end() && rank >= required {
            return Ok(quoted);
        }
        let at = fields.at;
        quoted += usize::from(line.bytes().get(at) == Some(&b'"'));
        let expected = || match rule.field_type {
            FieldType::Stamp(_) => Bad::expected("bad_time", at, "a time"),
            _ => Bad::expected(reason, at, format!("the field {}", rule.name)),
        };
        let place = fields.next(rule.shape).ok_or_else(expected)?;
        rule.push(line, place, row, written).ok_or_else(expected)?;
    }
    if let Some(rest) = fields.rest() {
        row.push_text(EXTRA, &line.part(rest));
    }
    Ok(quoted)
}

/// A line that is read field by field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    line: LineText<'a>,
    /// The place of the next field.
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: LineText<'a>, at: usize) -> Self {
        Self { line, at }
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.line.bytes().len()
    }

    /// Returns the place of what follows the fields so far.
    pub(super) fn rest(&self) -> Option<ByteSpan> {
        (!self.is_at_end()).then(|| (self.at, self.line.bytes().len()))
    }

    /// Returns the place of the next field, without its quotes or brackets; `None` where the line
    /// has none of this form.
    pub(super) fn next(&mut self, shape: FieldShape) -> Option<ByteSpan> {
        let bytes = self.line.bytes();
        let rest = bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let inner = |length: usize| (self.at + 1, self.at + 1 + length);
        let (place, end) = match shape {
            FieldShape::Word => {
                let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
                let end = self.at + length;
                ((length > 0).then_some((self.at, end))?, end)
            }
            FieldShape::Bracketed => {
                let place = inner(memchr::memchr(b']', rest.strip_prefix(b"[")?)?);
                (place, place.1 + 1)
            }
            FieldShape::Quoted | FieldShape::Escaped
                if rest.starts_with(b"-") && matches!(rest.get(1), None | Some(b' ')) =>
            {
                ((self.at, self.at + 1), self.at + 1)
            }
            FieldShape::Quoted | FieldShape::Escaped => {
                let place = inner(quoted(rest.strip_prefix(b"\"")?, shape)?);
                (place, place.1 + 1)
            }
        };
        self.at = match bytes.get(end) {
            None => end,
            Some(b' ') => end + 1,
            Some(_) => return None,
        };
        Some(place)
    }

    /// Returns the place of the next word.
    pub(super) fn word(&mut self) -> Option<ByteSpan> {
        self.next(FieldShape::Word)
    }
}

/// Returns the bytes of a text before its closing quote.
fn quoted(text: &[u8], shape: FieldShape) -> Option<usize> {
    let is_end = |at: usize| match shape {
        FieldShape::Escaped => {
            let escapes = text[..at].iter().rev().take_while(|b| **b == b'\\');
            escapes.count() % 2 == 0
        }
        _ => matches!(text.get(at + 1), None | Some(b' ')),
    };
    memchr::memchr_iter(b'"', text).find(|at| is_end(*at))
}

/// Appends an address and its port; a text without a port is an address.
pub(super) fn push_address(
    name: &'static str,
    port_name: &'static str,
    text: &str,
    row: &mut DocumentRow,
) {
    let cut = text.rsplit_once(':');
    let cut = cut.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let (host, port) = cut.map_or((text, None), |(host, port)| (host, Some(port)));
    let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    row.push_text(name, address.unwrap_or(host));
    if let Some(port) = port {
        row.push_value(port_name, Value::Int(i64::from(port)));
    }
}
