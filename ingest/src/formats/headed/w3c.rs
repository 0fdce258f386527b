//! The W3C extended log file format, as IIS, CloudFront and others write it.
//!
//! `#Fields:` names the fields of the lines behind it, and may occur again. `#Date:` and
//! `#Start-Date:` have the day of lines that have a time and no date. Other directives say nothing
//! about lines. The draft of 1996 (WD-logfile-960323) separates fields with spaces, and a value
//! with spaces stands in double quotes, in which two quotes are one. CloudFront separates with
//! tabs and writes other characters than letters as `%20`; here, the headers of a client are read
//! back from that, as they are no part of an address.
//!
//! IIS puts no value in quotes and writes `+` for a space. A client could send one quote in each of
//! two headers: quotes join words only in a line that has more words than fields.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::NaiveDate;
use percent_encoding::percent_decode_str;

use super::{distinct, field_count, no_header};
use crate::bad::Bad;
use crate::documents::{DocumentRow, SITE, Value};
use crate::error::Result;
use crate::reader::Fit;
use crate::stamp::{Written, read_text};
use crate::text::LineText;

const FIELDS: &str = "#Fields:";
/// Directives of a day.
const DAYS: [&str; 2] = ["#Date:", "#Start-Date:"];
/// Directives of the draft, by which `auto` recognises a source.
const DIRECTIVES: [&str; 7] = [
    FIELDS,
    "#Version:",
    "#Software:",
    "#Start-Date:",
    "#End-Date:",
    "#Date:",
    "#Remark:",
];
/// The word before the fields that has their day in the name of a format.
const DAY: &str = "date=";
/// Bytes of a day.
const DAY_BYTES: usize = 10;
/// Bytes of a time without seconds, which the draft allows.
const MINUTE_BYTES: usize = 5;

/// Fields that have the name of a column of access logs.
const NAMES: [(&str, &str); 14] = [
    ("c-ip", "host"),
    ("cs-method", "method"),
    ("cs-uri-stem", "path"),
    ("cs-uri-query", "query"),
    ("sc-status", "status"),
    ("cs(User-Agent)", "user_agent"),
    ("cs(Referer)", "referrer"),
    ("cs(Referrer)", "referrer"),
    ("cs-username", "user"),
    ("sc-bytes", "response_size"),
    ("cs-host", SITE),
    ("x-host-header", SITE),
    ("cs-version", "protocol"),
    ("cs-protocol-version", "protocol"),
];
/// Fields that are numbers.
const NUMBERS: [&str; 15] = [
    "sc-status",
    "sc-substatus",
    "sc-win32-status",
    "sc-bytes",
    "cs-bytes",
    "bytes",
    "s-port",
    "c-port",
    "cs-uri-port",
    "time-taken",
    "TimeTakenMS",
    "time-to-first-byte",
    "sc-content-len",
    "sc-range-start",
    "sc-range-end",
];

/// Recognises a directive.
pub(super) fn recognise(line: &[u8]) -> Result<Fit, Bad> {
    match DIRECTIVES
        .iter()
        .any(|name| line.starts_with(name.as_bytes()))
    {
        true => Ok(Fit::Whole),
        false => Err(Bad::expected("no_directive", 0, "a directive as #Fields:")),
    }
}

/// The part that a field has in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A part of the event's time.
    Date,
    Time,
    Number(String),
    Text(String),
    /// A header of the client.
    Header(String),
}

/// The directives that govern a line.
#[derive(Debug)]
pub(super) struct Directives {
    /// The day of the last directive that has one, as it stands there.
    day: Option<String>,
    fields: Arc<DirectiveFields>,
}

/// The fields of a directive, which stay as they are when the day changes.
#[derive(Debug)]
struct DirectiveFields {
    /// The fields as they stand there, with one space between them.
    text: String,
    parts: Vec<Part>,
    has_time: bool,
}

impl Directives {
    /// Reads the fields behind the prefix of a format's name, with the day before them. Fields that
    /// are those of the directives before need not be read again.
    pub(super) fn of_text(before: Option<&Self>, text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace().peekable();
        let day = words.next_if(|word| word.starts_with(DAY));
        let day = day.map(|word| word[DAY.len()..].to_owned());
        if let Some(day) = &day
            && day_us(day).is_none()
        {
            return Err(format!("{DAY}{day} is no day as 2026-11-26"));
        }
        let words: Vec<&str> = words.collect();
        let text = words.join(" ");
        let fields = match before.filter(|before| before.fields.text == text) {
            Some(before) => Arc::clone(&before.fields),
            None => Arc::new(DirectiveFields::new(&words, text)),
        };
        Ok(Self { day, fields })
    }

    pub(super) fn read(
        &self,
        line: LineText<'_>,
        row: &mut DocumentRow,
        written: Written<'_>,
    ) -> Result<(), Bad> {
        let parts = &self.fields.parts;
        if parts.is_empty() {
            return Err(no_header());
        }
        let text = line.text();
        let is_tabbed = text.contains('\t');
        let words = words(&text, is_tabbed, parts.len());
        if words.len() != parts.len() {
            return Err(field_count(words.len(), parts.len()));
        }
        let (mut date, mut time) = (self.day.as_deref(), None);
        for (part, word) in parts.iter().zip(&words) {
            let word = match (part, &**word) {
                (_, "-" | "") => continue,
                (Part::Date, word) => {
                    date = Some(word);
                    continue;
                }
                (Part::Time, word) => {
                    time = Some(word);
                    continue;
                }
                (_, word) => word,
            };
            match part {
                Part::Number(name) => {
                    let value = number(word).unwrap_or_else(|| Value::Text(row.store(word)));
                    push(name, value, row)?;
                }
                Part::Header(name) if is_tabbed => {
                    // Bytes that are no UTF-8 stay escaped, or they would be lost.
                    let decoded = percent_decode_str(word).decode_utf8();
                    let value = Value::Text(row.store(&decoded.unwrap_or(word.into())));
                    push(name, value, row)?;
                }
                Part::Header(name) | Part::Text(name) => {
                    let value = Value::Text(row.store(word));
                    push(name, value, row)?;
                }
                Part::Date | Part::Time => {}
            }
        }
        row.time_us = self.time(date, time, written)?;
        Ok(())
    }

    /// Returns the time of a line; `None` where its fields have none.
    fn time(
        &self,
        date: Option<&str>,
        time: Option<&str>,
        written: Written<'_>,
    ) -> Result<Option<i64>, Bad> {
        if !self.fields.has_time {
            return Ok(None);
        }
        let seconds = |time: &str| match time.len() {
            MINUTE_BYTES => ":00",
            _ => "",
        };
        let stamp = date.zip(time);
        let stamp = stamp.map(|(date, time)| format!("{date} {time}{}", seconds(time)));
        let us = stamp.and_then(|stamp| read_text(&stamp, written.zone));
        let message = "the date and the time of the line are none as 2026-11-26 09:23:38";
        us.map(Some)
            .ok_or_else(|| Bad::because("bad_time", 0, message))
    }
}

impl DirectiveFields {
    fn new(words: &[&str], text: String) -> Self {
        let has = |date: &str, time: &str| words.contains(&date) && words.contains(&time);
        // A time in UTC needs no zone.
        let is_local = has("date-local", "time-local") && !has("date", "time");
        let has_time = is_local || words.contains(&"time");
        let columns = words.iter().map(|word| column_of(word));
        let columns = distinct(columns.collect::<Vec<_>>().into_iter());
        let parts = words.iter().zip(columns).map(|(word, column)| match *word {
            // A date without a time is no time.
            "date" if has_time && !is_local => Part::Date,
            "time" if !is_local => Part::Time,
            "date-local" if is_local => Part::Date,
            "time-local" if is_local => Part::Time,
            word if NUMBERS.contains(&word) => Part::Number(column),
            word if word.starts_with("cs(") => Part::Header(column),
            _ => Part::Text(column),
        });
        Self {
            parts: parts.collect(),
            text,
            has_time,
        }
    }
}

/// Returns the fields, and the day where they need one, behind a directive; `None` for one that
/// changes neither, or for a line that is none at all.
pub(super) fn text_after(
    before: Option<&Directives>,
    line: &[u8],
) -> Option<Option<Result<String, String>>> {
    if !line.starts_with(b"#") {
        return None;
    }
    let line = String::from_utf8_lossy(line);
    let day = DAYS.iter().find_map(|name| line.strip_prefix(name));
    let day = day.and_then(day_of);
    let fields = line.strip_prefix(FIELDS).map(|text| {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        words.join(" ")
    });
    if day.is_none() && fields.is_none() {
        return Some(None);
    }
    let day = day.or_else(|| before.and_then(|before| before.day.clone()));
    let fields = match (&fields, before) {
        (Some(fields), _) if fields.is_empty() => {
            return Some(Some(Err("#Fields: names no field".to_owned())));
        }
        (Some(fields), _) => fields.as_str(),
        (None, before) => before.map_or("", |before| &before.fields.text),
    };
    let day = day.map_or_else(String::new, |day| format!("{DAY}{day} "));
    Some(Some(Ok((day + fields).trim_end().to_owned())))
}

/// Returns the day with which a directive's text begins. The draft's grammar has `2026-11-26`, and
/// its examples have `26-Nov-2026`.
fn day_of(text: &str) -> Option<String> {
    let text = text.trim_start();
    let day = text.get(..DAY_BYTES).map(str::to_owned);
    let named = || {
        let word = text.split_ascii_whitespace().next()?;
        let day = NaiveDate::parse_from_str(word, "%d-%b-%Y").ok()?;
        Some(day.to_string())
    };
    let is_day = |day: &String| day_us(day).is_some();
    day.filter(is_day).or_else(|| named().filter(is_day))
}

fn day_us(day: &str) -> Option<i64> {
    (day.len() == DAY_BYTES).then(|| read_text(&format!("{day} 00:00:00"), None))?
}

/// Returns the name of a field's column: `cs(X-Forwarded-For)` is `cs_x_forwarded_for`.
fn column_of(field: &str) -> String {
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == field) {
        return (*name).to_owned();
    }
    let name = field.trim_end_matches(')').to_ascii_lowercase();
    name.replace(['-', '(', ')'], "_")
}

fn number(word: &str) -> Option<Value> {
    let float = || word.parse().ok().filter(|number: &f64| number.is_finite());
    let int = word.parse().ok().map(Value::Int);
    int.or_else(|| float().map(Value::Float))
}

fn push(name: &str, value: Value, row: &mut DocumentRow) -> Result<(), Bad> {
    let mark = row.mark();
    row.enter(name, false)?;
    row.push(value)?;
    row.return_to(mark);
    Ok(())
}

/// Returns the words of a line, of which `named` are expected.
fn words(line: &str, is_tabbed: bool, named: usize) -> Vec<Cow<'_, str>> {
    let plain: Vec<Cow<'_, str>> = match is_tabbed {
        true => line.split('\t').map(unquoted).collect(),
        false => line.split_ascii_whitespace().map(unquoted).collect(),
    };
    match plain.len() > named && line.contains('"') {
        true => joined(line, is_tabbed),
        false => plain,
    }
}

/// Cuts a line into words of which quotes join some.
fn joined(line: &str, is_tabbed: bool) -> Vec<Cow<'_, str>> {
    let is_space = |b: u8| b == b'\t' || !is_tabbed && b == b' ';
    let bytes = line.as_bytes();
    let (mut words, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        // Between two tabs is an empty field, and between two spaces none.
        if is_space(bytes[at]) && !is_tabbed {
            at += 1;
            continue;
        }
        let end = quoted_end(&bytes[at..], is_space).unwrap_or_else(|| {
            let rest = &bytes[at..];
            rest.iter().position(|b| is_space(*b)).unwrap_or(rest.len())
        });
        words.push(unquoted(&line[at..at + end]));
        at += end;
        if is_tabbed && at < bytes.len() {
            at += 1;
            if at == bytes.len() {
                words.push("".into());
            }
        }
    }
    words
}

/// Returns the bytes of a text in quotes, with which a line begins.
fn quoted_end(rest: &[u8], is_space: impl Fn(u8) -> bool) -> Option<usize> {
    if rest.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        at += memchr::memchr(b'"', rest.get(at..)?)?;
        match rest.get(at + 1) {
            Some(b'"') => at += 2,
            Some(next) if !is_space(*next) => return None,
            _ => return Some(at + 1),
        }
    }
}

/// Returns a word without the quotes around it.
fn unquoted(word: &str) -> Cow<'_, str> {
    let inner = word.strip_prefix('"').and_then(|w| w.strip_suffix('"'));
    match inner {
        None => word.into(),
        Some(inner) if inner.contains('"') => inner.replace("\"\"", "\"").into(),
        Some(inner) => inner.into(),
    }
}

#[cfg(test)]
mod tests;
