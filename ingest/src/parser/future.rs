//! Lines whose time has not come: a reader takes them among its events, and the quarantined items
//! get their rows.
//!
//! A line that is sent again may be an event then. Where events have places by their values, the
//! quarantined line must have had the place of the event.
//!
//! Until the rows are divided they count as others do: in a block whose documents have more fields
//! than columns, a field of such a line may take the place of one that comes after it.

use std::mem;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use storage::{Config, StreamKind, TIME};

use super::Parser;
use super::tally::BlockTally;
use crate::error::Result;
use crate::reader::Taken;
use crate::text::LineText;

impl Parser {
    /// Reads a line as if its time had come; its item is quarantined next.
    #[cold]
    pub(super) fn read_future(&mut self, tally: &mut BlockTally, text: LineText<'_>, raw: &[u8]) {
        let max = mem::replace(&mut self.options.max_future_us, i64::MAX);
        let taken = self.reader.take(text, &self.options);
        self.options.max_future_us = max;
        // Any other fault is one whenever the line comes.
        if let Ok(Taken::Event) = taken {
            tally.add_future(raw.len());
            if self.options.selection.raw_line {
                self.raw_lines.value(&text.text());
            }
        }
    }
}

/// Takes the rows of the future out of those of a block, and gives them to their items.
pub(super) fn divided(
    rows: &RecordBatch,
    kind: StreamKind,
    tally: &mut BlockTally,
) -> Result<RecordBatch> {
    let mut is_event = vec![true; rows.num_rows()];
    for (row, item) in &tally.future {
        let row = *row as usize;
        is_event[row] = false;
        tally.quarantine[*item].event = Some(rows.slice(row, 1));
    }
    let events = filter_record_batch(rows, &BooleanArray::from(is_event))?;
    // Other columns than those that streams begin with are there for their values.
    let first = Config::first_columns(kind);
    let is_kept = |at: &usize| {
        let name = rows.schema_ref().field(*at).name();
        name == TIME
            || first.iter().any(|column| *column.name == **name)
            || events.column(*at).null_count() < events.num_rows()
    };
    let kept: Vec<usize> = (0..rows.num_columns()).filter(is_kept).collect();
    Ok(events.project(&kept)?)
}
