//! The reader of lines behind a header.

use arrow::array::RecordBatch;

use super::{Header, delimited, delimiter, no_header};
use crate::bad::Bad;
use crate::documents::{DocumentRow, Documents};
use crate::error::Result;
use crate::reader::{LineReader, ReaderOptions, Taken};
use crate::text::LineText;

/// Takes lines by the header before them.
#[derive(Debug)]
pub(super) struct HeadedReader {
    header: Header,
    cutter: delimited::Cutter,
    row: DocumentRow,
    documents: Documents,
}

impl HeadedReader {
    pub(super) fn boxed(header: Header, options: &ReaderOptions) -> Box<dyn LineReader> {
        Box::new(Self {
            cutter: delimited::Cutter::new(delimiter(header.syntax)),
            header,
            row: DocumentRow::default(),
            documents: Documents::new(options),
        })
    }
}

impl LineReader for HeadedReader {
    fn expect_lines(&mut self, count: &dyn Fn() -> usize) {
        self.documents.expect(count());
    }

    #[inline]
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad> {
        if let Some(header) = self.header.take(line.bytes()) {
            return header.map(|()| Taken::Header);
        }
        self.row.clear();
        match &self.header.fields {
            Some(fields) => {
                fields.read(line, (&mut self.row, &mut self.cutter), options.written())?
            }
            None => return Err(no_header()),
        }
        self.documents.take(&mut self.row, options)?;
        Ok(Taken::Event)
    }

    fn finish(&mut self, _: &ReaderOptions) -> Result<RecordBatch> {
        self.documents.finish()
    }

    fn format_name(&self) -> Option<&str> {
        Some(match &self.header.fields {
            Some(fields) => fields.name(),
            None => self.header.syntax.prefix().trim_end_matches(':'),
        })
    }

    fn is_header(&self, line: &[u8]) -> bool {
        self.header.clone().take(line).is_some()
    }
}
