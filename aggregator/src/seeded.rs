//! Faults put into the code on purpose, to prove that the tests find them.
//!
//! Only this crate's tests can choose a fault; everywhere else [`is`] returns `false`.
//! `LOGMILL_BUG=<name>` chooses one for the whole process. (Storage has other faults, chosen in the
//! same way.) Each wrong computation stands beside the right one, which it replaces.

/// A fault that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A seal's tile holds the totals of its buckets, not the deltas.
    #[cfg(test)]
    TotalsNotDeltas,
    /// Buckets exclude both of their ends: an event exactly at an end is not counted.
    #[cfg(test)]
    OpenEnds,
    /// Buckets follow one fixed zone instead of the rollup's.
    ServerLocal,
    /// The last day of a month belongs to the next one.
    MonthOffByOne,
    /// Sums are added up as doubles.
    FloatSums,
    /// The sketch merged last overwrites the registers of the one before.
    SketchOrder,
    /// A seal admits keys as if nothing had been sealed before.
    OtherPerSeal,
}

impl Bug {
    /// Every fault, with the name by which it is chosen.
    #[cfg(test)]
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::TotalsNotDeltas, "totals_not_deltas"),
        (Self::OpenEnds, "open_ends"),
        (Self::ServerLocal, "server_local"),
        (Self::MonthOffByOne, "month_off_by_one"),
        (Self::FloatSums, "float_sums"),
        (Self::SketchOrder, "sketch_order"),
        (Self::OtherPerSeal, "other_per_seal"),
    ];
}

/// Returns whether this fault was chosen.
#[cfg(test)]
pub(crate) fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("LOGMILL_BUG").ok()?;
        // An unknown name is that of another crate's fault.
        let chosen = Bug::ALL.into_iter().find(|(_, n)| *n == name);
        chosen.map(|(bug, _)| bug)
    });
    *chosen == Some(bug)
}

/// Returns `false`: outside this crate's tests no fault can be chosen.
#[cfg(not(test))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}
