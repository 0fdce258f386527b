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

/// The service that returns freed memory.
pub(super) struct GiveBack(pub(super) Arc<Serving>);

impl Service for GiveBack {
    fn name(&self) -> &'static str {
        "give-back"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let mut growth = Growth {
            low: storage::resident_bytes(),
        };
        while !self.0.stop.wait(EVERY) {
            if growth.is_much(storage::resident_bytes()) {
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
}

impl Growth {
    fn is_much(&mut self, resident: u64) -> bool {
        self.low = self.low.min(resident);
        resident - self.low > GROWTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_from_the_least_since_the_last_return() {
        let mut growth = Growth { low: 2 * GROWTH };
        assert!(!growth.is_much(3 * GROWTH));
        assert!(!growth.is_much(GROWTH));
        assert!(!growth.is_much(2 * GROWTH));
        assert!(growth.is_much(2 * GROWTH + 1));
    }
}
