//! The admitted keys of one day.

use std::sync::Arc;

use hashbrown::HashSet;

/// A set of keys that is cheap to clone: most of it is shared.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmittedKeys {
    settled: Arc<HashSet<Arc<[u8]>>>,
    /// Keys that are not in `settled`.
    recent: HashSet<Arc<[u8]>>,
}

impl AdmittedKeys {
    pub(crate) fn len(&self) -> usize {
        self.settled.len() + self.recent.len()
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.settled.contains(key) || self.recent.contains(key)
    }

    pub(super) fn insert(&mut self, key: &[u8]) {
        if !self.settled.contains(key) {
            self.recent.get_or_insert_with(key, |key| Arc::from(key));
        }
    }

    /// Moves recent keys to the shared set once they exceed a quarter of it: each key is moved a
    /// logarithmic number of times.
    pub(super) fn settle(&mut self) {
        if self.recent.len() > self.settled.len() / 4 {
            let recent = std::mem::take(&mut self.recent);
            Arc::make_mut(&mut self.settled).extend(recent);
        }
    }
}

impl FromIterator<Box<[u8]>> for AdmittedKeys {
    fn from_iter<I: IntoIterator<Item = Box<[u8]>>>(keys: I) -> Self {
        Self {
            settled: Arc::new(keys.into_iter().map(Arc::from).collect()),
            recent: HashSet::new(),
        }
    }
}

#[cfg(test)]
impl AdmittedKeys {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.settled.iter().chain(&self.recent).map(AsRef::as_ref)
    }
}
