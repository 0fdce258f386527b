//! The steps of a history, and how often each is taken.

use storage::sim::Random;

/// A step on an open store. Its arguments follow from the history's seed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
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
pub(super) fn step(random: &mut Random, crowded: bool) -> Step {
    let j = random.below(3) == 0;
    match random.below(45) {
        0 | 1 if crowded => Step::Crowd,
        0..15 => Step::Write {
            events: 1 + random.below(4),
            keyed: random.below(2) == 0,
            j,
        },
        15..18 => Step::Retry { j },
        18..24 => Step::Seal,
        24..27 => Step::Compact {
            quiet: random.below(2) == 0,
        },
        27..29 => Step::Retain,
        29 | 30 => Step::Drop,
        31 => Step::Rebuild,
        32..36 => Step::Hold,
        36..39 => Step::Pass,
        39 | 40 => Step::Detach,
        41..44 => Step::Attach,
        _ => Step::Close,
    }
}
