//! The steps of a history, and how often each is taken.

use storage::sim::Random;

/// A step on an open store. Its arguments follow from the history's seed.
#[derive(Debug, Clone, Copy)]
pub(super) enum HistoryStep {
    /// A batch of `events` events is written.
    Write {
        events: u64,
        keyed: bool,
        j: bool,
    },
    /// A batch is written with more different hosts within an hour than a distinct count keeps as
    /// coupons.
    Crowd,
    /// An earlier batch is written again, with its identity.
    Retry {
        j: bool,
    },
    Seal,
    /// Tiles and parts are compacted until nothing is left to merge.
    Compact {
        quiet: bool,
    },
    /// Levels drop the buckets that are older than their retention.
    Retain,
    /// Raw partitions are dropped.
    Drop,
    /// Raw partitions are detached.
    Detach,
    /// Detached raw partitions are attached.
    Attach,
    /// A rollup is rebuilt from raw events, as far as they are there.
    Rebuild,
    /// A snapshot is taken, or the one held is read again.
    Hold,
    /// Time passes.
    Pass,
    Close,
}

/// Returns the next step of a history.
pub(super) fn step(random: &mut Random, crowded: bool) -> HistoryStep {
    let j = random.below(3) == 0;
    match random.below(45) {
        0 | 1 if crowded => HistoryStep::Crowd,
        0..15 => HistoryStep::Write {
            events: 1 + random.below(4),
            keyed: random.below(2) == 0,
            j,
        },
        15..18 => HistoryStep::Retry { j },
        18..24 => HistoryStep::Seal,
        24..27 => HistoryStep::Compact {
            quiet: random.below(2) == 0,
        },
        27..29 => HistoryStep::Retain,
        29 | 30 => HistoryStep::Drop,
        31 => HistoryStep::Rebuild,
        32..36 => HistoryStep::Hold,
        36..39 => HistoryStep::Pass,
        39 | 40 => HistoryStep::Detach,
        41..44 => HistoryStep::Attach,
        _ => HistoryStep::Close,
    }
}
