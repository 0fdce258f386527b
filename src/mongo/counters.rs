//! The counters that are known to have begun, so that most updates look nothing up.

use std::collections::HashSet;

use parking_lot::Mutex;
use storage::Name;
use xxhash_rust::xxh3::xxh3_128;

/// Maximum counters that are known: 16 bytes each.
const KNOWN_MAX: usize = 1_000_000;

/// Counters that are known, of all streams, by a hash of 128 bits.
#[derive(Default)]
pub(super) struct KnownCounters(Mutex<HashSet<u128>>);

impl std::fmt::Debug for KnownCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("KnownCounters")
            .field(&self.0.lock().len())
            .finish()
    }
}

fn key(stream: &Name, counter: &str) -> u128 {
    xxh3_128(format!("{stream}\0{counter}").as_bytes())
}

impl KnownCounters {
    /// Notes that a counter has begun. Returns whether that is new.
    pub(super) fn note(&self, stream: &Name, counter: &str) -> bool {
        let mut known = self.0.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(key(stream, counter))
    }

    /// Forgets a counter, whose beginning is not stored.
    pub(super) fn forget(&self, stream: &Name, counter: &str) {
        self.0.lock().remove(&key(stream, counter));
    }
}
