//! Cache of a bounded number of bytes. It evicts the entry that was not used for the longest
//! time. Callers name the bytes of an entry, as values may grow after they were built.

use std::fmt;
use std::hash::Hash;

use datafusion::execution::cache::lru_queue::LruQueue;
use parking_lot::Mutex;

pub(crate) struct ByteCache<K: Eq + Hash + Clone, V> {
    bytes_max: u64,
    entries: Mutex<Entries<K, V>>,
}

struct Entries<K: Eq + Hash + Clone, V> {
    /// Values with their bytes.
    queue: LruQueue<K, (V, u64)>,
    bytes: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> ByteCache<K, V> {
    /// Creates a cache of at most `bytes_max` bytes. A single larger entry is still kept.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            entries: Mutex::new(Entries {
                queue: LruQueue::new(),
                bytes: 0,
            }),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock();
        entries.queue.get(key).map(|(value, _)| value.clone())
    }

    /// Adds an entry of so many bytes, or replaces it, and evicts others until all fit.
    pub(crate) fn put(&self, key: K, value: V, bytes: u64) {
        let mut entries = self.entries.lock();
        entries.remove(&key);
        entries.bytes += bytes;
        entries.queue.put(key, (value, bytes));
        while entries.bytes > self.bytes_max && entries.queue.len() > 1 {
            let evicted = entries.queue.pop();
            let (_, (_, bytes)) = evicted.expect("BUG: a cache of two has an oldest entry");
            entries.bytes -= bytes;
        }
    }

    pub(crate) fn remove(&self, key: &K) {
        self.entries.lock().remove(key);
    }

    /// Returns the bytes of the entries that suit.
    pub(crate) fn bytes(&self, suits: impl Fn(&K, &V) -> bool) -> u64 {
        let entries = self.entries.lock();
        let all = entries.queue.list_entries().into_iter();
        let suiting = all.filter(|(key, (value, _))| suits(key, value));
        suiting.map(|(_, (_, bytes))| bytes).sum()
    }
}

impl<K: Eq + Hash + Clone, V> Entries<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some((_, bytes)) = self.queue.remove(key) {
            self.bytes -= bytes;
        }
    }
}

impl<K: Eq + Hash + Clone, V> fmt::Debug for ByteCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which of these keys are cached, without a use of them.
    fn cached(cache: &ByteCache<u32, ()>, keys: &[u32]) -> Vec<u32> {
        let is_cached = |key: &&u32| cache.bytes(|known, ()| known == *key) > 0;
        keys.iter().filter(is_cached).copied().collect()
    }

    #[test]
    fn the_entry_that_was_not_used_for_the_longest_time_is_evicted() {
        let cache = ByteCache::new(100);
        cache.put(1, (), 40);
        cache.put(2, (), 40);
        assert_eq!(cache.get(&1), Some(()));
        cache.put(3, (), 30);
        assert_eq!(cached(&cache, &[1, 2, 3]), [1, 3]);
        assert_eq!(cache.get(&2), None);
    }

    #[test]
    fn an_entry_that_grows_or_goes_changes_the_bytes() {
        let cache = ByteCache::new(100);
        cache.put(1, (), 40);
        cache.put(2, (), 40);
        cache.put(1, (), 60);
        assert_eq!(cache.bytes(|_, ()| true), 100);
        assert_eq!(cached(&cache, &[1, 2]), [1, 2]);
        cache.put(1, (), 61);
        assert_eq!(cached(&cache, &[1, 2]), [1]);
        cache.remove(&1);
        assert_eq!(cache.bytes(|_, ()| true), 0);
        cache.put(3, (), 100);
        assert_eq!(cached(&cache, &[3]), [3]);
    }

    #[test]
    fn an_entry_larger_than_the_cache_is_kept_alone() {
        let cache = ByteCache::new(100);
        cache.put(1, (), 10);
        cache.put(2, (), 1000);
        assert_eq!(cached(&cache, &[1, 2]), [2]);
        cache.put(3, (), 10);
        assert_eq!(cached(&cache, &[1, 2, 3]), [3]);
    }
}
