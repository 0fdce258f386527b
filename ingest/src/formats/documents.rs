//! Formats of documents of which a line is one, whatever the lines around it.

use arrow::array::RecordBatch;

use crate::anonymise::Anonymiser;
use crate::bad::Bad;
use crate::documents::{DocumentRow, Documents};
use crate::error::{Error, Result};
use crate::reader::{Fit, LineReader, ReaderOptions};
use crate::select::Selection;
use crate::stamp::Written;
use crate::text::LineText;

/// Reads a line into a row that is empty.
pub(super) type ReadLine =
    fn(line: LineText<'_>, row: &mut DocumentRow, written: Written<'_>) -> Result<(), Bad>;

/// The longest text of a pattern of lines, in bytes.
pub(super) const PATTERN_BYTES_MAX: usize = 4096;
/// The column of the text of a line.
pub(super) const LINE: &str = "line";

/// Checks that a column which can hold every value of a line is not stored of a stream with
/// anonymised fields.
///
/// # Errors
/// [`Error::LineNotAnonymised`].
pub(super) fn check_line(selection: &Selection, anonymiser: &Anonymiser) -> Result<()> {
    match anonymiser.is_empty() || !selection.takes(LINE) {
        true => Ok(()),
        false => Err(Error::LineNotAnonymised { name: LINE }),
    }
}

/// Takes lines as documents.
#[derive(Debug)]
pub(super) struct DocumentReader {
    read: ReadLine,
    /// The column [`LINE`] has what cannot be read as a field.
    has_remains: bool,
    row: DocumentRow,
    documents: Documents,
}

impl DocumentReader {
    pub(super) fn boxed(read: ReadLine, options: &ReaderOptions) -> Box<dyn LineReader> {
        Box::new(Self::new(read, options))
    }

    /// Makes a reader of a format in which the column [`LINE`] has what cannot be read as a field.
    pub(super) fn of_remains(read: ReadLine, options: &ReaderOptions) -> Box<dyn LineReader> {
        Box::new(Self {
            has_remains: true,
            ..Self::new(read, options)
        })
    }

    fn new(read: ReadLine, options: &ReaderOptions) -> Self {
        Self {
            read,
            has_remains: false,
            row: DocumentRow::default(),
            documents: Documents::new(options),
        }
    }
}

impl LineReader for DocumentReader {
    fn expect_lines(&mut self, count: &dyn Fn() -> usize) {
        self.documents.expect(count());
    }

    #[inline]
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<(), Bad> {
        self.row.clear();
        (self.read)(line, &mut self.row, options.written())?;
        self.documents.take(&mut self.row, options)
    }

    fn finish(&mut self, options: &ReaderOptions) -> Result<RecordBatch> {
        if self.has_remains {
            check_line(&options.selection, &options.anonymiser)?;
        }
        self.documents.finish()
    }
}

/// Recognises a line that can be read and has a stamp, for `auto`.
pub(super) fn recognise_stamped(read: ReadLine, line: &[u8]) -> Result<Fit, Bad> {
    // A stamp without a year has one, whichever that is.
    let written = Written {
        zone: None,
        year: None,
        received_us: 0,
        sender: None,
    };
    let mut row = DocumentRow::default();
    read(LineText::of(line), &mut row, written)?;
    match row.time_us {
        Some(_) => Ok(Fit::Whole),
        None => Err(Bad::expected("bad_time", 0, "a line with a time")),
    }
}

#[cfg(test)]
pub(super) mod testing;
