//! Lines by a regular expression of the user's: `regex:(?<time>\S+) (?<level>\w+) (?<line>.*)`.
//!
//! Each named group is a field. A type behind its name makes it a number or a truth value
//! (`(?<took:float>[\d.]+)`), or says how its time is written (`(?<time:%y%m%d %H%M%S>…)`). The
//! expression must match the whole line: text between groups is dropped because the user says so,
//! never because it was overlooked. A grok pattern is such an expression, too (`grok.rs`).

mod grok;

use std::sync::Arc;

use arrow::array::RecordBatch;
use chrono::format::{Item, StrftimeItems};
use regex::{CaptureLocations, Regex, RegexBuilder};
use storage::{StreamKind, TIME};

use self::grok::Expansion;
use super::documents::PATTERN_BYTES_MAX;
use crate::bad::Bad;
use crate::documents::{DocumentRow, Documents, TIME_FIELDS, Value};
use crate::error::{Error, Result};
use crate::reader::{FormatEntry, LineReader, ReaderOptions, Taken};
use crate::stamp;
use crate::text::LineText;

/// The prefixes of the names of these formats.
const PREFIX: &str = "regex:";
const GROK_PREFIX: &str = "grok:";
/// The most bytes that a compiled expression may take.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// The entry of all expressions, each of which makes its own readers.
pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "regex",
    kind: StreamKind::Documents,
    recognise: None,
    is_closed: |_, _| false,
    reader: |_, _| unreachable!("BUG: an expression makes its readers"),
    holds_values: false,
    keeps_mark: false,
};

/// The type of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GroupType {
    Text,
    Int,
    Float,
    Bool,
    /// A time in a format of `strftime`.
    Time(String),
}

/// A named group.
#[derive(Debug)]
struct Group {
    /// Its number in the expression.
    number: usize,
    name: String,
    group_type: GroupType,
}

/// A compiled expression. Two of the same text are equal.
#[derive(Debug)]
pub struct LineRegex {
    /// `regex:…`, as the user spells it.
    name: String,
    regex: Regex,
    groups: Vec<Group>,
    /// The name of the groups that have the event's time; of the alternatives of a pattern one has.
    time: Option<&'static str>,
}

impl LineRegex {
    /// Compiles an expression behind `regex:`, or a pattern behind `grok:`; `None` for other names.
    ///
    /// # Errors
    /// [`Error::BadPattern`] for a text that is no such expression.
    pub(super) fn of_name(name: &str) -> Option<Result<Arc<Self>>> {
        let unquoted = |text: &'_ str| -> String {
            let inner = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
            inner.unwrap_or(text).to_owned()
        };
        let is_long = name.len() > PATTERN_BYTES_MAX;
        let built = match (name.strip_prefix(PREFIX), name.strip_prefix(GROK_PREFIX)) {
            (None, None) => return None,
            _ if is_long => Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes")),
            (Some(text), _) => Self::new(name, &unquoted(text), &Expansion::default()),
            (None, Some(text)) => Expansion::of(&unquoted(text))
                .and_then(|expansion| Self::new(name, &expansion.expression, &expansion)),
        };
        let regex = built.map_err(|why| Error::BadPattern {
            pattern: name.to_owned(),
            why,
        });
        Some(regex.map(Arc::new))
    }

    /// Compiles an expression, of which a pattern may name some groups.
    fn new(name: &str, text: &str, pattern: &Expansion) -> std::result::Result<Self, String> {
        let (plain, types) = without_types(text)?;
        let regex = RegexBuilder::new(&format!(r"\A(?:{plain})\z"))
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|e| pattern.explain(&e))?;
        let mut groups = Vec::new();
        for (number, group) in regex.capture_names().enumerate() {
            let Some(group) = group else { continue };
            let typed = types.iter().find(|(name, _)| name == group);
            let typed = pattern.field(group).or(typed);
            groups.push(Group {
                number,
                name: typed.map_or(group, |(name, _)| name).to_owned(),
                group_type: typed.map_or(GroupType::Text, |(_, group_type)| group_type.clone()),
            });
        }
        if groups.is_empty() {
            return Err(
                "it has no named group, as (?<level>[a-z]+), and would keep nothing".into(),
            );
        }
        let mut names = TIME_FIELDS.iter();
        let time = names.find(|name| groups.iter().any(|group| group.name == **name));
        let time = time.copied();
        let is_time = |group: &Group| matches!(group.group_type, GroupType::Time(_));
        let is_other = |group: &&Group| is_time(group) && Some(&*group.name) != time;
        if let Some(group) = groups.iter().find(is_other) {
            return Err(format!(
                "the time of an event is called {TIME}, and not {}",
                group.name
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            regex,
            groups,
            time,
        })
    }

    /// Returns the name of the format.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes a reader of lines.
    pub(super) fn reader(self: &Arc<Self>, options: &ReaderOptions) -> Box<dyn LineReader> {
        Box::new(CaptureReader {
            places: self.regex.capture_locations(),
            regex: Arc::clone(self),
            row: DocumentRow::default(),
            documents: Documents::new(options),
        })
    }

    fn read(
        &self,
        line: LineText<'_>,
        places: &mut CaptureLocations,
        row: &mut DocumentRow,
        options: &ReaderOptions,
    ) -> Result<(), Bad> {
        // Bytes that are no UTF-8 match as the characters that the columns have for them.
        let line = line.text();
        if self.regex.captures_read(places, &line).is_none() {
            let message = "the regular expression does not match the whole line";
            return Err(Bad::because("no_match", 0, message));
        }
        for group in &self.groups {
            let Some(place) = places.get(group.number) else {
                continue;
            };
            let text = &line[place.0..place.1];
            if Some(&*group.name) == self.time {
                row.time_us = Some(group.time(text, place.0, options)?);
                continue;
            }
            let value = group.value(text);
            let value = value.unwrap_or_else(|| Value::Text(row.store(text)));
            let mark = row.mark();
            row.enter(&group.name, false)?;
            row.push(value)?;
            row.return_to(mark);
        }
        Ok(())
    }
}

impl Group {
    /// Returns a value in the type of the group; `None` for a text, which is kept as it is.
    fn value(&self, text: &str) -> Option<Value> {
        match (&self.group_type, text) {
            (GroupType::Text, _) => None,
            (_, "-" | "") => Some(Value::Null),
            (GroupType::Int, _) => text.parse().ok().map(Value::Int),
            (GroupType::Float, _) => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite());
                number.map(Value::Float)
            }
            (GroupType::Bool, "true") => Some(Value::Bool(true)),
            (GroupType::Bool, "false") => Some(Value::Bool(false)),
            _ => None,
        }
    }

    fn time(&self, text: &str, at: usize, options: &ReaderOptions) -> Result<i64, Bad> {
        match &self.group_type {
            GroupType::Time(format) => stamp::read_format(text, format, options.tz.as_ref())
                .ok_or_else(|| {
                    Bad::because("bad_time", at, format!("{text:?} is no time as {format}"))
                }),
            _ => stamp::read_any(text, options.written()).ok_or_else(|| {
                let expected =
                    "a time of RFC 3339, of an access log or of syslog, or seconds since 1970";
                Bad::expected("bad_time", at, expected)
            }),
        }
    }
}

/// Takes the types out of an expression: `(?<name:type>` becomes `(?<name>`.
fn without_types(text: &str) -> std::result::Result<(String, Vec<(String, GroupType)>), String> {
    let mut plain = String::new();
    let mut types = Vec::new();
    let mut rest = text;
    while let Some((at, opening)) = next_group(rest) {
        let begin = at + opening.len();
        plain += &rest[..begin];
        rest = &rest[begin..];
        let end = rest
            .find('>')
            .ok_or_else(|| format!("{opening} is not closed in {rest:?}"))?;
        let (name, group_type) = match rest[..end].split_once(':') {
            None => (&rest[..end], None),
            Some((name, group_type)) => (name, Some(group_type)),
        };
        plain += name;
        if let Some(group_type) = group_type {
            types.push((name.to_owned(), type_of(group_type)?));
        }
        rest = &rest[end..];
    }
    plain += rest;
    Ok((plain, types))
}

/// Returns the place of the next beginning of a named group, and its text.
fn next_group(text: &str) -> Option<(usize, &'static str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("(?")?;
        // A bracket behind a backslash is one of the line.
        let escapes = text[..at].bytes().rev().take_while(|b| *b == b'\\').count();
        for opening in ["(?<", "(?P<"] {
            if escapes % 2 == 0 && text[at..].starts_with(opening) {
                return Some((at, opening));
            }
        }
        from = at + 2;
    }
}

fn type_of(text: &str) -> std::result::Result<GroupType, String> {
    Ok(match text {
        "text" => GroupType::Text,
        "int" => GroupType::Int,
        "float" => GroupType::Float,
        "bool" => GroupType::Bool,
        format if format.contains('%') => {
            let is_known = |item| !matches!(item, Item::Error);
            if !StrftimeItems::new(format).all(is_known) {
                return Err(format!("{format:?} is no format of strftime"));
            }
            GroupType::Time(format.to_owned())
        }
        other => {
            return Err(format!(
                "the type {other:?} is not known: write int, float, bool, text, or a format of \
                 strftime"
            ));
        }
    })
}

impl PartialEq for LineRegex {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LineRegex {}

/// Takes lines by an expression.
#[derive(Debug)]
struct CaptureReader {
    regex: Arc<LineRegex>,
    places: CaptureLocations,
    row: DocumentRow,
    documents: Documents,
}

impl LineReader for CaptureReader {
    fn expect_lines(&mut self, count: &dyn Fn() -> usize) {
        self.documents.expect(count());
    }

    #[inline]
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad> {
        self.row.clear();
        self.regex
            .read(line, &mut self.places, &mut self.row, options)?;
        self.documents.take(&mut self.row, options)?;
        Ok(Taken::Event)
    }

    fn finish(&mut self, _: &ReaderOptions) -> Result<RecordBatch> {
        self.documents.finish()
    }
}

#[cfg(test)]
mod tests;
