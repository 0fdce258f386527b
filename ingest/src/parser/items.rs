//! Records that come one by one: none of them is a header for the others.

use std::sync::Arc;

use super::Parser;
use super::tally::BlockTally;
use crate::bad::Bad;
use crate::detect::SAMPLE_LINES;
use crate::error::Result;
use crate::formats::no_header;
use crate::parsed::Parsed;
use crate::reader::Taken;
use crate::source::SourceItem;
use crate::text::LineText;

impl Parser {
    /// Reads discrete records, each with its own place and time of receipt; `rank` and `index`
    /// count them. A record that is empty, or that holds line ends, is an item like any other; one
    /// that is a header is no event and quarantined, and so is one of more than
    /// [`ParseOptions::record_bytes_max`](crate::ParseOptions::record_bytes_max) bytes.
    ///
    /// # Errors
    /// [`Error::TooMuch`](crate::Error::TooMuch).
    pub fn parse_items<'a>(
        &mut self,
        items: impl Iterator<Item = SourceItem<'a>> + Clone,
    ) -> Result<Parsed> {
        if self.undecided.is_some() {
            let sample = items.clone().take(SAMPLE_LINES as usize);
            let sample: Vec<&[u8]> = sample.map(|item| item.bytes).collect();
            self.decide(&sample.join(&b'\n'), None, |format| !format.awaits_header());
        }
        let mut tally = self.tally();
        if self.stopped_at.is_none() {
            self.reader.expect_lines(&|| items.clone().count());
            let awaits_header = self.format.awaits_header();
            for item in items {
                self.set_received(item.received_us);
                self.set_sender(item.sender);
                let place = (item.line, item.byte);
                let bytes = item.bytes;
                let joined = self.joined(&bytes[self.mark_of(bytes)..]);
                let text = LineText::of(&joined);
                let is_next = match bytes.get(..self.record_bytes_max) {
                    Some(head) if head.len() < bytes.len() => {
                        self.reject_record(&mut tally, head, place)
                    }
                    _ => {
                        let taken = match awaits_header {
                            true => Err(no_header()),
                            false => self.take_item(text),
                        };
                        self.put(&mut tally, taken, (text, bytes), place)?
                    }
                };
                if !is_next {
                    break;
                }
            }
        }
        self.finish(tally, 0, 0)
    }

    /// Quarantines a record that is longer than its beginning, which is kept. Returns whether to go
    /// on behind it.
    fn reject_record(&mut self, tally: &mut BlockTally, head: &[u8], place: (u64, u64)) -> bool {
        let max = head.len();
        let why = format!("the record has more than {max} bytes, of which the first are kept");
        let bad = Bad::because("line_too_long", max, why);
        self.quarantine(tally, &bad, head, head, place);
        self.stopped_at.is_none()
    }

    fn set_sender(&mut self, sender: Option<&Arc<str>>) {
        if self.options.sender.as_ref() != sender {
            self.options.sender = sender.cloned();
        }
    }

    fn take_item(&mut self, text: LineText<'_>) -> Result<Taken, Bad> {
        // Before it is read: it must not be one for the next record.
        match self.reader.is_header(text.bytes()) {
            true => Err(Bad::because("no_event", 0, "a header is no event")),
            false => self.reader.take(text, &self.options),
        }
    }
}
