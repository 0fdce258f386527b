//! Discrete records, which their source delivers one by one.

use std::sync::Arc;

use super::Parser;
use super::tally::BlockTally;
use crate::bad::Bad;
use crate::detect::SAMPLE_LINES;
use crate::error::Result;
use crate::parsed::Parsed;
use crate::source::SourceItem;
use crate::text::LineText;

impl Parser {
    /// Reads discrete records, each with its own place and time of receipt; `rank` and `index`
    /// count them. A record that is empty, or that holds line ends, is an item like any other. One
    /// of more than [`ParseOptions::record_bytes_max`] bytes is quarantined.
    ///
    /// # Errors
    /// [`Error::TooMuch`].
    pub fn parse_items<'a>(
        &mut self,
        items: impl Iterator<Item = SourceItem<'a>> + Clone,
    ) -> Result<Parsed> {
        if self.undecided.is_some() {
            let sample = items.clone().take(SAMPLE_LINES as usize);
            let sample: Vec<&[u8]> = sample.map(|item| item.bytes).collect();
            self.decide(&sample.join(&b'\n'));
        }
        let mut tally = self.tally();
        if self.stopped_at.is_none() {
            self.reader.expect_lines(&|| items.clone().count());
            for item in items {
                self.set_received(item.received_us);
                self.set_sender(item.sender);
                let place = (item.line, item.byte);
                let text = LineText::of(&item.bytes[self.mark_of(item.bytes)..]);
                if !self.take_record(&mut tally, text, item.bytes, place)? {
                    break;
                }
            }
        }
        self.finish(tally, 0, 0)
    }

    /// Takes a record as [`Parser::take`] does a line, if it is not too long.
    fn take_record(
        &mut self,
        tally: &mut BlockTally,
        text: LineText<'_>,
        raw: &[u8],
        place: (u64, u64),
    ) -> Result<bool> {
        let max = self.record_bytes_max;
        let Some(head) = raw.get(..max).filter(|_| raw.len() > max) else {
            return self.take(tally, text, raw, place);
        };
        let why = format!("the record has more than {max} bytes, of which the first are kept");
        let bad = Bad::because("line_too_long", max, why);
        self.quarantine(tally, &bad, head, head, place);
        Ok(self.stopped_at.is_none())
    }

    fn set_sender(&mut self, sender: Option<&Arc<str>>) {
        if self.options.sender.as_ref() != sender {
            self.options.sender = sender.cloned();
        }
    }
}
