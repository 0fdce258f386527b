//! The contract of a format: its entry in the table of `formats.rs`, and the reader of its lines.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use jiff::tz::TimeZone;
use storage::{Column, StreamKind};

use crate::anonymise::Anonymiser;
use crate::bad::Bad;
use crate::error::Result;
use crate::select::Selection;
use crate::stamp::{self, Written};
use crate::text::LineText;

/// One format of the table.
#[derive(Debug)]
pub(crate) struct FormatEntry {
    /// The name as users spell it.
    pub(crate) name: &'static str,
    /// The kind of a stream whose events come in this format.
    pub(crate) kind: StreamKind,
    /// Recognises a line of the format, for `auto`; `None` where `auto` never decides for it.
    pub(crate) recognise: Option<Recognise>,
    /// Checks whether a piece of a line keeps every value when more follows it; `before` is the
    /// line before it, where there is one.
    pub(crate) is_closed: fn(piece: &[u8], before: Option<&[u8]>) -> bool,
    /// Makes the reader of a source.
    pub(crate) reader: fn(&ReaderOptions, Choice) -> Box<dyn LineReader>,
    /// A source may hold JSON values that are not one to a line (`source/values.rs`).
    pub(crate) holds_values: bool,
    /// The mark of UTF-8 at the beginning of a source belongs to its first line.
    pub(crate) keeps_mark: bool,
}

/// Recognises a line that is not empty, or returns where it begins to differ.
pub(crate) type Recognise = fn(line: &[u8]) -> Result<Fit, Bad>;

/// Degree to which a line is one of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The whole line is.
    Whole,
    /// The line begins as one, and more follows.
    Beginning,
}

/// Reason for which a source is read in its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The user named the format.
    Named,
    /// `auto` decided for it: the reader may take related lines too.
    Auto,
}

/// The part of a line in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Event,
    /// The line says how to read the lines behind it, and has nothing to store.
    Header,
}

/// Reader of the lines of one source into batches of columns.
pub(crate) trait LineReader: fmt::Debug + Send {
    /// Prepares for the next batch. `count` returns the most lines that it can have; counting is a
    /// pass over the block, which a reader that has no use for the number saves.
    fn expect_lines(&mut self, _count: &dyn Fn() -> usize) {}

    /// Takes a line that is not empty as an event or as a header, or returns why it is neither.
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad>;

    /// Returns the name of the format of the next line, where lines of the source decide it.
    fn format_name(&self) -> Option<&str> {
        None
    }

    /// Checks whether a line would be a header for those behind it.
    fn is_header(&self, _line: &[u8]) -> bool {
        false
    }

    /// Returns the events taken since the last call.
    fn finish(&mut self, options: &ReaderOptions) -> Result<RecordBatch>;
}

/// The part of a parser's options that the readers of lines need, under the same names.
#[derive(Debug, Clone)]
pub(crate) struct ReaderOptions {
    pub(crate) strict: bool,
    pub(crate) site: Option<String>,
    pub(crate) received_us: i64,
    pub(crate) max_future_us: i64,
    pub(crate) tz: Option<TimeZone>,
    pub(crate) year: Option<i16>,
    /// The sender of the next line, where its protocol has one.
    pub(crate) sender: Option<Arc<str>>,
    pub(crate) schema: Vec<Column>,
    pub(crate) columns_max: usize,
    pub(crate) selection: Selection,
    pub(crate) anonymiser: Anonymiser,
}

impl ReaderOptions {
    /// Returns the place and time at which stamps without zone or year were written.
    pub(crate) fn written(&self) -> Written<'_> {
        Written {
            zone: self.tz.as_ref(),
            year: self.year,
            received_us: self.received_us,
            sender: self.sender.as_deref(),
        }
    }

    /// Checks an event's stamp, which was read at byte `at` of its line.
    #[inline]
    pub(crate) fn check_time(&self, at: usize, time_us: i64) -> Result<(), Bad> {
        if time_us > self.received_us.saturating_add(self.max_future_us) {
            return Err(Bad::future(
                at,
                time_us,
                self.received_us,
                self.max_future_us,
            ));
        }
        if !stamp::is_held(time_us) {
            return Err(Bad::time_range(at, time_us));
        }
        Ok(())
    }
}
