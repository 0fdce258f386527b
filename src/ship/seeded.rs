//! Faults for the tests of the tests: each must be found by `src/ship/tests.rs`.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShipBug {
    /// A file that was cut off counts as the same as long as it is long enough.
    GuardFits,
    /// Copies of followed files are sent like new files.
    CopyIsNew,
    /// The beginning of a line is sent.
    PieceIsLine,
    /// A batch without an answer counts as stored.
    UnknownIsStored,
}

#[cfg(test)]
thread_local! {
    pub(super) static SEEDED: std::cell::Cell<Option<ShipBug>> = const { std::cell::Cell::new(None) };
}

/// Returns whether the fault is seeded: in tests alone.
#[cfg(test)]
pub(super) fn is(bug: ShipBug) -> bool {
    SEEDED.get() == Some(bug)
}

#[cfg(not(test))]
pub(super) fn is(_: ShipBug) -> bool {
    false
}
