//! The options of a parser.

use jiff::tz::TimeZone;
use storage::Column;

use crate::anonymise::Anonymiser;
use crate::formats::Format;
use crate::select::Selection;
use crate::source::Multiline;

/// The most that an event may be stamped after its receipt, in microseconds: ten minutes.
pub const MAX_FUTURE_US: i64 = 600_000_000;

/// Options by which the lines of a source are read.
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
    /// Time of receipt, microseconds since 1970. The default, 0, makes every later stamp one of the
    /// future: set it.
    pub received_us: i64,
    /// The most that an event may be stamped after `received_us`, in microseconds.
    pub max_future_us: i64,
    /// Lines that are quarantined as `future` are read, too: each has its event with it.
    pub reads_future: bool,
    /// The zone of stamps without one; UTC when absent.
    pub tz: Option<TimeZone>,
    /// The year of stamps without one; when absent, that of the last such day before the receipt.
    pub year: Option<i16>,
    /// The stream's columns so far: JSON fields keep their types.
    pub schema: Vec<Column>,
    /// The number of the source's first line, from 1.
    pub first_line: u64,
    /// The byte at which it begins in the (decompressed) source, from 0.
    pub first_byte: u64,
    /// The most columns of documents.
    pub columns_max: usize,
    /// The fields of each event that are stored.
    pub selection: Selection,
    /// The fields of each event that are anonymised.
    pub anonymiser: Anonymiser,
    /// True when JSON comes as values that are not one to a line; without it, the beginning of the
    /// source decides.
    pub values: Option<bool>,
    /// The rule by which lines are records; without it, each line is one.
    pub multiline: Option<Multiline>,
    /// The most bytes that the result of one call may take, in memory and in a journal.
    pub bytes_max: usize,
    /// Bytes that the caller adds to each quarantined line: the names of its stream and source.
    pub item_bytes: usize,
    /// The most bytes of a discrete record. A listener hands over one byte more of a longer one,
    /// and the record is quarantined.
    pub record_bytes_max: usize,
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
            reads_future: false,
            tz: None,
            year: None,
            schema: Vec::new(),
            first_line: 1,
            first_byte: 0,
            columns_max: storage::COLUMNS_MAX,
            selection: Selection::default(),
            anonymiser: Anonymiser::default(),
            values: None,
            multiline: None,
            bytes_max: usize::MAX,
            item_bytes: 0,
            record_bytes_max: usize::MAX,
        }
    }
}
