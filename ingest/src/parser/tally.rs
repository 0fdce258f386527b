//! Counts of one call of the parser, and the estimate of its memory.

use storage::Quarantined;

use crate::anonymise::Anonymiser;
use crate::bad::Bad;

/// Bytes of an event of an access log beside its text: two numbers, a time, twelve offsets.
const EVENT_BYTES: usize = 66;
/// Bytes of a quarantined line beside its text in one of the three forms that it goes through, of
/// which two are there at once: items of their own, columns, and the journal's record.
const ITEM_COLUMNS_BYTES: usize = 52;
const ITEM_BYTES: usize = size_of::<Quarantined>() + 64;

/// Items of one call so far.
#[derive(Debug)]
pub(super) struct BlockTally {
    /// Events.
    rows: u32,
    pub(super) quarantine: Vec<Quarantined>,
    /// Rows of the reader that are no events, as their time has not come, each with the index of
    /// its item in `quarantine`.
    pub(super) future: Vec<(u32, usize)>,
    pub(super) empty: u64,
    /// All items.
    pub(super) count: u64,
    /// Estimated bytes of all rows.
    pub(super) bytes: usize,
    /// Bytes of an event, and of a quarantined line, beside its text.
    event_bytes: usize,
    item_bytes: usize,
    /// Quarantined items have no line: see [`Anonymiser::hides_lines`].
    hides_lines: bool,
}

impl BlockTally {
    /// Begins to count; each event has a site of so many bytes, each quarantined line such names.
    pub(super) fn new(site_bytes: usize, names_bytes: usize, anonymiser: &Anonymiser) -> Self {
        Self {
            rows: 0,
            quarantine: Vec::new(),
            future: Vec::new(),
            empty: 0,
            count: 0,
            bytes: 0,
            event_bytes: EVENT_BYTES + site_bytes,
            item_bytes: ITEM_BYTES + 3 * (ITEM_COLUMNS_BYTES + names_bytes),
            hides_lines: anonymiser.hides_lines(),
        }
    }

    #[inline]
    pub(super) fn add_empty(&mut self) {
        self.count += 1;
        self.empty += 1;
    }

    /// Counts an event of so many bytes of text.
    #[inline]
    pub(super) fn add_event(&mut self, text_bytes: usize) {
        self.count += 1;
        self.rows += 1;
        self.bytes += self.event_bytes + text_bytes;
    }

    /// Counts the row of an item that is quarantined next.
    pub(super) fn add_future(&mut self, text_bytes: usize) {
        let row = self.rows + self.future.len() as u32;
        self.future.push((row, self.quarantine.len()));
        self.bytes += self.event_bytes + text_bytes;
    }

    /// Counts a bad item, of which `text` is the part that was read.
    #[cold]
    pub(super) fn add_bad(
        &mut self,
        bad: &Bad,
        text: &[u8],
        raw: &[u8],
        index: u64,
        (line, byte): (u64, u64),
    ) {
        let (detail, raw) = match self.hides_lines {
            true => (bad.detail_without_line(), Vec::new()),
            false => (bad.detail(text), raw.to_vec()),
        };
        let item = Quarantined {
            rank: self.rows + self.quarantine.len() as u32,
            index,
            reason: bad.reason,
            detail,
            line,
            byte,
            raw,
            event: None,
        };
        let text_bytes = item.raw.len() + item.detail.len() + item.reason.len();
        self.count += 1;
        self.bytes += self.item_bytes + 3 * text_bytes;
        self.quarantine.push(item);
    }
}
