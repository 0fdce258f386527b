//! Returns freed memory to the kernel.
//!
//! The C library keeps freed memory for later allocations, in one arena for each thread. After long
//! bodies or merges of parts that is some hundred megabytes, and after work on several threads the
//! sum of them.

use std::sync::Arc;
use std::time::Duration;

use super::{Service, Serving};
use crate::failure::Result;

/// Interval of the checks. Memory that was freed a moment ago is often allocated again, and a
/// return holds up other threads for some milliseconds.
const EVERY: Duration = Duration::from_secs(1);
/// Growth of resident memory after which what was freed is returned, bytes.
const GROWTH: u64 = 128 << 20;
/// Checks after a growth before what was freed meanwhile is returned, too.
const CALM: u32 = 4;

/// The service that returns freed memory.
pub(super) struct GiveBack(pub(super) Arc<Serving>);

impl Service for GiveBack {
    fn name(&self) -> &'static str {
        "give-back"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let mut growth = Growth {
            low: storage::resident_bytes(),
            calm: 0,
        };
        while !self.0.stop.wait(EVERY) {
            if growth.is_return_due(storage::resident_bytes()) {
                storage::give_back_memory();
                growth.low = storage::resident_bytes();
            }
        }
        Ok(())
    }
}

/// The growth of resident memory since it was last returned.
#[derive(Debug)]
struct Growth {
    /// The least resident bytes since then.
    low: u64,
    /// Checks since the last growth.
    calm: u32,
}

impl Growth {
    /// Returns whether freed memory is to be returned: after a growth, and when the time since the
    /// growth has doubled. Memory that is in use at a return, and freed behind it, stays resident:
    /// nothing grows. So it is returned after as long a time as it was in use, at most.
    fn is_return_due(&mut self, resident: u64) -> bool {
        self.low = self.low.min(resident);
        let has_grown = resident - self.low > GROWTH;
        self.calm = match has_grown {
            true => 0,
            false => self.calm.saturating_add(1),
        };
        has_grown || self.calm >= CALM && self.calm.is_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth() -> Growth {
        Growth {
            low: 2 * GROWTH,
            calm: 0,
        }
    }

    #[test]
    fn growth_counts_from_the_least_since_the_last_return() {
        let mut growth = growth();
        assert!(!growth.is_return_due(3 * GROWTH));
        assert!(!growth.is_return_due(GROWTH));
        assert!(!growth.is_return_due(2 * GROWTH));
        assert!(growth.is_return_due(2 * GROWTH + 1));
    }

    #[test]
    fn memory_that_was_in_use_at_a_return_is_returned_later() {
        let mut growth = growth();
        assert!(growth.is_return_due(6 * GROWTH));
        growth.low = 6 * GROWTH;
        let checks = 1..=100;
        let due: Vec<u32> = checks
            .filter(|_| growth.is_return_due(6 * GROWTH))
            .collect();
        assert_eq!(due, [4, 8, 16, 32, 64]);
    }
}
