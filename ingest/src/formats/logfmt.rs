//! logfmt: `time=2026-11-26T09:23:38Z level=info msg="two words" status=200 cached`.
//!
//! Pairs stand between spaces. A value in double quotes is a text, with the escapes of JSON;
//! without quotes, an integer, a decimal number, `true` and `false` have these types, and every
//! other value is a text. A word without `=` is a field that is true. Of a name that occurs twice
//! the last value counts. The time is in the fields that JSON has it in.

use std::borrow::Cow;

use storage::StreamKind;

use super::documents::{DocumentReader, ReadLine};
use crate::bad::Bad;
use crate::documents::{DocumentRow, Value};
use crate::error::Result;
use crate::reader::{Fit, FormatEntry};
use crate::stamp::Written;
use crate::text::LineText;

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "logfmt",
    kind: StreamKind::Documents,
    recognise: Some(recognise),
    is_closed: |_, _| false,
    reader: |options, _| DocumentReader::boxed(READ, options),
    holds_values: false,
    keeps_mark: false,
};

const READ: ReadLine = read;
/// The most digits of which a float keeps every one.
const FLOAT_DIGITS: usize = 15;

/// Recognises a line of two pairs or more, the first of them at its beginning. Names as programs
/// give them distinguish it from a text with an `=` in it.
fn recognise(line: &[u8]) -> Result<Fit, Bad> {
    let no_pair = || Bad::expected("no_pairs", 0, "name=value");
    let text = std::str::from_utf8(line).map_err(|_| no_pair())?;
    let is_name = |name: &str| {
        let is_usual = |b: u8| b.is_ascii_alphanumeric() || b"_-.@/".contains(&b);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || "@_".contains(c))
            && name.bytes().all(is_usual)
    };
    let (mut pairs, mut words) = (0, 0);
    for word in Words::new(text) {
        let word = word?;
        match word.value {
            _ if !is_name(word.name) => return Err(no_pair()),
            Some(_) => pairs += 1,
            None if pairs == 0 => return Err(no_pair()),
            None => words += 1,
        }
    }
    match pairs >= 2 && words < pairs {
        true => Ok(Fit::Whole),
        false => Err(no_pair()),
    }
}

fn read(line: LineText<'_>, row: &mut DocumentRow, _: Written<'_>) -> Result<(), Bad> {
    let text = line.text();
    let (mut pairs, mut words) = (0, 0);
    for word in Words::new(&text) {
        let Word { name, value } = word?;
        let value = match value {
            None => {
                words += 1;
                Value::Bool(true)
            }
            Some(RawValue::Quoted(value)) => {
                pairs += 1;
                Value::Text(row.store(&unescaped(value)))
            }
            Some(RawValue::Bare(value)) => {
                pairs += 1;
                typed(value).unwrap_or_else(|| Value::Text(row.store(value)))
            }
        };
        let mark = row.mark();
        row.enter(name, false)?;
        row.push(value)?;
        row.return_to(mark);
    }
    match words > pairs {
        true => Err(Bad::because(
            "no_pairs",
            0,
            format!("{words} words without = are more than the {pairs} pairs of the line"),
        )),
        false => Ok(()),
    }
}

/// Returns the value of a number or truth value; `None` for a text.
pub(super) fn typed(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // A number that would be written otherwise is a name: a code, a version, a telephone number.
    if !is_number(whole) || whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    match fraction {
        None => text.parse().ok().filter(|_| text != "-0").map(Value::Int),
        Some(fraction) => {
            let is_exact = is_number(fraction) && whole.len() + fraction.len() <= FLOAT_DIGITS;
            is_exact.then(|| text.parse().ok().map(Value::Float))?
        }
    }
}

/// A name and its value.
struct Word<'a> {
    name: &'a str,
    value: Option<RawValue<'a>>,
}

/// A value as it stands in its line.
enum RawValue<'a> {
    Bare(&'a str),
    /// Without its quotes.
    Quoted(&'a str),
}

/// Cuts a line into words.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn word(&mut self) -> Result<Word<'a>, Bad> {
        let begin = self.at;
        let rest = &self.text[begin..];
        let length = rest.find(is_end_of_name).unwrap_or(rest.len());
        if length == 0 {
            return Err(Bad::expected("bad_pair", begin, "a name"));
        }
        let name = &rest[..length];
        self.at += length;
        match &rest.as_bytes()[length..] {
            [b'=', b'"', ..] => {
                self.at += 2;
                Ok(Word {
                    name,
                    value: Some(RawValue::Quoted(self.quoted()?)),
                })
            }
            [b'=', ..] => {
                let value = &rest[length + 1..];
                let value = &value[..value.find(is_space).unwrap_or(value.len())];
                self.at += 1 + value.len();
                Ok(Word {
                    name,
                    value: Some(RawValue::Bare(value)),
                })
            }
            [b'"', ..] => Err(Bad::expected("bad_pair", self.at, "=, a space or the end")),
            _ => Ok(Word { name, value: None }),
        }
    }

    /// Reads a value up to its quote, behind which the word ends.
    fn quoted(&mut self) -> Result<&'a str, Bad> {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        let mut end = begin;
        loop {
            match bytes.get(end) {
                None => {
                    let expected = "\" at the end of the value";
                    return Err(Bad::expected("bad_pair", bytes.len(), expected));
                }
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        match self.text[self.at..].chars().next() {
            Some(next) if !is_space(next) => Err(Bad::expected(
                "bad_pair",
                self.at,
                "a space behind the value",
            )),
            _ => Ok(&self.text[begin..end]),
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Result<Word<'a>, Bad>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches(is_space).len();
        (self.at < self.text.len()).then(|| self.word())
    }
}

fn is_space(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn is_end_of_name(c: char) -> bool {
    is_space(c) || c == '=' || c == '"'
}

/// Returns a text with its escapes read as those of JSON; one that JSON does not know stays.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    serde_json::from_str(&format!("\"{text}\"")).map_or(text.into(), Cow::Owned)
}

#[cfg(test)]
mod tests;
