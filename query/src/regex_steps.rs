//! Estimates of the work of a regular expression.

use regex_syntax::hir::{Hir, HirKind};

/// Largest number of steps for one text: some seconds.
pub(crate) const TEXT_STEPS_MAX: u64 = 1 << 30;
/// Number of states that a regular expression follows in one step, nearly always: it caches the
/// sets of states that it has met. If the cache grows too large, it follows each state
/// separately.
pub(crate) const STATES_AT_ONCE: u64 = 8;

/// Estimates the number of states of a regular expression.
pub(crate) fn states(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min + 1).max(1);
            states(&repetition.sub).saturating_mul(times.into())
        }
        HirKind::Capture(capture) => states(&capture.sub),
        HirKind::Concat(all) | HirKind::Alternation(all) => {
            all.iter().map(states).fold(0, u64::saturating_add)
        }
    }
}

/// Estimates the steps of an expression of so many states over a text of so many bytes.
pub(crate) fn steps(states: u64, bytes: usize) -> u64 {
    states.saturating_mul(bytes as u64) / STATES_AT_ONCE
}
