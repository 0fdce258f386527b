//! The parser of a source: blocks of lines in, batches of columns and quarantined lines out.
//!
//! A [`Parser`] lives as long as its source and keeps its state from block to block: the decision
//! of `auto`, the types of JSON columns, the position, the size of its columns.
//!
//! # Invariants
//! * `lines = events + quarantine + empty` in every [`Parsed`]. By a rule (`source/multiline.rs`)
//!   records take the place of lines here, and lines keep their numbers in the source.
//! * `rank` counts the events and quarantined lines of one call, `index` all lines of the source,
//!   `line` and `byte` are places in the source. All rise together.

mod decision;
mod future;
mod items;
mod take;
mod tally;

use std::borrow::Cow;

use arrow::array::Array;
use storage::StreamKind;

use self::tally::BlockTally;
use crate::bad::Bad;
use crate::detect::Detection;
use crate::error::{Error, Result};
use crate::formats::Format;
use crate::options::ParseOptions;
use crate::parsed::Parsed;
use crate::reader::{Choice, LineReader, ReaderOptions};
use crate::select;
use crate::source::{
    BlockRecords, JsonValues, Multiline, SourceBlock, holds_values, joined, without_bom,
};
use crate::text::{LineText, TextColumn};

/// The largest block that is taken at once. Text columns address 2^31 bytes, and the columns of a
/// block can take a multiple of its size: an array of one-digit numbers nine times as much in
/// `_rest`.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;

/// Reads the lines of one source.
#[derive(Debug)]
pub struct Parser {
    /// The format in the options.
    named: Format,
    /// The format in use.
    format: Format,
    /// Lines that `auto` has searched in vain; `None` once it has decided or given up.
    undecided: Option<u64>,
    /// The decision of `auto`, until it is taken.
    detection: Option<Detection>,
    reader: Box<dyn LineReader>,
    options: ReaderOptions,
    reads_future: bool,
    ordered: bool,
    values: Option<bool>,
    multiline: Option<Multiline>,
    bytes_max: usize,
    item_bytes: usize,
    record_bytes_max: usize,
    line: u64,
    byte: u64,
    index: u64,
    stopped_at: Option<u64>,
    /// The lines of the batch's events, when they are stored.
    raw_lines: TextColumn,
    /// The byte, from 0, at which reading stopped in the first bad line, for `explain`.
    first_bad_at: Option<usize>,
}

impl Parser {
    /// Makes a parser at the beginning of its source.
    pub fn new(options: ParseOptions) -> Self {
        let format = options.format;
        let readers = ReaderOptions {
            strict: options.strict,
            site: options.site,
            received_us: options.received_us,
            max_future_us: options.max_future_us,
            tz: options.tz,
            year: options.year,
            sender: None,
            schema: options.schema,
            columns_max: options.columns_max,
            selection: options.selection,
            anonymiser: options.anonymiser,
        };
        Self {
            named: format.clone(),
            undecided: (format == Format::Auto).then_some(0),
            detection: None,
            reader: format.reader(&readers, Choice::Named),
            format,
            options: readers,
            reads_future: options.reads_future,
            ordered: options.ordered,
            values: options.values,
            multiline: options.multiline,
            bytes_max: options.bytes_max,
            item_bytes: options.item_bytes,
            record_bytes_max: options.record_bytes_max,
            line: options.first_line,
            byte: options.first_byte,
            index: 0,
            stopped_at: None,
            raw_lines: TextColumn::new(),
            first_bad_at: None,
        }
    }

    /// Returns the format in use, `None` while `auto` has none.
    pub fn format(&self) -> Option<Format> {
        (self.format != Format::Auto).then(|| self.format.clone())
    }

    /// Sets the place where the next block begins: its line (from 1) and byte (from 0). Blocks that
    /// follow one another need no call.
    pub fn set_position(&mut self, line: u64, byte: u64) {
        self.line = line;
        self.byte = byte;
    }

    /// Sets the time of receipt of the next bytes, in microseconds since 1970.
    pub fn set_received(&mut self, received_us: i64) {
        self.options.received_us = received_us;
    }

    /// Returns the column, from 1, at which the first bad line could not be read further.
    pub(crate) fn first_bad_column(&self) -> Option<usize> {
        self.first_bad_at.map(|at| at + 1)
    }

    /// Reads the lines of a block that [`crate::LineBlocks`] cut, at its place in the source.
    ///
    /// # Errors
    /// As [`Parser::parse`].
    pub fn parse_block(&mut self, block: &SourceBlock) -> Result<Parsed> {
        self.set_position(block.first_line, block.first_byte);
        if block.too_long {
            self.reject_long(&block.bytes, block.end_byte - block.first_byte)
        } else if block.values {
            self.parse_values(&block.bytes)
        } else {
            self.parse_lines(&block.bytes)
        }
    }

    /// Reads the lines of `block`: whole lines, of which the last may lack its LF. The beginning of
    /// a source that may be JSON is checked for values that are not one to a line.
    ///
    /// # Errors
    /// [`Error::BlockTooLarge`] above [`BLOCK_BYTES_MAX`], [`Error::TooMuch`]; lines never fail,
    /// they are quarantined.
    pub fn parse(&mut self, block: &[u8]) -> Result<Parsed> {
        let values = match self.values {
            Some(values) => values,
            None => self.index == 0 && holds_values(block),
        };
        match values && self.named.may_hold_values() {
            true => self.parse_values(block),
            false => self.parse_lines(block),
        }
    }

    /// Reads the JSON values of `block`, wherever its lines end. An item counts as a line.
    fn parse_values(&mut self, block: &[u8]) -> Result<Parsed> {
        check_size(block)?;
        if self.format == Format::Auto {
            self.choose(Format::Json);
        }
        let mut tally = self.tally();
        let (first_line, first_byte) = (self.line, self.byte);
        let (mut line_ends, mut counted_to) = (0, 0);
        if self.stopped_at.is_none() {
            self.reader
                .expect_lines(&|| JsonValues::new(block, first_byte).count());
            for (begin, item) in JsonValues::new(block, first_byte) {
                line_ends += memchr::memchr_iter(b'\n', &block[counted_to..begin]).count() as u64;
                counted_to = begin;
                let place = (first_line + line_ends, first_byte + begin as u64);
                if !self.take(&mut tally, LineText::of(item), item, place)? {
                    break;
                }
            }
        }
        let lines = memchr::memchr_iter(b'\n', block).count() as u64;
        self.finish(tally, lines, block.len() as u64)
    }

    fn parse_lines(&mut self, block: &[u8]) -> Result<Parsed> {
        check_size(block)?;
        let mut tally = self.tally();
        let (first_line, first_byte) = (self.line, self.byte);
        if self.stopped_at.is_none() {
            let rule = self.multiline.clone();
            self.decide(block, rule.as_ref(), |_| true);
        }
        let rule = self.rule();
        let mut records = BlockRecords::new(block, rule.as_ref());
        if self.stopped_at.is_none() {
            self.reader
                .expect_lines(&|| 1 + memchr::memchr_iter(b'\n', block).count());
            // One check for the whole block; only where it fails each line is checked for itself.
            let text = simdutf8::basic::from_utf8(block).ok();
            while let Some((begin, record)) = records.next() {
                if record.is_empty() {
                    tally.add_empty();
                    continue;
                }
                let byte = first_byte + begin as u64;
                let mark = if byte == 0 { self.mark_of(record) } else { 0 };
                let joined = self.joined(&record[mark..]);
                let source = match (text, &joined) {
                    (Some(text), Cow::Borrowed(_)) => {
                        LineText::Valid(&text[begin + mark..begin + record.len()])
                    }
                    _ => LineText::of(&joined),
                };
                let place = (first_line + records.lines_before(), byte);
                if !self.take(&mut tally, source, record, place)? {
                    break;
                }
            }
        }
        let (count, taken) = match tally.count {
            0 => (0, 0),
            _ => records.position(),
        };
        // Its header may stand in these lines.
        if let Some(name) = self.reader.format_name()
            && name != self.format.as_str()
        {
            self.format = name.parse()?;
        }
        self.finish(tally, count, taken as u64)
    }

    /// Returns the rule by which lines of the format in use are records.
    fn rule(&self) -> Option<Multiline> {
        let rule = self.multiline.as_ref();
        rule.filter(|_| !self.format.has_record_lines()).cloned()
    }

    /// Returns a record as the text of one. Access logs have no line ends: where a record has some,
    /// they stand for the blanks between its fields.
    fn joined<'a>(&self, record: &'a [u8]) -> Cow<'a, [u8]> {
        match (&self.multiline, self.format.kind()) {
            (None, _) => record.into(),
            (_, StreamKind::Access) => joined(record, b' '),
            _ => joined(record, b'\n'),
        }
    }

    /// Quarantines a line of `length` bytes, its end included, of which only the beginning is
    /// there.
    ///
    /// # Errors
    /// Errors of Arrow; there are none known.
    pub fn reject_long(&mut self, head: &[u8], length: u64) -> Result<Parsed> {
        let mut tally = self.tally();
        if self.stopped_at.is_some() {
            return self.finish(tally, 0, 0);
        }
        let bad = Bad::because(
            "line_too_long",
            head.len(),
            format!(
                "the line and its end have {length} bytes, of which the first {} are kept",
                head.len()
            ),
        );
        let place = (self.line, self.byte);
        self.quarantine(&mut tally, &bad, head, head, place);
        self.finish(tally, 1, length)
    }

    fn tally(&self) -> BlockTally {
        let site_bytes = self.options.site.as_ref().map_or(0, String::len);
        BlockTally::new(site_bytes, self.item_bytes, &self.options.anonymiser)
    }

    /// Returns the bytes of the mark of UTF-8 at the beginning of a source, which is no part of its
    /// first line. A plain line stays as it is.
    fn mark_of(&self, line: &[u8]) -> usize {
        match self.named.entry().keeps_mark {
            true => 0,
            false => line.len() - without_bom(line).len(),
        }
    }

    /// Gives up the rows of a block.
    fn too_much(&mut self, lines: u64) -> Error {
        // The rows and their lines go, whatever they are.
        let _ignored = self.reader.finish(&self.options);
        self.raw_lines.finish();
        Error::TooMuch {
            lines,
            max: self.bytes_max,
        }
    }

    /// Ends a call that has read so many lines and bytes of the source.
    fn finish(&mut self, mut tally: BlockTally, lines: u64, bytes: u64) -> Result<Parsed> {
        self.line += lines;
        self.index += tally.count;
        self.byte += bytes;
        self.options.anonymiser.check_usable()?;
        let mut events = self.reader.finish(&self.options)?;
        if self.options.selection.raw_line && events.num_rows() > 0 {
            events = select::with_lines(&events, self.raw_lines.finish())?;
        }
        // Documents have any number of columns, and each event takes a place in all of them.
        let data = events.columns().iter().map(|column| column.to_data());
        let sizes = data.map(|data| data.get_slice_memory_size().unwrap_or(usize::MAX));
        if sizes.fold(0, usize::saturating_add) > self.bytes_max {
            return Err(self.too_much(tally.count));
        }
        if !tally.future.is_empty() {
            events = future::divided(&events, self.format.kind(), &mut tally)?;
        }
        Ok(Parsed {
            kind: self.format.kind(),
            format: self.format.clone(),
            events,
            quarantine: tally.quarantine,
            lines: tally.count,
            empty: tally.empty,
            stopped_at: self.stopped_at,
            hides_lines: self.options.anonymiser.hides_lines(),
        })
    }
}

fn check_size(block: &[u8]) -> Result<()> {
    if block.len() > BLOCK_BYTES_MAX {
        return Err(Error::BlockTooLarge {
            bytes: block.len(),
            max: BLOCK_BYTES_MAX,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
