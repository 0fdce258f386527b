//! Identifiers and literals: quoting and parsing.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};

use super::calls::{Call, text};
use super::{Definition, Returns, lenient, strict};

pub(super) const TABLE: &[Definition] = &[
    strict("quote_ident", (1, 1), Returns::Text, |call| {
        text(quoted(&call.text(0)?))
    }),
    strict("quote_literal", (1, 1), Returns::Text, |call| {
        text(literal(&call.text(0)?))
    }),
    lenient("quote_nullable", (1, 1), Returns::Text, nullable),
    lenient("format", (1, 16), Returns::Text, format),
    strict("parse_ident", (1, 2), Returns::Texts, parse),
    lenient("json_build_object", (0, 32), Returns::Text, json_object),
    strict("like_escape", (2, 2), Returns::Text, |call| {
        text(escaped_by_backslash(&call.text(0)?, &call.text(1)?)?)
    }),
];

/// Returns an object of names and values in turn.
fn json_object(call: &Call<'_>) -> Result<ScalarValue> {
    let mut object = serde_json::Map::new();
    for at in (0..call.values.len()).step_by(2) {
        let value = match call.values.get(at + 1) {
            None => return exec_err!("json_build_object takes names and values in turn"),
            Some(value) if value.is_null() => serde_json::Value::Null,
            Some(ScalarValue::Boolean(Some(flag))) => (*flag).into(),
            Some(value) if value.data_type().is_integer() => call.integer(at + 1)?.into(),
            Some(_) => call.text(at + 1)?.into(),
        };
        object.insert(call.text(at)?, value);
    }
    text(serde_json::Value::Object(object).to_string())
}

/// Returns a pattern of LIKE with the escape character `\`, which the engine knows alone, in the
/// place of another one, or of none.
fn escaped_by_backslash(pattern: &str, escape: &str) -> Result<String> {
    let mut chars = escape.chars();
    let (escape, None) = (chars.next(), chars.next()) else {
        return exec_err!("the escape of LIKE is one character, or none");
    };
    let mut made = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let plain = match c {
            c if Some(c) == escape => match chars.next() {
                Some(next) => next,
                None => return exec_err!("the pattern of LIKE ends with its escape character"),
            },
            '\\' => c,
            c => {
                made.push(c);
                continue;
            }
        };
        made.extend(['\\', plain]);
    }
    Ok(made)
}

/// Words of SQL that `quote_ident` quotes: all but those that PostgreSQL does not reserve at all
/// (its `kwlist.h`).
const RESERVED: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit \
    boolean both case cast char character check coalesce collate collation column concurrently \
    constraint create cross current_catalog current_date current_role current_schema \
    current_time current_timestamp current_user dec decimal default deferrable desc distinct do \
    else end except exists extract false fetch float for foreign freeze from full grant greatest \
    group grouping having ilike in initially inner inout int integer intersect interval into is \
    isnull join lateral leading least left like limit localtime localtimestamp national natural \
    nchar none normalize not notnull null nullif numeric offset on only or order out outer \
    overlaps overlay placing position precision primary real references returning right row \
    select session_user setof similar smallint some substring symmetric table tablesample then \
    time timestamp to trailing treat trim true union unique user using values varchar variadic \
    verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest \
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable";

fn is_reserved(name: &str) -> bool {
    RESERVED.split_whitespace().any(|word| word == name)
}

/// Returns a name as SQL text, quoted where it must be.
pub(super) fn quoted(name: &str) -> String {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && name.chars().all(is_inner) && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(value: &str) -> String {
    let doubled = value.replace('\'', "''");
    match doubled.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

fn nullable(call: &Call<'_>) -> Result<ScalarValue> {
    match call.values.first().is_none_or(ScalarValue::is_null) {
        true => text("NULL"),
        false => text(literal(&call.text(0)?)),
    }
}

/// Fills the places of a text: `%s` with text, `%I` with an identifier, `%L` with a literal.
fn format(call: &Call<'_>) -> Result<ScalarValue> {
    if call.values.first().is_none_or(ScalarValue::is_null) {
        return Ok(ScalarValue::Null);
    }
    let pattern = call.text(0)?;
    let mut out = String::new();
    let mut chars = pattern.chars();
    let mut next = 1;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let kind = chars.next();
        if kind == Some('%') {
            out.push('%');
            continue;
        }
        if next >= call.values.len() {
            return exec_err!("too few arguments for format()");
        }
        let is_null = call.values[next].is_null();
        let value = call.text(next)?;
        next += 1;
        match kind {
            Some('s') => out.push_str(&value),
            Some('I') => out.push_str(&quoted(&value)),
            Some('L') if is_null => out.push_str("NULL"),
            Some('L') => out.push_str(&literal(&value)),
            _ => return exec_err!("format() knows %s, %I, %L and %%, not \"{pattern}\""),
        }
    }
    text(out)
}

/// Splits `a."B".c` into its names; `None` if it is no such list.
pub(super) fn split(name: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = name.trim();
    loop {
        let (one, after) = match rest.strip_prefix('"') {
            Some(inner) => quoted_part(inner)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                let word = rest[..end].trim();
                let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
                if word.is_empty() || !word.chars().all(is_word) {
                    return None;
                }
                (word.to_lowercase(), &rest[end..])
            }
        };
        names.push(one);
        match after.trim_start().strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if after.trim().is_empty() => return Some(names),
            None => return None,
        }
    }
}

/// Reads a quoted name after its first quote. Returns it and the text after its last quote.
fn quoted_part(inner: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = inner;
    loop {
        let end = rest.find('"')?;
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return (!name.is_empty()).then_some((name, rest)),
        }
    }
}

fn parse(call: &Call<'_>) -> Result<ScalarValue> {
    let name = call.text(0)?;
    let Some(names) = split(&name) else {
        return exec_err!("string is not a valid identifier: \"{name}\"");
    };
    let names: Vec<ScalarValue> = names.into_iter().map(ScalarValue::from).collect();
    let list = ScalarValue::new_list(&names, &DataType::Utf8, true);
    Ok(ScalarValue::List(list))
}
