//! The chain of ranges that a partition's batches are: each begins where the one before it ended.
//!
//! Offsets are not dense. Kafka delivers those of a partition in rising order, and leaves out
//! records that were compacted or aborted, and the markers of transactions. So a range is not that
//! of the first and the last record of its batch: it begins at the end of the range before it.

/// The ranges of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    /// Start of the next range; `None` before the first record of a partition that the store has
    /// no position of.
    from: Option<u64>,
    /// Offset behind the last record.
    to: u64,
    /// The last record that the store has: its offset and fingerprint, until it was compared.
    known: Option<(u64, u64)>,
}

/// The relation of a record to the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    /// The store has it, or a batch that is under way.
    Repeated,
    /// It is the last record that the store has, which was read again to compare it.
    Known,
    /// At the offset of the last record that the store has is another one.
    Foreign,
}

impl Chain {
    /// Begins at the first record that comes.
    pub(super) fn unknown() -> Self {
        Self {
            from: None,
            to: 0,
            known: None,
        }
    }

    /// Goes on at a position. `known` is the fingerprint of the record before it, if that is read
    /// once more.
    pub(super) fn at(position: u64, known: Option<u64>) -> Self {
        Self {
            from: Some(position),
            to: position,
            known: known
                .zip(position.checked_sub(1))
                .map(|(hash, at)| (at, hash)),
        }
    }

    /// Decides about a record that comes; a new one becomes part of the next range.
    pub(super) fn arrives(&mut self, offset: u64, fingerprint: impl FnOnce() -> u64) -> Arrival {
        // Where the known record was compacted meanwhile, nothing is left to compare.
        if let Some((at, known)) = self.known.take_if(|(at, _)| *at <= offset)
            && at == offset
        {
            return match fingerprint() == known {
                true => Arrival::Known,
                false => Arrival::Foreign,
            };
        }
        if self.from.is_some() && offset < self.to {
            return Arrival::Repeated;
        }
        self.from.get_or_insert(offset);
        self.to = offset + 1;
        Arrival::New
    }

    /// Returns the offset behind the last record.
    pub(super) fn end(&self) -> u64 {
        self.to
    }

    /// Returns the start of the next range.
    pub(super) fn start(&self) -> u64 {
        self.from.expect("BUG: a record comes before its batch")
    }

    /// Ends a range behind the record at an offset, and begins the next one there.
    pub(super) fn cut(&mut self, last: u64) {
        self.from = Some(last + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> u64 {
        panic!("nothing is to be compared")
    }

    #[test]
    fn ranges_join_whatever_offsets_are_left_out() {
        let mut chain = Chain::unknown();
        assert_eq!(chain.arrives(5, never), Arrival::New);
        assert_eq!(chain.arrives(9, never), Arrival::New);
        assert_eq!(chain.start(), 5);
        chain.cut(5);
        assert_eq!(chain.start(), 6);
        chain.cut(9);
        assert_eq!(chain.arrives(9, never), Arrival::Repeated);
        assert_eq!(chain.arrives(30, never), Arrival::New);
        assert_eq!(chain.start(), 10);
        chain.cut(30);

        // Behind a position, the first record may be anywhere.
        let mut chain = Chain::at(100, None);
        assert_eq!(chain.arrives(99, never), Arrival::Repeated);
        assert_eq!(chain.arrives(140, never), Arrival::New);
        assert_eq!(chain.start(), 100);
        chain.cut(140);
    }

    #[test]
    fn the_last_record_of_the_store_is_compared_when_it_comes_again() {
        let mut chain = Chain::at(100, Some(7));
        assert_eq!(chain.arrives(99, || 7), Arrival::Known);
        assert_eq!(chain.arrives(100, never), Arrival::New);
        assert_eq!(Chain::at(100, Some(7)).arrives(99, || 8), Arrival::Foreign);
        // An earlier one leaves it to be compared.
        let mut chain = Chain::at(100, Some(7));
        assert_eq!(chain.arrives(3, never), Arrival::Repeated);
        assert_eq!(chain.arrives(99, || 8), Arrival::Foreign);
        // It was compacted.
        assert_eq!(Chain::at(100, Some(7)).arrives(101, never), Arrival::New);
        // Offset 0 has none before it.
        assert_eq!(Chain::at(0, Some(7)), Chain::at(0, None));
    }
}
