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

use arrow::array::RecordBatch;
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

/// How long after its receipt an event may be stamped, in microseconds: ten minutes.
pub const MAX_FUTURE_US: i64 = 600_000_000;
/// The largest block that is taken at once. Text columns address 2^31 bytes, and what a block says
/// can take a multiple of its size: an array of one-digit numbers nine times as much in `_rest`.
pub const BLOCK_BYTES_MAX: usize = 128 << 20;

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
    pub tz: Option<chrono_tz::Tz>,
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
        } else {
            self.parse(&block.bytes)
        }
    }

    /// Reads the lines of `block`: whole lines, of which the last may lack its LF.
    ///
    /// # Errors
    /// [`Error::BlockTooLarge`] above [`BLOCK_BYTES_MAX`]; lines never fail, they are quarantined.
    pub fn parse(&mut self, block: &[u8]) -> Result<Parsed> {
        if block.len() > BLOCK_BYTES_MAX {
            return Err(Error::BlockTooLarge {
                bytes: block.len(),
                max: BLOCK_BYTES_MAX,
            });
        }
        let mut quarantine = Vec::new();
        let (mut rows, mut empty, mut count) = (0_u32, 0_u64, 0_u64);
        let mut lines = Lines::new(block);
        if self.stopped_at.is_none() {
            self.decide(block);
            if let Engine::Documents(documents) = &mut self.engine {
                documents.expect_lines(1 + memchr::memchr_iter(b'\n', block).count());
            }
            // One check for the whole block; only where it fails each line is checked for itself.
            let text = simdutf8::basic::from_utf8(block).ok();
            for (begin, line) in lines.by_ref() {
                count += 1;
                if line.is_empty() {
                    empty += 1;
                    continue;
                }
                let source = match text {
                    Some(text) => Text::Valid(&text[begin..begin + line.len()]),
                    None => std::str::from_utf8(line).map_or(Text::Bytes(line), Text::Valid),
                };
                match self.engine.take(source, &self.options, self.latest_us) {
                    Ok(()) => {
                        rows += 1;
                        self.keep_line(source);
                    }
                    Err(bad) => {
                        self.first_bad_at.get_or_insert(bad.at);
                        quarantine.push(Quarantined {
                            rank: rows + quarantine.len() as u32,
                            index: self.index + count - 1,
                            reason: bad.reason,
                            detail: bad.detail(line),
                            line: self.line + count - 1,
                            byte: self.byte + begin as u64,
                            raw: line.to_vec(),
                        });
                        if self.options.ordered {
                            self.stopped_at = Some(self.index + count - 1);
                            break;
                        }
                    }
                }
            }
        }
        let taken = if count == 0 {
            0
        } else {
            lines.position() as u64
        };
        self.finish(quarantine, count, empty, taken)
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
        let (mut quarantine, mut count) = (Vec::new(), 0_u32);
        for (line, received_us) in lines {
            self.set_received(received_us);
            let source = std::str::from_utf8(line).map_or(Text::Bytes(line), Text::Valid);
            match self.engine.take(source, &self.options, self.latest_us) {
                Ok(()) => self.keep_line(source),
                Err(bad) => quarantine.push(Quarantined {
                    rank: count,
                    index: u64::from(count),
                    reason: bad.reason,
                    detail: bad.detail(line),
                    line: 0,
                    byte: 0,
                    raw: line.to_vec(),
                }),
            }
            count += 1;
        }
        self.finish(quarantine, u64::from(count), 0, 0)
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
        if self.stopped_at.is_some() {
            return self.finish(Vec::new(), 0, 0, 0);
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
        self.finish(vec![item], 1, 0, length)
    }

    fn finish(
        &mut self,
        quarantine: Vec<Quarantined>,
        lines: u64,
        empty: u64,
        bytes: u64,
    ) -> Result<Parsed> {
        self.line += lines;
        self.index += lines;
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
        Ok(Parsed {
            kind: self.format.kind(),
            format: self.format,
            events,
            quarantine,
            lines,
            empty,
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
                "no_format",
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
