//! The reader of access logs.

use arrow::array::RecordBatch;

use super::columns::AccessColumns;
use super::line::{Accept, read};
use super::stored;
use crate::bad::Bad;
use crate::error::Result;
use crate::reader::{Choice, LineReader, ReaderOptions, Taken};
use crate::stamp::AccessStamps;
use crate::text::LineText;

/// Reads lines of the accepted shapes.
#[derive(Debug)]
pub(super) struct AccessReader {
    columns: AccessColumns,
    stamps: AccessStamps,
    accept: Accept,
}

impl AccessReader {
    /// Makes a reader of lines in one format; the choice of `auto` takes related ones too.
    pub(super) fn new(accept: Accept, options: &ReaderOptions, choice: Choice) -> Self {
        Self {
            columns: AccessColumns::new(),
            stamps: AccessStamps::new(),
            accept: match choice {
                Choice::Named => accept,
                Choice::Auto => accept.lenient(options.strict),
            },
        }
    }
}

impl LineReader for AccessReader {
    #[inline]
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad> {
        let fields = read(line.bytes(), self.accept, &mut self.stamps)?;
        options.check_time(fields.time_at, fields.time_us)?;
        self.columns.append(line, &fields, options.site.as_deref());
        Ok(Taken::Event)
    }

    fn finish(&mut self, options: &ReaderOptions) -> Result<RecordBatch> {
        let events = self.columns.finish()?;
        super::check(&options.selection, &options.anonymiser)?;
        let events = options.anonymiser.apply_to_columns(events)?;
        stored::select(&options.selection, events)
    }
}
