//! Plain text: every line is an event with the columns `time` and `line`.

use arrow::array::RecordBatch;
use storage::{Column, ColumnType, StreamKind};

use super::documents::{LINE, check_line};
use crate::bad::Bad;
use crate::documents::{ColumnValues, SITE, batch};
use crate::error::Result;
use crate::reader::{FormatEntry, LineReader, ReaderOptions, Taken};
use crate::text::LineText;

pub(super) static FORMAT: FormatEntry = FormatEntry {
    name: "plain",
    kind: StreamKind::Documents,
    // Every line fits, so none speaks for the format.
    recognise: None,
    is_closed: |_, _| false,
    reader: |_, _| Box::new(PlainReader::new()),
    holds_values: false,
    keeps_mark: true,
};

/// Takes every line, at the time of its receipt.
#[derive(Debug)]
struct PlainReader {
    time: Vec<i64>,
    line: ColumnValues,
    site: ColumnValues,
}

impl PlainReader {
    fn new() -> Self {
        Self {
            time: Vec::new(),
            line: ColumnValues::new(Column::new(LINE, ColumnType::Text)),
            site: ColumnValues::new(Column::new(SITE, ColumnType::Text)),
        }
    }
}

impl LineReader for PlainReader {
    #[inline]
    fn take(&mut self, line: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad> {
        let index = self.time.len();
        if options.selection.takes(LINE) {
            self.line.put_text(index, &line.text());
        }
        if let Some(site) = &options.site
            && options.selection.takes(SITE)
        {
            let rule = options.anonymiser.rule(SITE);
            let hidden = rule.map(|(_, rule)| rule.apply(site));
            self.site.put_text(index, hidden.as_deref().unwrap_or(site));
        }
        self.time.push(options.received_us);
        Ok(Taken::Event)
    }

    fn finish(&mut self, options: &ReaderOptions) -> Result<RecordBatch> {
        // A line has every value.
        check_line(&options.selection, &options.anonymiser)?;
        // A batch has its line column also when all its lines are empty.
        self.line.begin();
        let next = Vec::with_capacity(self.time.len());
        let time = std::mem::replace(&mut self.time, next);
        batch(time, [&mut self.line, &mut self.site].into_iter())
    }
}
