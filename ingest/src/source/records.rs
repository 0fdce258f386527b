//! Records of a protocol that delivers many at once, in one buffer.

use std::sync::Arc;

use super::SourceItem;

/// Discrete records, each an item whatever bytes it holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    bytes: Vec<u8>,
    /// The end of each record; the next one begins there.
    ends: Vec<usize>,
    /// Senders, each with the number of the first record that is its own.
    senders: Vec<(usize, Option<Arc<str>>)>,
}

impl Records {
    /// Appends the record that `write` appends to the buffer.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.set_sender(None);
        self.push_next(write);
    }

    fn push_next(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Appends a record.
    pub fn push(&mut self, record: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(record));
    }

    /// Appends a record that came from `sender`, its address as a name of a host.
    pub fn push_from(&mut self, sender: &Arc<str>, record: &[u8]) {
        self.set_sender(Some(sender));
        self.push_next(|bytes| bytes.extend_from_slice(record));
    }

    /// Sets the sender of the next record.
    fn set_sender(&mut self, sender: Option<&Arc<str>>) {
        let last = self.senders.last().and_then(|(_, last)| last.as_ref());
        if last != sender {
            self.senders.push((self.len(), sender.cloned()));
        }
    }

    /// Appends all records of another list, with their senders.
    pub fn append(&mut self, other: &Self) {
        let (bytes, records) = (self.bytes(), self.len());
        if other.senders.first().is_none_or(|(first, _)| *first > 0) && !other.is_empty() {
            self.set_sender(None);
        }
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| bytes + end));
        let senders = other.senders.iter();
        let moved = senders.map(|(first, sender)| (records + first, sender.clone()));
        self.senders.extend(moved);
    }

    /// Returns the bytes of all records, one behind the other.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
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
        let places = begins.zip(&self.ends).enumerate();
        let mut senders = self.senders.iter().peekable();
        let mut sender = None;
        places.map(move |(record, (begin, &end))| {
            while let Some((_, next)) = senders.next_if(|(first, _)| *first <= record) {
                sender = next.as_ref();
            }
            SourceItem {
                bytes: &self.bytes[begin..end],
                received_us,
                line: record as u64 + 1,
                byte: begin as u64,
                sender,
            }
        })
    }
}

#[cfg(test)]
mod tests;
