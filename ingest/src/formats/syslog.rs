//! Syslog: RFC 5424, RFC 3164, and the files that daemons write of both.
//!
//! | line | |
//! |---|---|
//! | `<34>1 2026-11-26T09:23:38.003Z host app 42 ID47 [a@1 k="v"] text` | RFC 5424 |
//! | `<34>Nov 26 09:23:38 host app[42]: text` | RFC 3164 |
//! | both without `<34>`, the former also without `1` | files |
//! | `2026-11-26T09:23:38.003+01:00 host app[42]: text` | rsyslog's files |
//!
//! A priority gives `facility` and `level`, by the names of RFC 5424, section 6.2.1, as rsyslog
//! shortens them. The text is `line`, structured data are `structured_data.ID.NAME`. RFC 3164 has
//! no year and no zone: those of the receipt, or of the options. A line that names no host has the
//! address of its sender, where a listener knows one.

mod structured;

use storage::StreamKind;

use super::documents::{DocumentReader, recognise_stamped};
use crate::bad::Bad;
use crate::documents::{DocumentRow, Value};
use crate::error::Result;
use crate::reader::FormatEntry;
use crate::stamp::{self, Written, read_bsd};
use crate::text::{ByteSpan, LineText};

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "syslog",
    kind: StreamKind::Documents,
    recognise: Some(|line| recognise_stamped(read, line)),
    is_closed: |_, _| false,
    reader: |options, _| DocumentReader::boxed(read, options),
    holds_values: false,
    keeps_mark: false,
};

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];
const LEVELS: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];
/// Words behind the time of logs that are no syslog, where a syslog line has its host.
const LEVEL_WORDS: [&str; 9] = [
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL",
];
/// The mark of UTF-8, with which RFC 5424 lets a text begin.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// The column of the sender behind which another format has its own `host`.
const SENDER: &str = "hostname";

fn read(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
    let mut line = SyslogLine {
        line,
        at: 0,
        host: "host",
    };
    line.head(row, written)?;
    line.text(row);
    if !has(row, "host")
        && let Some(sender) = written.sender
    {
        row.push_text("host", sender);
    }
    Ok(())
}

/// Reads the header before a message of another format, or the tag alone, where the line has
/// either. The sender is `hostname`. Returns the place of the message.
pub(super) fn read_head(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> usize {
    let mut head = SyslogLine {
        line,
        at: 0,
        host: SENDER,
    };
    if head.head(row, written).is_err() {
        row.clear();
        head.at = 0;
        head.skips_tag(row);
    }
    if !has(row, SENDER)
        && let Some(sender) = written.sender
    {
        row.push_text(SENDER, sender);
    }
    head.at
}

fn has(row: &DocumentRow, name: &str) -> bool {
    let mut fields = row.fields.iter();
    fields.any(|field| row.str(&field.name) == name)
}

impl SyslogLine<'_> {
    /// Reads everything before the text.
    fn head(&mut self, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
        let line = self;
        let priority = line.priority();
        if let Some(priority) = priority {
            row.push_text("facility", FACILITIES[priority / 8]);
            row.push_text("level", LEVELS[priority % 8]);
        }
        if line.skips(b"1 ") {
            return line.headed(row, written);
        }
        if let Some((us, end)) = line.zoned(written) {
            row.time_us = Some(us);
            line.at = end;
            return match line.holds_header() {
                true => line.behind_stamp(row),
                false => line.tagged(row),
            };
        }
        if let Some((us, bytes)) = read_bsd(line.rest(), written)
            && line.rest().get(bytes) == Some(&b' ')
        {
            row.time_us = Some(us);
            line.at += bytes + 1;
            return line.tagged(row);
        }
        match priority {
            // RFC 3164, section 4.3.3: a text without a header was sent when it came.
            Some(_) => Ok(()),
            None => {
                let expected = "a time as Nov 26 09:23:38 or 2026-11-26T09:23:38Z";
                Err(Bad::expected("bad_time", line.at, expected))
            }
        }
    }
}

/// A line, read up to a place.
struct SyslogLine<'a> {
    line: LineText<'a>,
    at: usize,
    /// The column of the sender.
    host: &'static str,
}

impl<'a> SyslogLine<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.line.bytes()[self.at..]
    }

    fn skips(&mut self, text: &[u8]) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    /// Reads `<0>` to `<191>`.
    fn priority(&mut self) -> Option<usize> {
        let rest = self.rest().strip_prefix(b"<")?;
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if !(1..=3).contains(&digits) || rest.get(digits) != Some(&b'>') {
            return None;
        }
        let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        if number >= FACILITIES.len() * LEVELS.len() {
            return None;
        }
        self.at += digits + 2;
        Some(number)
    }

    /// Returns the place of a word that is not empty and, behind it, of the next one.
    fn word_at(&self, begin: usize) -> Option<(ByteSpan, usize)> {
        let rest = &self.line.bytes()[begin..];
        let length = memchr::memchr(b' ', rest)?;
        (length > 0).then_some(((begin, begin + length), begin + length + 1))
    }

    fn word(&mut self, expected: &'static str) -> Result<ByteSpan, Bad> {
        let (word, next) = self.word_at(self.at).ok_or_else(|| {
            // A word may end the line, but no field of a header does.
            Bad::expected("bad_header", self.at, expected)
        })?;
        self.at = next;
        Ok(word)
    }

    /// Reads a stamp of RFC 3339 and the space behind it. Returns the time and the place behind.
    fn zoned(&self, written: Written<'_>) -> Option<(i64, usize)> {
        let (word, next) = self.word_at(self.at)?;
        let text = std::str::from_utf8(&self.line.bytes()[word.0..word.1]).ok()?;
        if text.as_bytes().get(10) != Some(&b'T') {
            return None;
        }
        let us = stamp::read_text(text, written.zone)?;
        let (host, _) = self.word_at(next)?;
        let host = &self.line.bytes()[host.0..host.1];
        let is_level = |word: &str| word.as_bytes().eq_ignore_ascii_case(host);
        (!LEVEL_WORDS.iter().any(|word| is_level(word))).then_some((us, next))
    }

    /// Reads what follows the version of RFC 5424.
    fn headed(&mut self, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad> {
        if !self.skips(b"- ") {
            let begin = self.at;
            let word = self.word("a time of RFC 3339 or -")?;
            let text = self.line.part(word);
            let us = stamp::read_text(&text, written.zone).filter(|_| text.contains('T'));
            let bad = || Bad::expected("bad_time", begin, "a time of RFC 3339 or -");
            row.time_us = Some(us.ok_or_else(bad)?);
        }
        self.behind_stamp(row)
    }

    /// Returns whether host, application, process and message's id follow, and then structured
    /// data or `-`: else the line has a tag.
    fn holds_header(&self) -> bool {
        let mut at = self.at;
        for _ in 0..4 {
            let Some((word, next)) = self.word_at(at) else {
                return false;
            };
            if self.line.bytes()[word.1 - 1] == b':' {
                return false;
            }
            at = next;
        }
        match &self.line.bytes()[at..] {
            [b'-', rest @ ..] => matches!(rest, [] | [b' ', ..]),
            data => structured::length(data).is_ok(),
        }
    }

    fn behind_stamp(&mut self, row: &mut DocumentRow) -> Result<(), Bad> {
        for (name, expected) in [
            (self.host, "a host or -"),
            ("app", "an application or -"),
            ("pid", "a process or -"),
            ("msgid", "the id of a message or -"),
        ] {
            let word = self.line.part(self.word(expected)?);
            match (name, &*word) {
                (_, "-") => {}
                ("pid", process) => push_process(process, row),
                (name, text) => row.push_text(name, text),
            }
        }
        if !self.skips(b"-") {
            let length = structured::length(self.rest())
                .map_err(|(at, expected)| Bad::expected("bad_data", self.at + at, expected))?;
            structured::push(self.line, (self.at, self.at + length), row)?;
            self.at += length;
        }
        match self.rest() {
            [] => Ok(()),
            [b' ', ..] => {
                self.at += 1;
                Ok(())
            }
            _ => Err(Bad::expected(
                "bad_data",
                self.at,
                "a space before the text",
            )),
        }
    }

    /// Reads host and tag, either of which may be absent, and the text.
    fn tagged(&mut self, row: &mut DocumentRow) -> Result<(), Bad> {
        // Without a host, a tag follows the time: programs write so to their own daemon.
        if self.skips_tag(row) {
            return Ok(());
        }
        let host = self.word("a host")?;
        row.push_text(self.host, &self.line.part(host));
        self.skips_tag(row);
        Ok(())
    }

    /// Reads `app: ` or `app[42]: `.
    fn skips_tag(&mut self, row: &mut DocumentRow) -> bool {
        let rest = self.rest();
        let length = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        let Some(tag) = rest[..length].strip_suffix(b":") else {
            return false;
        };
        let bracket = memchr::memchr(b'[', tag).filter(|_| tag.ends_with(b"]"));
        let app = bracket.unwrap_or(tag.len());
        if app == 0 {
            return false;
        }
        let begin = self.at;
        row.push_text("app", &self.line.part((begin, begin + app)));
        if let Some(bracket) = bracket {
            let process = (begin + bracket + 1, begin + tag.len() - 1);
            push_process(&self.line.part(process), row);
        }
        self.at += (length + 1).min(rest.len());
        true
    }

    /// Takes the rest as the text.
    fn text(&mut self, row: &mut DocumentRow) {
        self.skips(MARK);
        let end = self.line.bytes().len();
        if self.at < end {
            row.push_text("line", &self.line.part((self.at, end)));
        }
    }
}

/// Appends the number of a process, or its name.
fn push_process(process: &str, row: &mut DocumentRow) {
    let has_zeros = process.len() > 1 && process.starts_with('0');
    let is_number = !has_zeros && process.bytes().all(|b| b.is_ascii_digit());
    match process.parse().ok().filter(|_| is_number) {
        Some(number) => row.push_value("pid", Value::Int(number)),
        None => row.push_text("process", process),
    }
}

#[cfg(test)]
mod tests;
