//! The parser of a source: blocks of lines in, batches of columns and quarantined lines out.
//!
//! A [`Parser`] lives as long as its source, for what it learns is kept from block to block: the
//! decision of `auto`, the types of JSON columns, the position, the size of its columns.
//!
//! # Invariants
//! * `lines = events + quarantine + empty` in every [`Parsed`].
//! * `rank` counts the events and quarantined lines of one call, `index` all lines of the source,
//!   `line` and `byte` are places in the source. All rise together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch};
use storage::{Column, Quarantined, StreamKind};

use crate::access::columns::{Columns, Text, TextColumn};
use crate::access::{self, Accept};
use crate::blocks::Block;
use crate::detect::{SAMPLE_LINES, detect};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::json::Documents;
use crate::lines::Lines;
use crate::select::{self, Selection};
use crate::stamp::{self, AccessStamps};
use crate::values::{Values, holds_values, without_bom};

/// How long after its receipt an event may be stamped, in microseconds: ten minutes.
pub const MAX_FUTURE_US: i64 = 600_000_000;
/// The largest block that is taken at once. Text columns address 2^31 bytes, and what a block says
/// can take a multiple of its size: an array of one-digit numbers nine times as much in `_rest`.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;

/// The reason of lines of a source that has no known format.
const NO_FORMAT: &str = "no_format";
/// Bytes of an event of an access log beside its text: two numbers, a time, twelve offsets.
const EVENT_BYTES: usize = 66;
/// Bytes of a quarantined line beside its text in one of the three forms that it goes through, of
/// which two are there at once: items of their own, columns, and the journal's record.
const ITEM_COLUMNS_BYTES: usize = 52;
const ITEM_BYTES: usize = size_of::<Quarantined>() + 64;

/// How a source is to be read.
#[derive(Debug, Clone)]
pub struct ParseOptions {
    /// The format; `Auto` decides from the first lines.
    pub format: Format,
    /// `Auto` takes whole lines only, none with something behind its format.
    pub strict: bool,
    /// Stop at the first bad item instead of going on past it.
    pub ordered: bool,
    /// The column `site` of events whose format or document has none.
    pub site: Option<String>,
    /// When the bytes came, microseconds since 1970. The default, 0, makes every later stamp one of
    /// the future: set it.
    pub received_us: i64,
    /// How long after `received_us` an event may be stamped, in microseconds.
    pub max_future_us: i64,
    /// The zone of stamps without one; UTC when absent.
    pub tz: Option<jiff::tz::TimeZone>,
    /// The stream's columns so far: JSON fields keep their types.
    pub schema: Vec<Column>,
    /// The number of the source's first line, from 1.
    pub first_line: u64,
    /// The byte at which it begins in the (decompressed) source, from 0.
    pub first_byte: u64,
    /// The most columns of documents.
    pub columns_max: usize,
    /// What is stored of each event.
    pub selection: Selection,
    /// True when JSON comes as values that are not one to a line; without it, how it begins
    /// decides.
    pub values: Option<bool>,
    /// The most bytes that what is made of one call may take, in memory and in a journal.
    pub bytes_max: usize,
    /// Bytes that the caller adds to each quarantined line: the names of its stream and source.
    pub item_bytes: usize,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            format: Format::Auto,
            strict: false,
            ordered: false,
            site: None,
            received_us: 0,
            max_future_us: MAX_FUTURE_US,
            tz: None,
            schema: Vec::new(),
            first_line: 1,
            first_byte: 0,
            columns_max: storage::COLUMNS_MAX,
            selection: Selection::default(),
            values: None,
            bytes_max: usize::MAX,
            item_bytes: 0,
        }
    }
}

/// What became of a block.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// What the events are.
    pub kind: StreamKind,
    /// The format that was used: what `Auto` decided, or `Auto` when nothing fits.
    pub format: Format,
    /// Typed columns; `time` is there without nulls.
    pub events: RecordBatch,
    /// The lines that could not be taken, in order.
    pub quarantine: Vec<Quarantined>,
    /// Lines read: events, quarantined and empty ones.
    pub lines: u64,
    /// Empty lines.
    pub empty: u64,
    /// With `ordered`: the index of the first bad item. Nothing after it was read.
    pub stopped_at: Option<u64>,
}

impl Parsed {
    /// There are lines that are not empty, and no format fits any.
    pub fn has_no_format(&self) -> bool {
        let unknown = |item: &Quarantined| item.reason == NO_FORMAT;
        self.events.num_rows() == 0
            && !self.quarantine.is_empty()
            && self.quarantine.iter().all(unknown)
    }

    /// The quarantined lines by their reason.
    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        let mut reasons = BTreeMap::new();
        for item in &self.quarantine {
            *reasons.entry(item.reason).or_default() += 1;
        }
        reasons
    }
}

/// Memory that a call has taken so far.
#[derive(Debug, Default)]
struct Taking {
    rows: u32,
    empty: u64,
    count: u64,
    quarantine: Vec<Quarantined>,
    /// Estimated bytes of all rows.
    bytes: usize,
    /// Bytes of an event beside its text.
    event_bytes: usize,
}

impl Taking {
    fn new(options: &ParseOptions) -> Self {
        Self {
            event_bytes: EVENT_BYTES + options.site.as_ref().map_or(0, String::len),
            ..Self::default()
        }
    }
}

/// Why a line is not an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bad {
    /// The short code of the quarantine.
    pub(crate) reason: &'static str,
    /// The byte of the line at which reading stopped, from 0.
    pub(crate) at: usize,
    /// What belongs there.
    pub(crate) expected: Cow<'static, str>,
    /// `expected` is the whole message; what stands in the line adds nothing.
    pub(crate) whole: bool,
}

impl Bad {
    #[cold]
    pub(crate) fn expected(reason: &'static str, at: usize, what: &'static str) -> Self {
        Self {
            reason,
            at,
            expected: Cow::Borrowed(what),
            whole: false,
        }
    }

    #[cold]
    pub(crate) fn because(
        reason: &'static str,
        at: usize,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            reason,
            at,
            expected: message.into(),
            whole: true,
        }
    }

    /// An event stamped after `latest_us`.
    #[cold]
    pub(crate) fn future(at: usize, time_us: i64, options: &ParseOptions) -> Self {
        let (stamp, received) = (stamp::write(time_us), stamp::write(options.received_us));
        let allowed = options.max_future_us / 1_000_000;
        Self::because(
            "future",
            at,
            format!("stamped {stamp}, more than {allowed} s after its receipt at {received}"),
        )
    }

    /// An event stamped where functions of time do not reach, such as the year 1 of an unset time.
    #[cold]
    pub(crate) fn time_range(at: usize, time_us: i64) -> Self {
        Self::because(
            "time_range",
            at,
            format!(
                "stamped {}, outside the years 1678 to 2261 that functions of time can hold",
                stamp::write(time_us)
            ),
        )
    }

    /// The message, with the column from 1 and an excerpt of what stands there.
    fn detail(&self, line: &[u8]) -> String {
        const EXCERPT_BYTES: usize = 32;
        let column = self.at + 1;
        if self.whole {
            return format!("column {column}: {}", self.expected);
        }
        let rest = line.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return format!(
                "column {column}: expected {}, found the end of the line",
                self.expected
            );
        }
        let (excerpt, more) = if rest.len() > EXCERPT_BYTES {
            (&rest[..EXCERPT_BYTES], "…")
        } else {
            (rest, "")
        };
        format!(
            "column {column}: expected {}, found {}{more}",
            self.expected,
            excerpt.escape_ascii()
        )
    }
}

/// What takes the lines.
#[derive(Debug)]
enum Engine {
    /// `auto` has not decided yet: so many lines were looked at in vain.
    Undecided {
        looked_at: u64,
    },
    /// No format fits.
    Hopeless,
    Access {
        columns: Box<Columns>,
        stamps: AccessStamps,
        accept: Accept,
    },
    Documents(Box<Documents>),
}

/// Reads the lines of one source.
#[derive(Debug)]
pub struct Parser {
    options: ParseOptions,
    /// The latest stamp that is not in the future.
    latest_us: i64,
    format: Format,
    engine: Engine,
    line: u64,
    byte: u64,
    index: u64,
    stopped_at: Option<u64>,
    /// The lines of the batch as they came, when they are wanted.
    raw_lines: TextColumn,
    /// Where reading stopped in the first bad line, byte from 0: what `explain` points at.
    first_bad_at: Option<usize>,
}

impl Parser {
    /// A parser at the beginning of its source.
    pub fn new(options: ParseOptions) -> Self {
        let format = options.format;
        let engine = match format {
            Format::Auto => Engine::Undecided { looked_at: 0 },
            other => engine(other, false, &options),
        };
        Self {
            latest_us: options.received_us.saturating_add(options.max_future_us),
            line: options.first_line,
            byte: options.first_byte,
            index: 0,
            format,
            engine,
            stopped_at: None,
            raw_lines: TextColumn::new(),
            first_bad_at: None,
            options,
        }
    }

    /// The format in use, `None` while `auto` has none.
    pub fn format(&self) -> Option<Format> {
        (self.format != Format::Auto).then_some(self.format)
    }

    /// Says where the next block begins: its line (from 1) and byte (from 0). Blocks that follow one
    /// another need no word about it.
    pub fn set_position(&mut self, line: u64, byte: u64) {
        self.line = line;
        self.byte = byte;
    }

    /// Says when the next bytes came, in microseconds since 1970.
    pub fn set_received(&mut self, received_us: i64) {
        self.options.received_us = received_us;
        self.latest_us = received_us.saturating_add(self.options.max_future_us);
    }

    /// The column, from 1, at which the first bad line could not be read further.
    pub(crate) fn first_bad_column(&self) -> Option<usize> {
        self.first_bad_at.map(|at| at + 1)
    }

    /// Reads the lines of a block that [`crate::LineBlocks`] cut, at its place in the source.
    ///
    /// # Errors
    /// As [`Parser::parse`].
    pub fn parse_block(&mut self, block: &Block) -> Result<Parsed> {
        self.set_position(block.first_line, block.first_byte);
        if block.too_long {
            self.reject_long(&block.bytes, block.end_byte - block.first_byte)
        } else if block.values {
            self.parse_values(&block.bytes)
        } else {
            self.parse_lines(&block.bytes)
        }
    }

    /// Reads the lines of `block`: whole lines, of which the last may lack its LF. At the beginning
    /// of a source that may be JSON it looks whether they are values that are not one to a line.
    ///
    /// # Errors
    /// [`Error::BlockTooLarge`] above [`BLOCK_BYTES_MAX`], [`Error::TooMuch`]; lines never fail,
    /// they are quarantined.
    pub fn parse(&mut self, block: &[u8]) -> Result<Parsed> {
        let may_be_values = matches!(self.options.format, Format::Auto | Format::Json);
        let values = match self.options.values {
            Some(values) => values,
            None => self.index == 0 && holds_values(block),
        };
        match may_be_values && values {
            true => self.parse_values(block),
            false => self.parse_lines(block),
        }
    }

    /// Reads the JSON values of `block`, wherever its lines end. An item counts as a line.
    fn parse_values(&mut self, block: &[u8]) -> Result<Parsed> {
        check_size(block)?;
        if self.format == Format::Auto {
            self.format = Format::Json;
            self.engine = engine(Format::Json, true, &self.options);
        }
        let mut taking = Taking::new(&self.options);
        let (first_line, first_byte) = (self.line, self.byte);
        let (mut line_ends, mut counted_to) = (0, 0);
        if self.stopped_at.is_none() {
            let items = Values::new(block).count();
            if let Engine::Documents(documents) = &mut self.engine {
                documents.expect_lines(items);
            }
            for (begin, item) in Values::new(block) {
                line_ends += memchr::memchr_iter(b'\n', &block[counted_to..begin]).count() as u64;
                counted_to = begin;
                let source = std::str::from_utf8(item).map_or(Text::Bytes(item), Text::Valid);
                let place = (first_line + line_ends, first_byte + begin as u64);
                if !self.take_item(&mut taking, source, item, place)? {
                    break;
                }
            }
        }
        let lines = memchr::memchr_iter(b'\n', block).count() as u64;
        self.finish(taking, lines, block.len() as u64)
    }

    /// Takes an item as an event or into quarantine; whether to go on behind it.
    fn take_item(
        &mut self,
        taking: &mut Taking,
        source: Text<'_>,
        raw: &[u8],
        (line, byte): (u64, u64),
    ) -> Result<bool> {
        taking.count += 1;
        match self.engine.take(source, &self.options, self.latest_us) {
            Ok(()) => {
                taking.rows += 1;
                taking.bytes += taking.event_bytes + raw.len();
                self.keep_line(source);
            }
            Err(bad) => {
                self.first_bad_at.get_or_insert(bad.at);
                let index = self.index + taking.count - 1;
                let item = Quarantined {
                    rank: taking.rows + taking.quarantine.len() as u32,
                    index,
                    reason: bad.reason,
                    detail: bad.detail(source.bytes()),
                    line,
                    byte,
                    raw: raw.to_vec(),
                };
                taking.bytes += self.bytes_of(&item);
                taking.quarantine.push(item);
                if self.options.ordered {
                    self.stopped_at = Some(index);
                    return Ok(false);
                }
            }
        }
        if taking.bytes > self.options.bytes_max {
            return Err(self.too_much(taking.count));
        }
        Ok(true)
    }

    fn parse_lines(&mut self, block: &[u8]) -> Result<Parsed> {
        check_size(block)?;
        let mut taking = Taking::new(&self.options);
        let (first_line, first_byte) = (self.line, self.byte);
        let mut lines = Lines::new(block);
        if self.stopped_at.is_none() {
            self.decide(block);
            if let Engine::Documents(documents) = &mut self.engine {
                documents.expect_lines(1 + memchr::memchr_iter(b'\n', block).count());
            }
            // One check for the whole block; only where it fails each line is checked for itself.
            let text = simdutf8::basic::from_utf8(block).ok();
            for (begin, line) in lines.by_ref() {
                if line.is_empty() {
                    taking.count += 1;
                    taking.empty += 1;
                    continue;
                }
                let mark = self.mark_of(first_byte + begin as u64, line);
                let source = match text {
                    Some(text) => Text::Valid(&text[begin + mark..begin + line.len()]),
                    None => {
                        let line = &line[mark..];
                        std::str::from_utf8(line).map_or(Text::Bytes(line), Text::Valid)
                    }
                };
                let place = (first_line + taking.count, first_byte + begin as u64);
                if !self.take_item(&mut taking, source, line, place)? {
                    break;
                }
            }
        }
        let (taken, count) = match taking.count {
            0 => (0, 0),
            count => (lines.position() as u64, count),
        };
        self.finish(taking, count, taken)
    }

    /// The bytes of the mark of UTF-8 at the beginning of a source, which is no part of its first
    /// line. A plain line stays as it is.
    fn mark_of(&self, byte: u64, line: &[u8]) -> usize {
        match byte == 0 && self.options.format != Format::Plain {
            true => line.len() - without_bom(line).len(),
            false => 0,
        }
    }

    /// Bytes of a quarantined line on its way, all its forms together.
    fn bytes_of(&self, item: &Quarantined) -> usize {
        let text = item.raw.len() + item.detail.len() + item.reason.len();
        ITEM_BYTES + 3 * (ITEM_COLUMNS_BYTES + self.options.item_bytes + text)
    }

    /// Gives up what was read of a block.
    fn too_much(&mut self, lines: u64) -> Error {
        // Whatever it is, it is not wanted any more.
        let _ignored = self.engine.finish();
        Error::TooMuch {
            lines,
            max: self.options.bytes_max,
        }
    }

    /// Reads lines that were kept, each with the time at which it came: as if each had just come. Their
    /// `index` is their rank among them; none has a place in a source any more.
    ///
    /// # Errors
    /// Those of Arrow; there are none known.
    pub fn parse_kept<'a>(
        &mut self,
        lines: impl Iterator<Item = (&'a [u8], i64)> + Clone,
    ) -> Result<Parsed> {
        let sample = lines.clone().take(SAMPLE_LINES as usize);
        self.decide(
            &sample
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
                .join(&b'\n'),
        );
        let mut taking = Taking::new(&self.options);
        for (raw, received_us) in lines {
            self.set_received(received_us);
            let line = &raw[self.mark_of(0, raw)..];
            let source = std::str::from_utf8(line).map_or(Text::Bytes(line), Text::Valid);
            match self.engine.take(source, &self.options, self.latest_us) {
                Ok(()) => self.keep_line(source),
                Err(bad) => taking.quarantine.push(Quarantined {
                    rank: taking.count as u32,
                    index: taking.count,
                    reason: bad.reason,
                    detail: bad.detail(line),
                    line: 0,
                    byte: 0,
                    raw: raw.to_vec(),
                }),
            }
            taking.count += 1;
        }
        let lines = taking.count;
        self.finish(taking, lines, 0)
    }

    /// Keeps the line of an event where it is wanted.
    fn keep_line(&mut self, line: Text<'_>) {
        if self.options.selection.raw_line {
            self.raw_lines.value(&line.text());
        }
    }

    /// Quarantines a line of `length` bytes, its end included, of which only the beginning is there.
    ///
    /// # Errors
    /// Those of Arrow; there are none known.
    pub fn reject_long(&mut self, head: &[u8], length: u64) -> Result<Parsed> {
        let mut taking = Taking::new(&self.options);
        if self.stopped_at.is_some() {
            return self.finish(taking, 0, 0);
        }
        let bad = Bad::because(
            "line_too_long",
            head.len(),
            format!(
                "the line and its end have {length} bytes, of which the first {} are kept",
                head.len()
            ),
        );
        self.first_bad_at.get_or_insert(bad.at);
        let item = Quarantined {
            rank: 0,
            index: self.index,
            reason: bad.reason,
            detail: bad.detail(head),
            line: self.line,
            byte: self.byte,
            raw: head.to_vec(),
        };
        if self.options.ordered {
            self.stopped_at = Some(self.index);
        }
        taking.count = 1;
        taking.quarantine.push(item);
        self.finish(taking, 1, length)
    }

    /// Ends a call that has read so many lines and bytes of the source.
    fn finish(&mut self, taking: Taking, lines: u64, bytes: u64) -> Result<Parsed> {
        self.line += lines;
        self.index += taking.count;
        self.byte += bytes;
        let selection = &self.options.selection;
        let mut events = self.engine.finish()?;
        if matches!(self.engine, Engine::Access { .. }) {
            selection.check_access()?;
            events = selection.of_access(events)?;
        }
        if selection.raw_line && events.num_rows() > 0 {
            events = select::with_lines(&events, self.raw_lines.finish())?;
        }
        // Documents have as many columns as they like, and a place for each event in all of them.
        let data = events.columns().iter().map(|column| column.to_data());
        let sizes = data.map(|data| data.get_slice_memory_size().unwrap_or(usize::MAX));
        if sizes.fold(0, usize::saturating_add) > self.options.bytes_max {
            return Err(self.too_much(taking.count));
        }
        Ok(Parsed {
            kind: self.format.kind(),
            format: self.format,
            events,
            quarantine: taking.quarantine,
            lines: taking.count,
            empty: taking.empty,
            stopped_at: self.stopped_at,
        })
    }

    /// Lets `auto` look at a block while it has not decided. When [`SAMPLE_LINES`] lines fit
    /// nothing, it gives up for good.
    fn decide(&mut self, block: &[u8]) {
        let Engine::Undecided { looked_at } = self.engine else {
            return;
        };
        let detection = detect(block);
        let looked_at = looked_at + detection.lines;
        self.engine = match detection.format {
            Some(format) => {
                self.format = format;
                engine(format, true, &self.options)
            }
            None if looked_at >= SAMPLE_LINES => Engine::Hopeless,
            None => Engine::Undecided { looked_at },
        };
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

/// The engine for a format; `auto` says that it was decided upon, not asked for.
fn engine(format: Format, auto: bool, options: &ParseOptions) -> Engine {
    let accept = match format {
        Format::Auto => return Engine::Undecided { looked_at: 0 },
        Format::Json => return Engine::Documents(Box::new(Documents::json(options))),
        Format::Plain => return Engine::Documents(Box::new(Documents::plain(options))),
        Format::Common => Accept::COMMON,
        Format::Combined => Accept::COMBINED,
        Format::VhostCombined => Accept::VHOST,
    };
    let accept = if auto {
        accept.lenient(options.strict)
    } else {
        accept
    };
    Engine::Access {
        columns: Box::new(Columns::new()),
        stamps: AccessStamps::new(),
        accept,
    }
}

impl Engine {
    /// Takes a line that is not empty, or says why not.
    #[inline]
    fn take(&mut self, line: Text<'_>, options: &ParseOptions, latest_us: i64) -> Result<(), Bad> {
        match self {
            Self::Access {
                columns,
                stamps,
                accept,
            } => {
                let record = access::read(line.bytes(), *accept, stamps)?;
                if record.time_us > latest_us {
                    return Err(Bad::future(record.time_at, record.time_us, options));
                }
                if !stamp::is_held(record.time_us) {
                    return Err(Bad::time_range(record.time_at, record.time_us));
                }
                columns.append(line, &record, options.site.as_deref());
                Ok(())
            }
            Self::Documents(documents) => match line {
                Text::Valid(text) => documents.take(text, options, latest_us),
                Text::Bytes(bytes) => {
                    documents.take(&String::from_utf8_lossy(bytes), options, latest_us)
                }
            },
            Self::Undecided { .. } | Self::Hopeless => Err(Bad::because(
                NO_FORMAT,
                0,
                "the source has no known format; --format plain takes every line as it is",
            )),
        }
    }

    /// The events taken since the last time.
    fn finish(&mut self) -> Result<RecordBatch> {
        match self {
            Self::Access { columns, .. } => columns.finish(),
            Self::Documents(documents) => documents.finish(),
            Self::Undecided { .. } | Self::Hopeless => Ok(RecordBatch::new_empty(
                storage::arrow_schema(&storage::access_fields()),
            )),
        }
    }
}

#[cfg(test)]
mod tests;
