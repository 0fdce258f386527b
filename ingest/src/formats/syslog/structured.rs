//! Structured data of RFC 5424, section 6.3: `[id name="value" …][…]`.

use std::collections::HashMap;

use bson::{Bson, Document};

use crate::bad::Bad;
use crate::documents::{DocumentRow, Value};
use crate::stamp::Misfit;
use crate::text::{ByteSpan, LineText};

/// The field that structured data are below.
const FIELD: &str = "structured_data";

/// Returns the bytes of the structured data with which a text begins.
pub(super) fn length(text: &[u8]) -> Result<usize, Misfit> {
    let mut at = 0;
    while text.get(at) == Some(&b'[') {
        at = element(text, at, |_, _, _| {})?;
    }
    match at {
        0 => Err((0, "structured data in brackets or -")),
        at => Ok(at),
    }
}

/// Appends the parameters of the structured data at a place. One whose name occurs twice in an
/// element becomes an array.
pub(super) fn push(
    line: LineText<'_>,
    (from, to): ByteSpan,
    row: &mut DocumentRow,
) -> Result<(), Bad> {
    let data = &line.bytes()[from..to];
    let place = |(begin, end): ByteSpan| (from + begin, from + end);
    let mut found: Vec<(ByteSpan, Option<ByteSpan>, Vec<String>)> = Vec::new();
    let mut ranks: HashMap<(&[u8], Option<&[u8]>), usize> = HashMap::new();
    let mut at = 0;
    while at < data.len() {
        let next = element(data, at, |id, name, value| {
            let texts = (&data[id.0..id.1], name.map(|name| &data[name.0..name.1]));
            let rank = *ranks.entry(texts).or_insert(found.len());
            if rank == found.len() {
                found.push((place(id), name.map(place), Vec::new()));
            }
            let value = value.map(|value| unescaped(&line.part(place(value))));
            found[rank].2.extend(value);
        });
        at = next.map_err(|(at, expected)| Bad::expected("bad_data", from + at, expected))?;
    }
    for (id, name, mut values) in found {
        let mark = row.mark();
        row.enter(FIELD, false)?;
        row.enter(&line.part(id), true)?;
        if let Some(name) = name {
            row.enter(&line.part(name), true)?;
        }
        let value = match (name, values.len()) {
            (None, _) => Value::Other(Bson::Document(Document::new())),
            (_, 1) => Value::Text(row.store(&values.remove(0))),
            _ => Value::Other(Bson::Array(values.into_iter().map(Bson::String).collect())),
        };
        row.push(value)?;
        row.return_to(mark);
    }
    Ok(())
}

/// Reads the element that begins at a place. Returns the place behind it, and calls `take` with the
/// places of its id and of each name and value, or of the id alone where it has no parameter.
fn element(
    text: &[u8],
    begin: usize,
    mut take: impl FnMut(ByteSpan, Option<ByteSpan>, Option<ByteSpan>),
) -> Result<usize, Misfit> {
    let id = name(text, begin + 1).ok_or((begin + 1, "the id of structured data"))?;
    let mut at = id.1;
    if text.get(at) == Some(&b']') {
        take(id, None, None);
        return Ok(at + 1);
    }
    loop {
        match text.get(at) {
            Some(b']') => return Ok(at + 1),
            Some(b' ') => at += 1,
            _ => return Err((at, "a space or ] in structured data")),
        }
        let name = name(text, at).ok_or((at, "the name of a parameter"))?;
        if text.get(name.1..name.1 + 2) != Some(b"=\"") {
            return Err((name.1, "=\" behind the name of a parameter"));
        }
        let from = name.1 + 2;
        let to = quoted_end(text, from).ok_or((text.len(), "\" at the end of a value"))?;
        take(id, Some(name), Some((from, to)));
        at = to + 1;
    }
}

/// Returns the place of a name: characters without space, `=`, `]`, `"`.
fn name(text: &[u8], begin: usize) -> Option<ByteSpan> {
    let rest = text.get(begin..)?;
    let is_end = |b: &u8| matches!(b, b' ' | b'=' | b']' | b'"') || b.is_ascii_control();
    let length = rest.iter().position(is_end)?;
    (length > 0).then_some((begin, begin + length))
}

/// Returns the place of the first quote that has no backslash of its own before it.
fn quoted_end(text: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin;
    loop {
        match text.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns a value without the backslashes before `"`, `\` and `]`; others are part of it.
fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if !behind.starts_with(['"', '\\', ']']) {
            text.push('\\');
        }
        let next = behind.chars().next();
        text.extend(next);
        rest = &behind[next.map_or(0, char::len_utf8)..];
    }
    text.push_str(rest);
    text
}
