//! Records of a protocol that delivers many at once, in one buffer.

use super::SourceItem;

/// Discrete records, each an item whatever bytes it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    bytes: Vec<u8>,
    /// The end of each record; the next one begins there.
    ends: Vec<usize>,
}

impl Records {
    /// Appends the record that `write` appends to the buffer.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Appends a record.
    pub fn push(&mut self, record: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(record));
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of all records.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the records as items that were received at one time, microseconds since 1970. The
    /// place of an item is its number, from 1.
    pub fn items(&self, received_us: i64) -> impl Iterator<Item = SourceItem<'_>> + Clone {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let places = begins.zip(&self.ends).zip(1..);
        places.map(move |((begin, &end), line)| SourceItem {
            bytes: &self.bytes[begin..end],
            received_us,
            line,
            byte: begin as u64,
        })
    }
}
