//! The rule by which lines become records: stack traces, and records that hold line ends.
//!
//! # Invariants
//! * A block that [`LineBlocks`](super::LineBlocks) cuts by a rule begins with a record and ends
//!   with one, so the first line of a block begins a record, whatever the rule says of it. The
//!   exception is a record of more bytes than the longest line, or of more lines than a block has:
//!   it becomes several records.
//! * No byte of a line is in two records, and each is in one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use regex::bytes::Regex;

use super::Lines;
use crate::error::Error;

/// Decides which lines begin a record; the others belong to the record before them.
#[derive(Debug, Clone)]
pub struct Multiline {
    text: Arc<str>,
    /// Shared, since an expression has memory of its own in each copy.
    rule: Arc<RecordRule>,
}

#[derive(Debug, Clone)]
enum RecordRule {
    /// All lines but those that begin with a blank or as Java's causes do.
    Indent,
    /// Lines in which the expression matches.
    Start(Regex),
}

impl Multiline {
    /// Returns the rule as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a line begins a record. An empty line never does.
    fn begins(&self, line: &[u8]) -> bool {
        !line.is_empty()
            && match &*self.rule {
                RecordRule::Indent => {
                    !line.starts_with(b" ")
                        && !line.starts_with(b"\t")
                        && !line.starts_with(b"Caused by:")
                }
                RecordRule::Start(expression) => expression.is_match(line),
            }
    }

    /// Returns the place of the last line that begins a record, other than the first; the lines
    /// before the byte `from` are known to begin none.
    pub(super) fn last_begin(&self, lines: &[u8], from: usize) -> Option<usize> {
        let first = memchr::memrchr(b'\n', &lines[..from]).map_or(0, |end| end + 1);
        let mut end = lines.len();
        while end > first {
            let line_end = end - usize::from(lines[..end].ends_with(b"\n"));
            let begin = memchr::memrchr(b'\n', &lines[..line_end]).map_or(0, |end| end + 1);
            let line = &lines[begin..line_end];
            if begin > 0 && self.begins(line.strip_suffix(b"\r").unwrap_or(line)) {
                return Some(begin);
            }
            end = begin;
        }
        None
    }

    /// Returns whether lines are one record at most.
    pub fn is_one(&self, lines: &[u8]) -> bool {
        self.last_begin(lines, 0).is_none()
    }
}

impl FromStr for Multiline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Multiline {
            rule: text.to_owned(),
            why,
        };
        let rule = match text.split_once(':') {
            None if text == "indent" => RecordRule::Indent,
            Some(("start", expression)) => match Regex::new(expression) {
                Ok(expression) if expression.is_match(b"") => {
                    return Err(wrong("it matches in every line".to_owned()));
                }
                Ok(expression) => RecordRule::Start(expression),
                Err(e) => return Err(wrong(e.to_string())),
            },
            _ => {
                return Err(wrong(
                    r"it is indent or start:EXPRESSION, as start:^\d{4}-".to_owned(),
                ));
            }
        };
        Ok(Self {
            text: text.into(),
            rule: Arc::new(rule),
        })
    }
}

impl PartialEq for Multiline {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Multiline {}

impl fmt::Display for Multiline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The records of a block: its lines, or by a rule some lines each.
pub struct BlockRecords<'a> {
    block: &'a [u8],
    lines: Lines<'a>,
    rule: Option<&'a Multiline>,
    /// The line that begins the next record.
    next: Option<(usize, &'a [u8])>,
    /// Lines up to the end of the last record.
    count: u64,
    /// Lines of the last record.
    of_last: u64,
}

impl<'a> BlockRecords<'a> {
    /// Returns the records of a block that begins with one. An empty line is an empty record.
    pub fn new(block: &'a [u8], rule: Option<&'a Multiline>) -> Self {
        Self {
            block,
            lines: Lines::new(block),
            rule,
            next: None,
            count: 0,
            of_last: 0,
        }
    }

    /// Returns the number of lines before the last record.
    pub fn lines_before(&self) -> u64 {
        self.count - self.of_last
    }

    /// Returns the number of lines, and the byte of the block, behind the last record.
    pub(crate) fn position(&self) -> (u64, usize) {
        let end = self.next.map_or(self.lines.position(), |(begin, _)| begin);
        (self.count, end)
    }
}

impl<'a> Iterator for BlockRecords<'a> {
    /// The byte at which the record begins in the block, and the record without its last line
    /// ends.
    type Item = (usize, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(rule) = self.rule else {
            self.count += 1;
            self.of_last = 1;
            let line = self.lines.next();
            if line.is_none() {
                self.count -= 1;
            }
            return line;
        };
        let (begin, line) = self.next.take().or_else(|| self.lines.next())?;
        let mut end = begin + line.len();
        self.of_last = 1;
        for (at, line) in self.lines.by_ref() {
            if rule.begins(line) {
                self.next = Some((at, line));
                break;
            }
            self.of_last += 1;
            // Empty lines at the end are no part of it.
            if !line.is_empty() {
                end = at + line.len();
            }
        }
        self.count += self.of_last;
        Some((begin, &self.block[begin..end]))
    }
}

/// Returns a record as one text: its lines with `between` between them.
pub(crate) fn joined(record: &[u8], between: u8) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\n', record).is_none() {
        return record.into();
    }
    let mut text = Vec::with_capacity(record.len());
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', record) {
        let line = &record[from..end];
        text.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        text.push(between);
        from = end + 1;
    }
    text.extend_from_slice(&record[from..]);
    text.into()
}

#[cfg(test)]
mod tests;
