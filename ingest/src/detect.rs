//! What `auto` decides: the format of a source from its first lines.
//!
//! Up to [`SAMPLE_LINES`] lines that are not empty are looked at. Each votes for JSON (it begins
//! with `{`), for Combined behind a virtual host, for Combined, for Common, or for nothing. JSON
//! needs more votes than the access formats together; among these the most votes win. The choice
//! between Combined and Common names the format only: `auto` takes both, line by line.
//! JSON values that are not one to a line are known by how the source begins (`values.rs`).

use serde::Serialize;

use crate::access::{self, Accept};
use crate::format::Format;
use crate::lines::Lines;
use crate::stamp::AccessStamps;
use crate::values::{holds_values, without_bom};

/// How many lines that are not empty are looked at.
pub const SAMPLE_LINES: u64 = 100;

/// A format and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Detection {
    /// The format, `None` when no line fits any.
    pub format: Option<Format>,
    /// The reason as a sentence.
    pub why: String,
    /// Lines looked at; empty ones are not.
    pub lines: u64,
    /// Lines that are, or begin as, Combined.
    pub combined: u64,
    /// Lines that are, or begin as, Common and not Combined.
    pub common: u64,
    /// Lines that are, or begin as, a virtual host and Combined.
    pub vhost_combined: u64,
    /// Of the three before, lines that go on behind the format.
    pub with_extra: u64,
    /// Lines that begin with `{`.
    pub json: u64,
}

impl Detection {
    fn count(&mut self, line: &[u8], stamps: &mut AccessStamps) {
        self.lines += 1;
        if line.trim_ascii_start().starts_with(b"{") {
            self.json += 1;
            return;
        }
        let Ok(record) = access::read(line, Accept::VHOST.lenient(false), stamps) else {
            return;
        };
        self.with_extra += u64::from(record.extra.is_some());
        match (record.site, record.referrer) {
            (Some(_), _) => self.vhost_combined += 1,
            (None, Some(_)) => self.combined += 1,
            (None, None) => self.common += 1,
        }
    }

    fn decide(&mut self) {
        let access = self.combined + self.common + self.vhost_combined;
        let (format, votes) = if self.json > access {
            (Format::Json, self.json)
        } else if access == 0 {
            self.format = None;
            self.why = match self.lines {
                0 => "there is no line that is not empty".to_owned(),
                lines => format!(
                    "none of the first {lines} lines is an access-log line or begins with {{"
                ),
            };
            return;
        } else if self.vhost_combined > self.combined + self.common {
            (Format::VhostCombined, self.vhost_combined)
        } else if self.combined >= self.common {
            (Format::Combined, self.combined)
        } else {
            (Format::Common, self.common)
        };
        self.format = Some(format);
        self.why = format!("{votes} of the first {} lines are {format}", self.lines);
        if self.with_extra > 0 && format != Format::Json {
            self.why += &format!(
                ", {} lines have more behind an access-log record",
                self.with_extra
            );
        }
    }
}

/// Decides the format of a source from its first lines. The last piece of `sample` counts as a line,
/// so cut the sample at a line end.
pub fn detect(sample: &[u8]) -> Detection {
    let sample = without_bom(sample);
    if holds_values(sample) {
        return Detection {
            format: Some(Format::Json),
            why: "it begins with an array of objects, or an object that is not one line".to_owned(),
            lines: 1,
            json: 1,
            ..Detection::default()
        };
    }
    let mut detection = Detection::default();
    let mut stamps = AccessStamps::new();
    let lines = Lines::new(sample)
        .map(|(_, line)| line)
        .filter(|line| !line.is_empty());
    for line in lines.take(SAMPLE_LINES as usize) {
        detection.count(line, &mut stamps);
    }
    detection.decide();
    detection
}

#[cfg(test)]
mod tests;
