//! Pauses between attempts.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// A server that asks for a longer wait is tried after this one all the same.
const ASKED_MAX: Duration = Duration::from_secs(300);

/// The pause after the next failure.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// Returns a pause: twice as long each time, at least as long as the server asks for, and
    /// between half and the whole of it at random, so that many shippers do not return at once.
    /// `random` lies in 0..1.
    pub(super) fn pause(&mut self, asked: Option<Duration>, random: f64) -> Duration {
        let pause = self.0.mul_f64(0.5 + random / 2.0);
        self.0 = (self.0 * 2).min(LONGEST);
        match asked {
            None => pause,
            // The wait is the server's, the spread is ours.
            Some(asked) => asked.min(ASKED_MAX) + pause.mul_f64(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_no_wait_is_cut_short() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.pause(None, 0.0), FIRST / 2);
        assert_eq!(backoff.pause(None, 1.0), FIRST * 2);
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            last = backoff.pause(None, 1.0);
        }
        assert_eq!(last, LONGEST);
        let asked = Duration::from_secs(7);
        assert_eq!(backoff.pause(Some(asked), 0.0), asked);
        assert!(Backoff::default().pause(Some(asked), 0.9) > asked);
        let long = backoff.pause(Some(Duration::from_secs(1 << 40)), 0.0);
        assert_eq!(long, ASKED_MAX);
    }
}
