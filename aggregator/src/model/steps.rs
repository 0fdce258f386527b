//! What can happen to a store, and how often it does.

use storage::sim::Random;

/// Something that is done to an open store. What it is done with follows from the history's seed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// A batch of so many events.
    Write {
        events: u64,
        keyed: bool,
        j: bool,
    },
    /// More different hosts within an hour than a distinct count lists.
    Crowd,
    /// An earlier batch again, with its identity.
    Retry {
        j: bool,
    },
    Seal,
    /// Tiles and parts are compacted until nothing is left to merge.
    Compact {
        quiet: bool,
    },
    /// Levels give up what their retention says.
    Retain,
    /// Raw partitions are dropped.
    Drop,
    /// Raw partitions are detached.
    Detach,
    /// Those that are detached are attached.
    Attach,
    /// A rollup is made again from raw events, as far as they are there.
    Rebuild,
    /// A snapshot is taken, or the one that was is read again.
    Hold,
    /// Time passes.
    Pass,
    Close,
}

/// The next step of a history.
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
