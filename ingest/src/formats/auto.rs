//! No format: `auto` before it has decided, or when nothing fits.

use arrow::array::RecordBatch;
use storage::StreamKind;

use crate::bad::Bad;
use crate::error::Result;
use crate::reader::{FormatEntry, LineReader, ReaderOptions, Taken};
use crate::text::LineText;

/// The reason of lines of a source that has no known format.
pub(crate) const NO_FORMAT: &str = "no_format";

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "auto",
    kind: StreamKind::Access,
    recognise: None,
    is_closed: |_, _| false,
    reader: |_, _| Box::new(UnknownLines),
    holds_values: true,
    keeps_mark: false,
};

/// Reader that takes no line.
#[derive(Debug)]
struct UnknownLines;

impl LineReader for UnknownLines {
    fn take(&mut self, _: LineText<'_>, _: &ReaderOptions) -> Result<Taken, Bad> {
        Err(Bad::because(
            NO_FORMAT,
            0,
            "the source has no known format; --format plain takes every line as it is",
        ))
    }

    fn finish(&mut self, _: &ReaderOptions) -> Result<RecordBatch> {
        Ok(RecordBatch::new_empty(storage::arrow_schema(
            &storage::access_fields(),
        )))
    }
}
