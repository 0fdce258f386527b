//! One item: an event, a header, or a quarantined line.

use super::Parser;
use super::tally::BlockTally;
use crate::bad::Bad;
use crate::error::Result;
use crate::reader::Taken;
use crate::text::LineText;

impl Parser {
    /// Takes an item as an event or into quarantine. Returns whether to go on behind it.
    #[inline]
    pub(super) fn take(
        &mut self,
        tally: &mut BlockTally,
        text: LineText<'_>,
        raw: &[u8],
        place: (u64, u64),
    ) -> Result<bool> {
        let taken = self.reader.take(text, &self.options);
        self.put(tally, taken, (text, raw), place)
    }

    /// Counts an item that was taken, or puts it into quarantine. Returns whether to go on.
    #[inline]
    pub(super) fn put(
        &mut self,
        tally: &mut BlockTally,
        taken: Result<Taken, Bad>,
        (text, raw): (LineText<'_>, &[u8]),
        place: (u64, u64),
    ) -> Result<bool> {
        match taken {
            Ok(Taken::Header) => tally.add_empty(),
            Ok(Taken::Event) => {
                tally.add_event(raw.len());
                if self.options.selection.raw_line {
                    self.raw_lines.value(&text.text());
                }
            }
            Err(bad) => {
                if self.reads_future && bad.is_future() {
                    self.read_future(tally, text, raw);
                }
                self.quarantine(tally, &bad, text.bytes(), raw, place);
                if self.stopped_at.is_some() {
                    return Ok(false);
                }
            }
        }
        if tally.bytes > self.bytes_max {
            return Err(self.too_much(tally.count));
        }
        Ok(true)
    }

    /// Puts an item into quarantine; `text` is its part that was read.
    #[cold]
    pub(super) fn quarantine(
        &mut self,
        tally: &mut BlockTally,
        bad: &Bad,
        text: &[u8],
        raw: &[u8],
        place: (u64, u64),
    ) {
        let index = self.index + tally.count;
        self.first_bad_at.get_or_insert(bad.at);
        if self.ordered {
            self.stopped_at = Some(index);
        }
        tally.add_bad(bad, text, raw, index, place);
    }
}
