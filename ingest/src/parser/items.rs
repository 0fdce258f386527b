//! Records that come one by one: none of them is a header for the others.

use super::Parser;
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
    /// that is a header is no event and quarantined.
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
            self.decide(&sample.join(&b'\n'));
        }
        let mut tally = self.tally();
        if self.stopped_at.is_none() {
            self.reader.expect_lines(&|| items.clone().count());
            for item in items {
                self.set_received(item.received_us);
                let text = LineText::of(&item.bytes[self.mark_of(item.bytes)..]);
                let taken = self.take_item(text);
                if !self.put(
                    &mut tally,
                    taken,
                    (text, item.bytes),
                    (item.line, item.byte),
                )? {
                    break;
                }
            }
        }
        self.finish(tally, 0, 0)
    }

    fn take_item(&mut self, text: LineText<'_>) -> Result<Taken, Bad> {
        if self.format.awaits_header() {
            return Err(no_header());
        }
        match self.reader.take(text, &self.options)? {
            Taken::Event => Ok(Taken::Event),
            Taken::Header => Err(Bad::because("no_event", 0, "a header is no event")),
        }
    }
}
