//! Decides the format of a source from its first lines, for `auto`.
//!
//! Each of the first [`SAMPLE_LINES`] lines that are not empty votes for the format that recognises
//! it (`formats.rs`), or for none. A format of documents needs more votes than the access formats
//! together; among these the most votes win. The choice between Combined and Common names the
//! format only: `auto` takes both, line by line. JSON values that are not one to a line are
//! recognised by the beginning of the source (`source/values.rs`).

use std::collections::BTreeMap;

use serde::Serialize;
use storage::StreamKind;

use crate::formats::{Format, nearest, recognise};
use crate::header_search::HeaderSearch;
use crate::reader::Fit;
use crate::source::{BlockRecords, Multiline, holds_values, joined, without_bom};

/// The most lines that vote; empty ones do not.
pub const SAMPLE_LINES: u64 = 100;

/// A format and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Detection {
    /// The format, `None` when no line fits any.
    pub format: Option<Format>,
    /// The reason as a sentence.
    pub why: String,
    /// Lines that could vote; empty ones cannot.
    pub lines: u64,
    /// Lines that are, or begin as, one of a format.
    #[serde(flatten)]
    pub votes: BTreeMap<Format, u64>,
    /// Of these, lines of which the format is only the beginning.
    pub with_extra: u64,
    /// Lines that are in the format that was chosen; for an access log, in any of them.
    pub fit: u64,
    /// The other format with the most lines, when there is one.
    pub runner_up: Option<RunnerUp>,
    /// The fields that the last directive of W3C names.
    #[serde(skip)]
    fields: Option<Format>,
}

/// A format that lines are in, but fewer than in the one that was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunnerUp {
    /// The format.
    pub format: Format,
    /// Lines that are in it.
    pub lines: u64,
}

impl Detection {
    /// Returns how sure the decision is, as a part of a sentence: the share of the lines that fit,
    /// and the next format.
    pub fn sureness(&self) -> String {
        let Self { fit, lines, .. } = self;
        let of = match fit == lines {
            true => format!("all {lines}"),
            false => format!("{fit} of {lines}"),
        };
        match &self.runner_up {
            None => format!("{of} lines of the sample fit, and no other format fits one"),
            Some(RunnerUp { format, lines }) => {
                format!("{of} lines of the sample fit, and {lines} are {format}")
            }
        }
    }

    fn new() -> Self {
        let recognised = |format: &&Format| format.entry().recognise.is_some();
        let formats = Format::ALL.iter().filter(recognised);
        Self {
            votes: formats.map(|format| (format.clone(), 0)).collect(),
            ..Self::default()
        }
    }

    fn count(&mut self, line: &[u8]) {
        self.lines += 1;
        let Some((format, fit)) = self.recognise(line) else {
            return;
        };
        *self.votes.entry(format).or_default() += 1;
        self.with_extra += u64::from(fit == Fit::Beginning);
    }

    /// Returns the format of a line. By its directives, a line of W3C is one.
    fn recognise(&mut self, line: &[u8]) -> Option<(Format, Fit)> {
        let recognised = recognise(line);
        match &recognised {
            Some((Format::W3c, _)) => {
                let before = self.fields.take().unwrap_or(Format::W3c);
                self.fields = Some(before.after(line));
            }
            None if self.fields.as_ref().is_some_and(|fields| fields.fits(line)) => {
                return Some((Format::W3c, Fit::Whole));
            }
            _ => {}
        }
        recognised
    }

    fn votes(&self, format: &Format) -> u64 {
        self.votes.get(format).copied().unwrap_or(0)
    }

    /// Returns the access format to take, and the votes for all of them.
    fn access(&self) -> (Format, u64) {
        let of_kind = |format: &&Format| format.kind() == StreamKind::Access;
        let access = self.votes.keys().filter(of_kind);
        let total: u64 = access.map(|format| self.votes(format)).sum();
        let vhost = self.votes(&Format::VhostCombined);
        let format = if vhost > total - vhost {
            Format::VhostCombined
        } else if self.votes(&Format::Combined) >= self.votes(&Format::Common) {
            Format::Combined
        } else {
            Format::Common
        };
        (format, total)
    }

    /// Returns the format of documents with the most votes.
    fn documents(&self) -> Option<Format> {
        let of_kind = |format: &&Format| format.kind() == StreamKind::Documents;
        let documents = self.votes.keys().filter(of_kind);
        // A directive among other lines may be a comment of any file.
        let has_fields = matches!(&self.fields, Some(fields) if !fields.awaits_header());
        let is_w3c = has_fields || self.votes(&Format::W3c) == self.lines;
        let documents = documents.filter(|format| is_w3c || **format != Format::W3c);
        let key = |format: &&Format| (self.votes(format), **format != Format::W3c);
        documents.max_by_key(key).cloned()
    }

    /// Decides. The first of the lines is told when none of them is in a format.
    fn decide(&mut self, first: Option<&[u8]>) {
        let (access, access_votes) = self.access();
        let documents = self.documents();
        let documents = documents.filter(|format| self.votes(format) > access_votes);
        let Some(format) = documents.or_else(|| (access_votes > 0).then_some(access)) else {
            self.why = match self.lines {
                0 => "there is no line with content".to_owned(),
                lines => format!("none of the first {lines} lines is in a known format"),
            };
            if let Some(line) = first
                && let Some((format, bad)) = nearest(line)
            {
                self.why += &format!("; the first is nearest to {format}: {}", bad.detail(line));
            }
            return;
        };
        let votes = self.votes(&format);
        self.why = format!("{votes} of the first {} lines are {format}", self.lines);
        if self.with_extra > 0 && format.kind() == StreamKind::Access {
            self.why += &format!(
                ", {} lines have extra text after the access-log record",
                self.with_extra
            );
        }
        let is_other = |other: &&Format| match format.kind() {
            StreamKind::Access => other.kind() != StreamKind::Access,
            _ => **other != format,
        };
        let others = self.votes.keys().filter(is_other);
        let next = others.max_by_key(|other| self.votes(other)).cloned();
        let next = next.map(|format| RunnerUp {
            lines: self.votes(&format),
            format,
        });
        self.runner_up = next.filter(|next| next.lines > 0);
        self.fit = match format.kind() {
            StreamKind::Access => access_votes,
            _ => votes,
        };
        self.format = Some(format);
    }
}

/// Decides the format of a source from its first lines, or its first records by a rule. The last
/// piece of `sample` counts as a line, so cut the sample at a line end.
pub fn detect(sample: &[u8], rule: Option<&Multiline>) -> Detection {
    let by_lines = detect_records(sample, None);
    match (rule, &by_lines.format) {
        // Its headers are lines, whatever the rule says of them.
        (_, Some(format)) if format.has_record_lines() => by_lines,
        (Some(rule), _) => detect_records(sample, Some(rule)),
        (None, _) => by_lines,
    }
}

fn detect_records(sample: &[u8], rule: Option<&Multiline>) -> Detection {
    let sample = without_bom(sample);
    let mut detection = Detection::new();
    if holds_values(sample) {
        detection.format = Some(Format::Json);
        detection.why =
            "the content begins with an array of objects or with an object of several lines"
                .to_owned();
        (detection.lines, detection.fit) = (1, 1);
        detection.votes.insert(Format::Json, 1);
        return detection;
    }
    let lines = || {
        let lines = BlockRecords::new(sample, rule).map(|(_, line)| joined(line, b' '));
        lines.filter(|line| !line.is_empty())
    };
    for line in lines().take(SAMPLE_LINES as usize) {
        detection.count(&line);
    }
    detection.decide(lines().next().as_deref());
    detection
}

/// Makes the search of the header of a source whose first bytes are there; `named` is its format,
/// or `auto`, which finds formats with a header by these bytes.
pub fn search_header(named: &Format, head: &[u8]) -> HeaderSearch {
    let end = memchr::memrchr(b'\n', head).map_or(head.len(), |end| end + 1);
    match named {
        Format::Auto => match detect(&head[..end], None).format {
            Some(Format::W3c) => HeaderSearch::new(&Format::W3c),
            _ => HeaderSearch::new(named),
        },
        named => HeaderSearch::new(named),
    }
}

/// Decides the format of one line for a stream that exists: the format of the stream's kind that
/// the whole line is in, else the usual one of that kind. The kind of the stream says more than a
/// line that may be broken.
pub fn detect_line(line: &[u8], kind: StreamKind) -> Format {
    match recognise(without_bom(line)) {
        Some((format, Fit::Whole)) if format.kind() == kind => format,
        _ => match kind {
            StreamKind::Access => Format::Combined,
            StreamKind::Documents => Format::Json,
            _ => Format::Auto,
        },
    }
}

#[cfg(test)]
mod tests;
