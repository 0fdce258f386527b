//! The reason for which a line is no event.

use std::borrow::Cow;

use crate::stamp;

/// The code of an event that is stamped too long after its receipt.
const FUTURE: &str = "future";

/// A line that is no event: why, and where reading stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bad {
    /// The short code of the quarantine.
    pub(crate) reason: &'static str,
    /// The byte of the line at which reading stopped, from 0.
    pub(crate) at: usize,
    /// The text that belongs there, or the whole message.
    pub(crate) expected: Cow<'static, str>,
    /// `expected` is the whole message; the text of the line adds nothing to it.
    pub(crate) whole: bool,
}

impl Bad {
    #[cold]
    pub(crate) fn expected(
        reason: &'static str,
        at: usize,
        what: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            reason,
            at,
            expected: what.into(),
            whole: false,
        }
    }

    #[cold]
    pub(crate) fn because(
        reason: &'static str,
        at: usize,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            reason,
            at,
            expected: message.into(),
            whole: true,
        }
    }

    /// Refuses an event stamped more than `max_future_us` after its receipt.
    #[cold]
    pub(crate) fn future(at: usize, time_us: i64, received_us: i64, max_future_us: i64) -> Self {
        let (stamp, received) = (stamp::write(time_us), stamp::write(received_us));
        let allowed = max_future_us / 1_000_000;
        Self::because(
            FUTURE,
            at,
            format!("stamped {stamp}, more than {allowed} s after its receipt at {received}"),
        )
    }

    /// Returns whether the line is an event whose time has not come.
    pub(crate) fn is_future(&self) -> bool {
        self.reason == FUTURE
    }

    /// Refuses an event stamped where functions of time do not reach, such as the year 1 of an
    /// unset time.
    #[cold]
    pub(crate) fn time_range(at: usize, time_us: i64) -> Self {
        Self::because(
            "time_range",
            at,
            format!(
                "stamped {}, outside the years 1678 to 2261 that functions of time can hold",
                stamp::write(time_us)
            ),
        )
    }

    /// Returns the message of a line of which no text may be kept, with the column from 1.
    pub(crate) fn detail_without_line(&self) -> String {
        const NOT_KEPT: &str = "the line is not kept, as fields of its stream are anonymised";
        let column = self.at + 1;
        // A whole message may have some text of the line.
        match self.whole {
            true => format!("column {column}: {NOT_KEPT}"),
            false => format!("column {column}: expected {}; {NOT_KEPT}", self.expected),
        }
    }

    /// Returns the message, with the column from 1 and an excerpt of the text that stands there.
    pub(crate) fn detail(&self, line: &[u8]) -> String {
        const EXCERPT_BYTES: usize = 32;
        let column = self.at + 1;
        if self.whole {
            return format!("column {column}: {}", self.expected);
        }
        let rest = line.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return format!(
                "column {column}: expected {}, found the end of the line",
                self.expected
            );
        }
        let (excerpt, more) = if rest.len() > EXCERPT_BYTES {
            (&rest[..EXCERPT_BYTES], "…")
        } else {
            (rest, "")
        };
        format!(
            "column {column}: expected {}, found {}{more}",
            self.expected,
            excerpt.escape_ascii()
        )
    }
}
