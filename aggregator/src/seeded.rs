//! Faults put into the code on purpose, so that it is known that the tests would find them.
//!
//! They are compiled into this crate's own tests alone; everywhere else [`is`] is `false` for ever.
//! `LOGMILL_BUG=<name>` chooses one for the whole process.

/// A fault that can be put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A seal decides which keys have a name as if nothing had been sealed before.
    OtherPerSeal,
}

impl Bug {
    /// Every fault, with the name by which it is chosen.
    #[cfg(test)]
    pub(crate) const ALL: [(Self, &'static str); 1] = [(Self::OtherPerSeal, "other_per_seal")];
}

/// Whether this fault is in.
#[cfg(test)]
pub(crate) fn is(bug: Bug) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var("LOGMILL_BUG").ok()?;
        // Names that are not known here are those of another crate's faults.
        let known = Bug::ALL.into_iter().find(|(_, n)| *n == name);
        known.map(|(bug, _)| bug)
    });
    *chosen == Some(bug)
}

/// Whether this fault is in: never.
#[cfg(not(test))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

#[cfg(test)]
mod tests;
