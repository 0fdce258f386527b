//! The operations of a history, and their random order.

use crate::sim::Random;

/// An operation on an open store. Its numbers determine everything about it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Write {
        events: u64,
        bad: u64,
        producer: Option<u8>,
        keyed: bool,
        j: bool,
    },
    /// Writes batches in one group, the last perhaps with `j`.
    Burst {
        batches: u64,
        j: bool,
    },
    /// Sends this many earlier batches again.
    Retry {
        times: u64,
        seed: u64,
    },
    /// Sends a known key with another body.
    ReuseKey(u64),
    /// Sends a range that begins after the known end of its producer, or before it.
    Hole {
        producer: u8,
        overlaps: bool,
    },
    /// Drops the partitions from one day to before another.
    Drop {
        days: (i64, i64),
        dry: bool,
    },
    /// Detaches the partitions from one day to before another.
    Detach {
        days: (i64, i64),
        dry: bool,
    },
    /// Attaches the detached partitions from one day to before another.
    Attach {
        days: (i64, i64),
    },
    /// Erases about one in so many events, or as a dry run where some raw events are gone.
    Erase {
        one_in: u64,
        seed: u64,
    },
    /// Drops the partitions beyond the retention of the stream.
    Expire,
    /// Leaves this many blocks free on the disk.
    Full(u64),
    /// Removes the limit of the disk.
    Room,
    /// Resolves quarantined items, open ones and perhaps a resolved one; with `twice` in two
    /// batches of one group.
    Settle {
        items: u64,
        replay: bool,
        twice: bool,
        seed: u64,
    },
    /// Drops the partitions of the quarantine in which all items are resolved.
    DropSettled,
    Sync,
    Seal,
    /// Compacts tiles and parts until nothing is left to merge.
    Compact {
        quiet: bool,
    },
    /// Drops buckets of the fine level that are older than its retention.
    Retain,
    /// Rebuilds rollups from one day to before another.
    Rebuild {
        days: (i64, i64),
    },
    /// Opens the store in a reader of another process, or closes that reader.
    Read,
    /// Makes a backup, and perhaps writes to it as a store of its own.
    Backup {
        opens: bool,
    },
    Close,
}

/// Returns the next step of a history.
pub(super) fn step(random: &mut Random) -> Step {
    let j = random.below(3) == 0;
    let producer = (random.below(2) == 0).then(|| random.below(3) as u8);
    match random.below(55) {
        0..11 => Step::Write {
            events: random.below(5) + u64::from(producer.is_none()),
            bad: random.below(10) / 7,
            producer,
            keyed: random.below(2) == 0,
            j,
        },
        11..15 => Step::Burst {
            batches: 2 + random.below(4),
            j,
        },
        15..19 => Step::Retry {
            times: 1 + random.below(3),
            seed: random.next_u64(),
        },
        19 => Step::ReuseKey(random.next_u64()),
        20 => Step::Hole {
            producer: random.below(3) as u8,
            overlaps: j,
        },
        21 | 22 => {
            let from = random.below(4) as i64 - 2;
            Step::Drop {
                days: (from, from + 1 + random.below(2) as i64),
                dry: random.below(4) == 0,
            }
        }
        23 => Step::Full(random.below(8)),
        24 => Step::Room,
        25..27 => Step::Sync,
        27..31 => Step::Seal,
        31 | 32 => Step::Read,
        33 | 34 => Step::Compact { quiet: !j },
        35 => Step::Retain,
        36 => {
            let from = random.below(4) as i64 - 2;
            Step::Rebuild {
                days: (from, from + 1 + random.below(2) as i64),
            }
        }
        37 | 38 => {
            let from = random.below(4) as i64 - 2;
            Step::Detach {
                days: (from, from + 1 + random.below(2) as i64),
                dry: random.below(6) == 0,
            }
        }
        39..42 => {
            let from = random.below(4) as i64 - 2;
            Step::Attach {
                days: (from, from + 1 + random.below(2) as i64),
            }
        }
        42 | 43 => Step::Backup { opens: !j },
        44..48 => Step::Settle {
            items: 1 + random.below(4),
            replay: random.below(3) > 0,
            twice: random.below(4) == 0,
            seed: random.next_u64(),
        },
        48 => Step::DropSettled,
        49 | 50 => Step::Expire,
        51..54 => Step::Erase {
            one_in: 1 + random.below(6),
            seed: random.next_u64(),
        },
        _ => Step::Close,
    }
}

/// Returns steps that follow from a seed.
pub(super) fn script(seed: u64, steps: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    (0..steps).map(|_| step(&mut random)).collect()
}

/// Returns steps of every kind, for tests that make each of their calls fail.
pub(super) fn short_script() -> Vec<Step> {
    let write = |producer, keyed, j| Step::Write {
        events: 3,
        bad: 1,
        producer,
        keyed,
        j,
    };
    let settle = |replay| Step::Settle {
        items: 3,
        replay,
        twice: replay,
        seed: 3,
    };
    let days = (-1, 1);
    vec![
        write(None, true, true),
        Step::Burst {
            batches: 4,
            j: true,
        },
        Step::Retry { times: 2, seed: 1 },
        Step::Seal,
        write(Some(0), false, false),
        Step::Hole {
            producer: 0,
            overlaps: false,
        },
        Step::Read,
        Step::Backup { opens: true },
        Step::Erase { one_in: 2, seed: 1 },
        Step::Detach { days, dry: false },
        write(Some(2), false, true),
        Step::Attach { days },
        settle(true),
        Step::Drop { days, dry: false },
        settle(false),
        write(Some(1), false, true),
        Step::Close,
        write(None, false, false),
        Step::Retry { times: 3, seed: 5 },
        Step::Seal,
        settle(false),
        settle(false),
        Step::DropSettled,
        Step::Expire,
        Step::Retain,
        Step::Compact { quiet: true },
        Step::Rebuild { days },
        Step::Burst {
            batches: 3,
            j: false,
        },
        Step::Sync,
    ]
}
