//! JSON: one object a line, or objects that are not one to a line.

mod numbers;
mod object;

use arrow::array::RecordBatch;
use serde::de::IgnoredAny;
use storage::StreamKind;

use self::object::ObjectParser;
use crate::bad::Bad;
use crate::documents::Documents;
use crate::error::Result;
use crate::reader::{Fit, FormatEntry, LineReader, ReaderOptions, Taken};
use crate::text::LineText;

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "json",
    kind: StreamKind::Documents,
    recognise: Some(|line| match line.trim_ascii_start().starts_with(b"{") {
        true => Ok(Fit::Whole),
        false => Err(Bad::expected("not_an_object", 0, "a JSON object")),
    }),
    is_closed,
    reader: |options, _| Box::new(JsonReader::new(options)),
    holds_values: true,
    keeps_mark: false,
};

/// An object that is closed keeps its values, whatever follows.
fn is_closed(piece: &[u8], _: Option<&[u8]>) -> bool {
    let text = piece.trim_ascii();
    text.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Takes objects as documents.
#[derive(Debug)]
struct JsonReader {
    objects: ObjectParser,
    documents: Documents,
}

impl JsonReader {
    fn new(options: &ReaderOptions) -> Self {
        Self {
            objects: ObjectParser::default(),
            documents: Documents::new(options),
        }
    }
}

impl LineReader for JsonReader {
    fn expect_lines(&mut self, count: &dyn Fn() -> usize) {
        self.documents.expect(count());
    }

    #[inline]
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad> {
        let text = line.text();
        let begin = text.len() - text.trim_ascii_start().len();
        if !text[begin..].starts_with('{') && serde_json::from_str::<IgnoredAny>(&text).is_ok() {
            return Err(Bad::expected("not_an_object", begin, "a JSON object"));
        }
        let row = self.objects.read(&text)?;
        self.documents.take(row, options)?;
        Ok(Taken::Event)
    }

    fn finish(&mut self, _: &ReaderOptions) -> Result<RecordBatch> {
        self.documents.finish()
    }
}

#[cfg(test)]
mod tests;
