//! Stages that make labels of a line: JSON, logfmt, patterns and regular expressions.

use serde_json::Value;

use super::entry::LogEntry;
use super::labels::sanitized;
use super::pattern::{LinePattern, Regex};

/// Suffix of a label whose name is taken.
const EXTRACTED: &str = "_extracted";
/// Deepest nesting of JSON objects whose fields become labels.
const DEPTH_MAX: usize = 64;

/// Sets a label to a value that was found in the line. A name that the stream or its metadata has
/// gets a suffix, unless the values are the same.
fn extract(entry: &mut LogEntry, name: &str, value: String) {
    let taken = entry.stream.get(name).or_else(|| entry.metadata.get(name));
    match taken {
        Some(same) if *same == value => {}
        Some(_) => entry.set(&format!("{name}{EXTRACTED}"), value),
        None => entry.set(name, value),
    }
}

/// Makes labels of all fields of a JSON object, those of objects inside with the names joined by
/// `_`; or of the fields that are named, each by a path such as `a.b[0]`.
pub(super) fn json(entry: &mut LogEntry, named: &[(String, String)]) {
    let value: Value = match serde_json::from_str(&entry.line) {
        Ok(value @ Value::Object(_)) => value,
        Ok(_) => return entry.fail("JSONParserErr", "the line is no JSON object"),
        Err(error) => return entry.fail("JSONParserErr", &error.to_string()),
    };
    if named.is_empty() {
        return fields(entry, "", &value, 0);
    }
    for (label, path) in named {
        let text = at_path(&value, path).map(text_of).unwrap_or_default();
        extract(entry, label, text);
    }
}

fn fields(entry: &mut LogEntry, prefix: &str, value: &Value, depth: usize) {
    let Value::Object(object) = value else { return };
    for (name, value) in object {
        let name = match prefix {
            "" => sanitized(name),
            prefix => format!("{prefix}_{}", sanitized(name)),
        };
        match value {
            Value::Object(_) if depth < DEPTH_MAX => fields(entry, &name, value, depth + 1),
            Value::String(_) | Value::Number(_) | Value::Bool(_) => {
                extract(entry, &name, text_of(value));
            }
            _ => {}
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the value at a path such as `a.b[0]["c"]`.
fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = value;
    let mut rest = path.trim();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (index, next) = inside.split_once(']')?;
            let key = index.trim();
            value = match key.strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
                Some(key) => value.get(key)?,
                None => value.get(key.parse::<usize>().ok()?)?,
            };
            rest = next.strip_prefix('.').unwrap_or(next);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            value = value.get(&rest[..end])?;
            let next = &rest[end..];
            rest = next.strip_prefix('.').unwrap_or(next);
        }
    }
    Some(value)
}

/// Makes labels of `key=value` pairs: of all of them, or of those that are named.
pub(super) fn logfmt(entry: &mut LogEntry, named: &[(String, String)]) {
    let line = entry.line.clone();
    for (key, value) in pairs(&line) {
        if value.is_empty() {
            continue;
        }
        match named.is_empty() {
            true => extract(entry, &sanitized(key), value),
            false => {
                let wanted = named.iter().filter(|(_, field)| field == key);
                for (label, _) in wanted {
                    extract(entry, label, value.clone());
                }
            }
        }
    }
}

/// Returns the pairs of a line in the format logfmt. A key without a value has an empty one.
fn pairs(line: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace());
        let (key, after) = rest.split_at(end.unwrap_or(rest.len()));
        let Some(after) = after.strip_prefix('=') else {
            if !key.is_empty() {
                found.push((key, String::new()));
            }
            rest = after.trim_start();
            continue;
        };
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        if !key.is_empty() {
            found.push((key, value));
        }
        rest = next.trim_start();
    }
    found
}

/// Returns a quoted value without its escapes, and the text behind it.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, other)) => value.push(other),
                None => {}
            },
            c => value.push(c),
        }
    }
    (value, "")
}

/// Makes labels of the captures of a pattern.
pub(super) fn pattern(entry: &mut LogEntry, pattern: &LinePattern) {
    for (label, value) in pattern.captures(&entry.line) {
        extract(entry, &label, value);
    }
}

/// Makes labels of the named groups of a regular expression.
pub(super) fn regexp(entry: &mut LogEntry, regex: &Regex) {
    for (label, value) in regex.captures(&entry.line).unwrap_or_default() {
        extract(entry, &label, value);
    }
}
