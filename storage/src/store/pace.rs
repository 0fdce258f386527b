//! Priority of seals, compactions and index builds, and the pause in which background work lets
//! others go first.

use super::{Shared, wait_for};
use crate::error::{Error, Result};

/// Pause of a merge after every few thousand rows while ingest or a seal needs the machine.
const PAUSE_US: i64 = 100_000;

/// Priority of a seal, a compaction or an index build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// A client has requested it and waits.
    Foreground,
    /// Background work. A merge gives way to a seal, and to ingest once the memtable is half
    /// full.
    Background,
}

/// Waits for a moment while ingest or a seal needs the machine. Fails with [`Error::Closed`] when
/// the store is closing, which ends the work of the caller.
pub(super) fn wait_for_others(shared: &Shared, pace: Pace) -> Result<()> {
    let mut state = shared.state.lock();
    let half = shared.options.config.memtable_bytes_max / 2;
    let is_pressed = state.memtable.bytes() > half || shared.sealer.is_locked();
    if pace == Pace::Background && is_pressed && !state.closing {
        wait_for(&shared.sealing, &mut state, PAUSE_US);
    }
    if state.closing {
        Err(Error::Closed)
    } else {
        Ok(())
    }
}
