//! Formats in which a line of the source names the fields of the lines behind it: the header of CSV
//! and TSV, and the directives of the W3C extended log file format.
//!
//! # Invariant
//! The event of a line depends on the line, the options and the [`Header`] that governs it,
//! wherever blocks end. So a header travels: [`Parsed::format`](crate::Parsed) behind a block, and
//! [`Format::after`] of the block, is the format with its fields (`csv:time,level`), and a parser
//! that begins with it goes on as if it had read everything before.
//! [`HeaderSearch`](crate::HeaderSearch) finds it in content that was imported before and is read
//! again.
//!
//! A header is no event: it counts as an empty line, which has nothing to store either. A header
//! that cannot be used is quarantined, and so is every line that it would govern (`no_header`): the
//! next line must not be taken for one.

mod delimited;
mod reader;
mod w3c;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use storage::StreamKind;

use super::Format;
use super::documents::PATTERN_BYTES_MAX;
use crate::bad::Bad;
use crate::documents::DocumentRow;
use crate::error::{Error, Result};
use crate::reader::{FormatEntry, LineReader, ReaderOptions};
use crate::stamp::Written;
use crate::text::LineText;

/// Makes the entry of a format whose header is not known yet.
macro_rules! entry {
    ($name:literal, $syntax:expr, $recognise:expr) => {
        FormatEntry {
            name: $name,
            kind: StreamKind::Documents,
            recognise: $recognise,
            is_closed: |_, _| false,
            reader: |options, _| reader::HeadedReader::boxed(Header::new($syntax), options),
            holds_values: false,
            keeps_mark: false,
        }
    };
}

pub(super) static CSV: FormatEntry = entry!("csv", Syntax::Csv, None);
pub(super) static TSV: FormatEntry = entry!("tsv", Syntax::Tsv, None);
pub(super) static W3C: FormatEntry = entry!("w3c", Syntax::W3c, Some(w3c::recognise));

/// The entry of all formats with their fields, each of which makes its own readers.
pub(super) static WITH_FIELDS: FormatEntry = FormatEntry {
    name: "csv:…",
    kind: StreamKind::Documents,
    recognise: None,
    is_closed: |_, _| false,
    reader: |_, _| unreachable!("BUG: fields make their readers"),
    holds_values: false,
    keeps_mark: false,
};

/// The longest line that can be a header, in bytes: one whose fields have the longest name, and
/// spaces between them.
pub(crate) const HEADER_LINE_BYTES_MAX: usize = 2 * PATTERN_BYTES_MAX;
/// The mark of UTF-8. Files that are joined bring one each.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// The reason of lines without a header.
const NO_HEADER: &str = "no_header";
/// The reason of headers that cannot be used.
const BAD_HEADER: &str = "bad_header";
/// The reason of lines that have more or fewer fields than their header.
const FIELD_COUNT: &str = "field_count";

/// The way in which fields stand in their lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Csv,
    Tsv,
    W3c,
}

impl Syntax {
    const ALL: [Self; 3] = [Self::Csv, Self::Tsv, Self::W3c];

    fn format(self) -> Format {
        match self {
            Self::Csv => Format::Csv,
            Self::Tsv => Format::Tsv,
            Self::W3c => Format::W3c,
        }
    }

    /// Returns the beginning of the names of formats with fields.
    fn prefix(self) -> &'static str {
        match self {
            Self::Csv => "csv:",
            Self::Tsv => "tsv:",
            Self::W3c => "w3c:",
        }
    }
}

/// The fields of lines, by the text that names them. Two of the same name are equal.
#[derive(Debug)]
pub struct LineFields {
    /// The format with its fields, as `csv:time,level`.
    name: String,
    syntax: Syntax,
    layout: LineLayout,
}

/// The reader of a line with known fields.
#[derive(Debug)]
enum LineLayout {
    Delimited(delimited::HeaderNames),
    W3c(w3c::Directives),
}

impl LineFields {
    /// Reads the fields of a name; `None` for other names. A name without fields is that of lines
    /// behind a header that cannot be used.
    ///
    /// # Errors
    /// [`Error::BadPattern`].
    pub(super) fn of_name(name: &str) -> Option<Result<Arc<Self>>> {
        let mut all = Syntax::ALL.into_iter();
        let syntax = all.find(|syntax| name.starts_with(syntax.prefix()))?;
        let fields = Self::new(syntax, &name[syntax.prefix().len()..]);
        Some(fields.map(Arc::new).map_err(|why| Error::BadPattern {
            pattern: name.to_owned(),
            why,
        }))
    }

    fn new(syntax: Syntax, text: &str) -> std::result::Result<Self, String> {
        Self::behind(None, syntax, text)
    }

    /// Makes fields behind others, of which those of W3C keep what a directive does not change.
    fn behind(
        before: Option<&Self>,
        syntax: Syntax,
        text: &str,
    ) -> std::result::Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes"));
        }
        let layout = match syntax {
            Syntax::W3c => {
                let before = before.and_then(Self::directives);
                LineLayout::W3c(w3c::Directives::of_text(before, text)?)
            }
            _ => LineLayout::Delimited(delimited::HeaderNames::of_header(text, delimiter(syntax))?),
        };
        Ok(Self {
            name: format!("{}{text}", syntax.prefix()),
            syntax,
            layout,
        })
    }

    /// Returns the name of the format.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Makes a reader of lines.
    pub(super) fn reader(self: &Arc<Self>, options: &ReaderOptions) -> Box<dyn LineReader> {
        reader::HeadedReader::boxed(Header::of_fields(self), options)
    }

    fn directives(&self) -> Option<&w3c::Directives> {
        match &self.layout {
            LineLayout::W3c(directives) => Some(directives),
            LineLayout::Delimited(_) => None,
        }
    }

    fn cutter(&self) -> delimited::Cutter {
        delimited::Cutter::new(delimiter(self.syntax))
    }

    fn read(
        &self,
        line: LineText<'_>,
        (row, cutter): (&mut DocumentRow, &mut delimited::Cutter),
        written: Written<'_>,
    ) -> Result<(), Bad> {
        match &self.layout {
            LineLayout::Delimited(columns) => columns.read(line, row, cutter),
            LineLayout::W3c(directives) => directives.read(line, row, written),
        }
    }
}

fn delimiter(syntax: Syntax) -> u8 {
    match syntax {
        Syntax::Tsv => b'\t',
        _ => b',',
    }
}

impl PartialEq for LineFields {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LineFields {}

/// The header that governs the next line of a source.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    syntax: Syntax,
    /// `None` while the source has had no header.
    fields: Option<Arc<LineFields>>,
}

impl Header {
    fn new(syntax: Syntax) -> Self {
        Self {
            syntax,
            fields: None,
        }
    }

    fn of_fields(fields: &Arc<LineFields>) -> Self {
        Self {
            syntax: fields.syntax,
            fields: Some(Arc::clone(fields)),
        }
    }

    /// Returns the header of a format; `None` for formats without one.
    pub(crate) fn of_format(format: &Format) -> Option<Self> {
        if let Format::Fields(fields) = format {
            return Some(Self::of_fields(fields));
        }
        let mut all = Syntax::ALL.into_iter();
        let syntax = all.find(|syntax| syntax.format() == *format)?;
        Some(Self::new(syntax))
    }

    /// Returns the format in which the next line is.
    pub(crate) fn format(&self) -> Format {
        match &self.fields {
            Some(fields) => Format::Fields(Arc::clone(fields)),
            None => self.syntax.format(),
        }
    }

    /// Returns whether no line can change the header any more.
    pub(crate) fn is_final(&self) -> bool {
        self.syntax != Syntax::W3c && self.fields.is_some()
    }

    /// Takes a line that is not empty if it is a header, or returns `None`.
    pub(crate) fn take(&mut self, line: &[u8]) -> Option<Result<(), Bad>> {
        let mut line = line;
        // A parser has removed the first mark of a source, and a search has not.
        while let Some(behind) = line.strip_prefix(MARK) {
            line = behind;
        }
        let is_long = line.len() > HEADER_LINE_BYTES_MAX;
        let text = match (self.syntax, &self.fields) {
            (Syntax::W3c, fields) => {
                let directives = fields.as_ref().and_then(|fields| fields.directives());
                match w3c::text_after(directives, line)? {
                    Some(text) => text,
                    None => return Some(Ok(())),
                }
            }
            (_, None) => Ok(String::from_utf8_lossy(line).into_owned()),
            // Files of one kind are joined with their headers.
            (syntax, Some(fields)) => {
                let known = &fields.name[syntax.prefix().len()..];
                return (!known.is_empty() && known.as_bytes() == line).then_some(Ok(()));
            }
        };
        let text = match is_long {
            true => Err(format!(
                "its line is longer than {HEADER_LINE_BYTES_MAX} bytes"
            )),
            false => text,
        };
        let before = self.fields.as_deref();
        if let (Ok(text), Some(before)) = (&text, before)
            && !text.is_empty()
            && before.name[self.syntax.prefix().len()..] == **text
        {
            return Some(Ok(()));
        }
        let read = text.and_then(|text| LineFields::behind(before, self.syntax, &text));
        let outcome = match &read {
            Ok(fields) if fields.name == self.syntax.prefix() => Err("it names no field".into()),
            Ok(_) => Ok(()),
            Err(why) => Err(why.clone()),
        };
        // Behind a bad header no line can be read, whichever comes.
        let fields = read.or_else(|_| LineFields::new(self.syntax, ""));
        self.fields = fields.ok().map(Arc::new);
        Some(outcome.map_err(|why| Bad::because(BAD_HEADER, 0, format!("the header: {why}"))))
    }
}

impl Format {
    /// Returns whether lines of the format can be read only behind a header that is not known.
    pub(crate) fn awaits_header(&self) -> bool {
        Header::of_format(self).is_some_and(|header| header.fields.is_none())
    }

    /// Returns whether each line is a record of its own, since the format has headers, which are
    /// lines: a rule for records of several lines joins none of them.
    pub fn has_record_lines(&self) -> bool {
        Header::of_format(self).is_some()
    }

    /// Returns whether a line can be read by the fields that the format has.
    pub(crate) fn fits(&self, line: &[u8]) -> bool {
        let Self::Fields(fields) = self else {
            return false;
        };
        let (mut row, mut cutter) = (DocumentRow::default(), fields.cutter());
        let read = fields.read(
            LineText::of(line),
            (&mut row, &mut cutter),
            Written::unknown(),
        );
        read.is_ok()
    }
}

/// Refuses a line that has no header before it.
pub(crate) fn no_header() -> Bad {
    Bad::because(
        NO_HEADER,
        0,
        "no header before the line names its fields; name them with the format, as csv:time,level \
         or w3c:date time c-ip",
    )
}

/// Returns names of which none occurs twice: the second of a name gets a number, as in patterns.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    // The last number of each name: a header may have thousands of one.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for name in names {
        let mut numbered = name.clone();
        if known.contains(&name) {
            let number = numbers.entry(name.clone()).or_insert(1);
            while known.contains(&numbered) {
                *number += 1;
                numbered = format!("{name}_{number}");
            }
        }
        known.insert(numbered.clone());
        distinct.push(numbered);
    }
    distinct
}

/// Refuses a line that has more or fewer fields than its header.
fn field_count(fields: usize, named: usize) -> Bad {
    Bad::because(
        FIELD_COUNT,
        0,
        format!("the line has {fields} fields, and its header names {named}"),
    )
}

#[cfg(test)]
mod tests;
