//! The values of one line of a pattern.

use std::fmt::Write as _;

use chrono::format::{Parsed, StrftimeItems, parse};
use memchr::memmem;

use super::names::Core;
use super::{AccessPattern, Field, More, Number, Step, Target, TimeForm};
use crate::bad::Bad;
use crate::reader::ReaderOptions;
use crate::stamp::{self, AccessStamps};
use crate::text::{ByteSpan, LineText};

const NOT_THE_PATTERN: &str = "not_the_pattern";
/// The most places at which a piece of a time is tried to end.
const ENDS_MAX: usize = 8;

/// A number of a further column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Figure {
    Int(i64),
    Float(f64),
}

/// The value of a further column.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MoreValue {
    /// The place of the text; `None` for `-`.
    pub(super) text: Option<ByteSpan>,
    /// The number, of columns of numbers.
    pub(super) figure: Option<Figure>,
    /// The text has several numbers.
    pub(super) is_several: bool,
}

/// The values of the line that was read last.
#[derive(Debug)]
pub(super) struct Values {
    stamps: AccessStamps,
    /// Pieces of a time.
    pieces: String,
    pub(super) time_us: i64,
    /// Where the time begins, for messages about it.
    pub(super) time_at: usize,
    /// Places of the values of columns that every access log has; absent ones are `None`.
    core: [Option<ByteSpan>; CORES],
    pub(super) status: Option<i16>,
    pub(super) size: Option<i64>,
    pub(super) more: Vec<MoreValue>,
}

/// The number of kinds of [`Core`].
const CORES: usize = Core::Site as usize + 1;

impl Default for Values {
    fn default() -> Self {
        Self {
            stamps: AccessStamps::new(),
            pieces: String::new(),
            time_us: 0,
            time_at: 0,
            core: [None; CORES],
            status: None,
            size: None,
            more: Vec::new(),
        }
    }
}

impl Values {
    /// Returns the place of a value; `None` where the pattern has none.
    pub(super) fn place(&self, core: Core) -> Option<ByteSpan> {
        self.core[core as usize]
    }

    /// Reads a line.
    pub(super) fn read(
        &mut self,
        pattern: &AccessPattern,
        line: LineText<'_>,
        options: &ReaderOptions,
    ) -> Result<(), Bad> {
        let bytes = line.bytes();
        self.core = [None; CORES];
        (self.status, self.size) = (None, None);
        self.pieces.clear();
        self.more.clear();
        self.more.resize(pattern.more.len(), MoreValue::default());
        let (mut at, mut time_end) = (0, 0);
        let mut steps = pattern.steps.iter().peekable();
        let mut is_quoted = false;
        while let Some(step) = steps.next() {
            let field = match step {
                Step::Literal(text) => {
                    if !bytes[at..].starts_with(text) {
                        let expected = format!(
                            "expected {}, the text behind the field before",
                            text.escape_ascii()
                        );
                        return Err(Bad::because(NOT_THE_PATTERN, at, expected));
                    }
                    at += text.len();
                    is_quoted = text.ends_with(b"\"");
                    continue;
                }
                Step::Field(field) => field,
            };
            let behind = match steps.peek() {
                Some(Step::Literal(text)) => text.as_slice(),
                _ => &[],
            };
            let end = pattern.end(field, is_quoted, (bytes, at), behind)?;
            let place = (at, end);
            match field.target {
                Target::Core(Core::Status) => self.status = status(&bytes[at..end], at)?,
                Target::Core(Core::Size) => self.size = size(&bytes[at..end], at)?,
                Target::Core(core) => self.core[core as usize] = Some(place),
                Target::More(nth) => {
                    self.more[nth] = more(&pattern.more[nth], &bytes[at..end], at)?;
                }
                Target::Time(_) => {
                    let is_first = time_end == 0;
                    self.read_time(&pattern.form, line, place, is_first, options)?;
                    time_end = end;
                }
                Target::Again => {}
            }
            at = end;
        }
        if at != bytes.len() {
            return Err(Bad::expected(NOT_THE_PATTERN, at, "the end of the line"));
        }
        if let TimeForm::Pieces(formats) = &pattern.form {
            let format = formats.join(" ");
            let us = stamp::read_format(&self.pieces, &format, options.tz.as_ref());
            self.time_us = us.ok_or_else(|| {
                let expected = format!("{:?} is no time as {format}", self.pieces);
                Bad::because("bad_time", self.time_at, expected)
            })?;
        }
        Ok(())
    }

    fn read_time(
        &mut self,
        form: &TimeForm,
        line: LineText<'_>,
        (from, to): ByteSpan,
        is_first: bool,
        options: &ReaderOptions,
    ) -> Result<(), Bad> {
        if is_first {
            self.time_at = from;
        }
        let text = &line.bytes()[from..to];
        match form {
            TimeForm::Pieces(_) => {
                let gap = if is_first { "" } else { " " };
                write!(self.pieces, "{gap}{}", line.part((from, to)))
                    .expect("BUG: a text takes any text");
            }
            TimeForm::Stamp => {
                let us = stamp::read_text(&line.part((from, to)), options.tz.as_ref());
                let expected = "a time of RFC 3339, or seconds since 1970";
                self.time_us = us.ok_or_else(|| Bad::expected("bad_time", from, expected))?;
            }
            TimeForm::Access { in_brackets } => {
                let inner = match in_brackets {
                    true => text.strip_prefix(b"[").and_then(|t| t.strip_suffix(b"]")),
                    false => Some(text),
                };
                let inner = inner.and_then(|text| <&[u8; AccessStamps::LEN]>::try_from(text).ok());
                let expected = "a time as 10/Oct/2000:13:55:36 -0700";
                let inner = inner.ok_or_else(|| Bad::expected("bad_time", from, expected))?;
                let begin = from + usize::from(*in_brackets);
                let read = self.stamps.read(inner);
                self.time_us =
                    read.map_err(|(offset, what)| Bad::expected("bad_time", begin + offset, what))?;
            }
        }
        Ok(())
    }
}

impl AccessPattern {
    /// Returns the place at which the value of a field ends that begins at a place of a line.
    #[inline]
    fn end(
        &self,
        field: &Field,
        is_quoted: bool,
        (line, at): (&[u8], usize),
        behind: &[u8],
    ) -> Result<usize, Bad> {
        let end = match (is_quoted, field.target) {
            (true, _) if behind.starts_with(b"\"") => quoted_end(line, at),
            (_, Target::More(nth)) if self.more[nth].is_list => several_end(line, at, behind),
            (_, Target::Time(nth)) => self.end_of_time(nth, (line, at), behind),
            (_, Target::Core(Core::User)) => {
                let text = self.user_end.as_deref().unwrap_or(behind);
                end(line, at, text).or_else(|| end(line, at, behind))
            }
            (_, Target::Core(Core::Site)) if behind == b":" => site_end(line, at),
            _ => end(line, at, behind),
        };
        end.ok_or_else(|| {
            let (spelling, text) = (&field.spelling, behind.escape_ascii());
            let message = format!("{spelling} does not end: {text} does not follow");
            Bad::because(NOT_THE_PATTERN, at, message)
        })
    }
}

impl AccessPattern {
    /// Returns the place at which a time ends, or one of its pieces: it may hold spaces.
    fn end_of_time(&self, nth: usize, (line, at): (&[u8], usize), behind: &[u8]) -> Option<usize> {
        let first = || end(line, at, behind);
        match &self.form {
            TimeForm::Stamp => first(),
            TimeForm::Access { in_brackets } => {
                let end = at + AccessStamps::LEN + if *in_brackets { 2 } else { 0 };
                if end <= line.len() {
                    Some(end)
                } else {
                    first()
                }
            }
            TimeForm::Pieces(formats) => {
                let is_piece = |end: &usize| {
                    let items = StrftimeItems::new(&formats[nth]);
                    let text = std::str::from_utf8(&line[at..*end]);
                    text.is_ok_and(|text| parse(&mut Parsed::new(), text, items).is_ok())
                };
                let next = |before: &usize| end(line, before + 1, behind);
                let ends = std::iter::successors(first(), next).take(ENDS_MAX);
                ends.filter(|end| *end <= line.len())
                    .find(is_piece)
                    .or_else(first)
            }
        }
    }
}

/// Returns the place at which a field ends that other text follows; the end of the line for none.
fn end(line: &[u8], from: usize, behind: &[u8]) -> Option<usize> {
    match behind {
        [] => Some(line.len()),
        [byte] => memchr::memchr(*byte, line.get(from..)?).map(|at| from + at),
        text => memmem::find(line.get(from..)?, text).map(|at| from + at),
    }
}

/// Returns the place of the colon before a port: an IPv6 address has others, which no port follows.
fn site_end(line: &[u8], from: usize) -> Option<usize> {
    let is_port = |colon: &usize| {
        let rest = &line[colon + 1..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let goes_on = |b: &u8| b.is_ascii_hexdigit() || b":.]".contains(b);
        digits > 0 && !rest.get(digits).is_some_and(goes_on)
    };
    let is_of_name = |b: &u8| b.is_ascii_alphanumeric() || b":.-_%[]".contains(b);
    let name = line[from..].iter().take_while(|b| is_of_name(b)).count();
    let name = &line[from..from + name];
    let mut colons = memchr::memchr_iter(b':', name).map(|at| from + at);
    colons.find(is_port).or_else(|| end(line, from, b":"))
}

/// Returns the place of the first quote behind an even number of backslashes.
fn quoted_end(line: &[u8], from: usize) -> Option<usize> {
    let mut search = from;
    loop {
        let quote = search + memchr::memchr(b'"', &line[search..])?;
        let escapes = line[search..quote]
            .iter()
            .rev()
            .take_while(|b| **b == b'\\')
            .count();
        if escapes % 2 == 0 {
            return Some(quote);
        }
        search = quote + 1;
    }
}

/// Returns the place at which the values of several servers end: `0.1, 0.2 : 0.3`.
fn several_end(line: &[u8], from: usize, behind: &[u8]) -> Option<usize> {
    let mut at = from;
    loop {
        let end = end(line, at, behind)?;
        let (before, after) = (&line[from..end], &line[end..]);
        let goes_on =
            before.ends_with(b",") || before.ends_with(b" :") || after.starts_with(b" : ");
        if !goes_on || end == line.len() {
            return Some(end);
        }
        at = end + 1;
    }
}

fn is_absent(text: &[u8]) -> bool {
    matches!(text, b"-" | b"")
}

fn status(text: &[u8], at: usize) -> Result<Option<i16>, Bad> {
    match text {
        text if is_absent(text) => Ok(None),
        [a, b, c] if text.iter().all(u8::is_ascii_digit) => {
            let digit = |byte: &u8| i16::from(byte - b'0');
            Ok(Some(digit(a) * 100 + digit(b) * 10 + digit(c)))
        }
        _ => Err(Bad::expected("bad_status", at, "a status of three digits")),
    }
}

fn size(text: &[u8], at: usize) -> Result<Option<i64>, Bad> {
    if is_absent(text) {
        return Ok(None);
    }
    match integer(text) {
        Some(size) if size >= 0 => Ok(Some(size)),
        _ => Err(Bad::expected("bad_size", at, "a size of digits or -")),
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn float(text: &[u8]) -> Option<f64> {
    let is_number = text.first().is_some_and(u8::is_ascii_digit);
    let is_plain = text.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|_| is_number && is_plain)?;
    text.parse().ok()
}

/// Reads the value of a further column.
fn more(more: &More, text: &[u8], at: usize) -> Result<MoreValue, Bad> {
    let mut value = MoreValue {
        text: (text != b"-").then_some((at, at + text.len())),
        ..MoreValue::default()
    };
    let Some(number) = more.number.filter(|_| !is_absent(text)) else {
        return Ok(value);
    };
    let is_integer = more.column.column_type == storage::ColumnType::Int64;
    let bad = || {
        let name = &more.column.name;
        Bad::because("bad_number", at, format!("{name} is no number"))
    };
    let one = |text: &[u8]| match is_integer {
        true => integer(text).map(Figure::Int),
        false => float(text).map(Figure::Float),
    };
    if number == Number::One {
        value.figure = Some(one(text).ok_or_else(bad)?);
        return Ok(value);
    }
    let parts = text.split(|b| matches!(b, b',' | b':' | b' '));
    let mut parts = parts.filter(|part| !part.is_empty());
    let mut count = 0;
    let mut last_is_absent = false;
    parts.try_for_each(|part| {
        count += 1;
        last_is_absent = part == b"-";
        if last_is_absent {
            return Ok(());
        }
        let part = one(part).ok_or_else(bad)?;
        value.figure = Some(match (value.figure, part, number) {
            (Some(Figure::Int(sum)), Figure::Int(next), Number::Sum) => {
                Figure::Int(sum.checked_add(next).ok_or_else(bad)?)
            }
            (Some(Figure::Float(sum)), Figure::Float(next), Number::Sum) => {
                Figure::Float(sum + next)
            }
            (_, part, _) => part,
        });
        Ok(())
    })?;
    if number == Number::Last && last_is_absent {
        value.figure = None;
    }
    value.is_several = count > 1;
    Ok(value)
}
