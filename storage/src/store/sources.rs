//! Ordered sources and clients' keys, as far as the store remembers them.

use super::Store;
use crate::identity::SourcePosition;

impl Store {
    /// Returns the position up to which an ordered source has been stored.
    pub fn position(&self, producer: &str) -> Option<SourcePosition> {
        self.shared.state.lock().identities.position(producer)
    }

    /// Returns the remembered positions of an ordered source: one after each of its last batches,
    /// the newest last. Empty for an unknown source.
    pub fn source_states(&self, producer: &str) -> Vec<SourcePosition> {
        self.shared.state.lock().identities.states(producer)
    }

    /// Returns the ordered sources whose names begin with `prefix`, sorted.
    pub fn source_names(&self, prefix: &str) -> Vec<String> {
        self.shared.state.lock().identities.producers(prefix)
    }

    /// Returns the fingerprint remembered for a client's key, `None` for an unknown key.
    pub fn key_fingerprint(&self, key: &str) -> Option<u64> {
        self.shared.state.lock().identities.key_fingerprint(key)
    }

    /// Returns every ordered source and its position.
    pub fn positions(&self) -> Vec<(String, SourcePosition)> {
        self.shared.state.lock().identities.positions()
    }
}
