//! Sources that deliver one record at a time.

use std::sync::Arc;

/// A record that its source delivers as one: a message of a queue, a datagram, an item of the
/// quarantine.
#[derive(Debug, Clone, Copy)]
pub struct SourceItem<'a> {
    /// The record, without an end of line.
    pub bytes: &'a [u8],
    /// Time of receipt, microseconds since 1970.
    pub received_us: i64,
    /// The line of the record in its source, from 1, or 0 where it has none.
    pub line: u64,
    /// The byte of the record in its source, from 0, or its offset in a queue.
    pub byte: u64,
    /// The address of the sender, where its protocol has one.
    pub sender: Option<&'a Arc<str>>,
}
