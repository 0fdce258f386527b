//! Returns the memory of long bodies to the kernel.
//!
//! The C library keeps freed memory for later allocations, in one arena for each thread. After a
//! long body that is some hundred megabytes, and after bodies on several threads the sum of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Service, Serving};
use crate::failure::Result;

/// Interval of the checks.
const EVERY: Duration = Duration::from_secs(1);
/// Checks without a long body after which all is returned. Memory that was freed a moment ago is
/// often allocated again, and a return holds up other threads for some milliseconds.
const QUIET: u32 = 3;
/// Growth since the last return after which more is returned while long bodies still come.
const GROWTH: u64 = 128 << 20;

/// True once much memory was freed.
#[derive(Debug, Default)]
pub(crate) struct FreedMemory(AtomicBool);

impl FreedMemory {
    /// Notes that much memory was freed.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// The service that returns freed memory.
pub(super) struct GiveBack(pub(super) Arc<Serving>);

impl Service for GiveBack {
    fn name(&self) -> &'static str {
        "give-back"
    }

    fn run(self: Box<Self>) -> Result<()> {
        let mut kept = KeptMemory::new(storage::resident_bytes());
        while !self.0.stop.wait(EVERY) {
            if kept.is_to_return(self.0.memory.take(), storage::resident_bytes()) {
                storage::give_back_memory();
                kept = KeptMemory::new(storage::resident_bytes());
            }
        }
        Ok(())
    }
}

/// The memory that was freed since the last return.
#[derive(Debug)]
struct KeptMemory {
    /// Resident bytes after the last return.
    clean: u64,
    /// Checks since the last long body; `None` without one.
    quiet: Option<u32>,
}

impl KeptMemory {
    fn new(clean: u64) -> Self {
        Self { clean, quiet: None }
    }

    /// Returns whether memory is to be returned, at a check.
    fn is_to_return(&mut self, is_noted: bool, resident: u64) -> bool {
        self.quiet = match (is_noted, self.quiet) {
            (true, _) => Some(0),
            (false, quiet) => quiet.map(|checks| checks + 1),
        };
        self.quiet
            .is_some_and(|checks| checks >= QUIET || resident > self.clean + GROWTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_once_long_bodies_end_or_when_it_is_much() {
        let mut kept = KeptMemory::new(100);
        assert!(!kept.is_to_return(false, u64::MAX), "nothing was freed");
        assert!(!kept.is_to_return(true, 101));
        assert!(kept.is_to_return(true, 101 + GROWTH));
        let mut kept = KeptMemory::new(100);
        assert!(!kept.is_to_return(true, 101));
        let returns = (0..QUIET).position(|_| kept.is_to_return(false, 101));
        assert_eq!(returns, Some(QUIET as usize - 1));
    }
}
