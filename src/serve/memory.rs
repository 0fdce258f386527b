//! Returns the memory of long bodies to the kernel.
//!
//! The C library keeps freed memory for later allocations, in one arena for each thread. After a
//! long body that is some hundred megabytes, and after bodies on several threads the sum of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Service, Serving};
use crate::failure::Result;

/// Interval of the checks. Memory that was freed a moment ago is often allocated again.
const EVERY: Duration = Duration::from_secs(1);

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
        while !self.0.stop.wait(EVERY) {
            if self.0.memory.take() {
                storage::give_back_memory();
            }
        }
        Ok(())
    }
}
