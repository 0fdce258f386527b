//! A cache of values that the layers above compute from immutable data, by rollup generation.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Values by generation, each computed once.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<HashMap<u32, Arc<dyn Any + Send + Sync>>>);

impl Memo {
    /// Returns the value of `generation`, which `make` computes the first time.
    pub(crate) fn get<T: Any + Send + Sync>(
        &self,
        generation: u32,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        let known = self.0.lock().get(&generation).cloned();
        if let Some(known) = known.and_then(|d| d.downcast().ok()) {
            return known;
        }
        // `make` runs outside the lock; of two values computed at the same time the first is
        // kept.
        let computed = Arc::new(make());
        let mut all = self.0.lock();
        let kept = all.entry(generation).or_insert_with(|| computed.clone());
        Arc::clone(kept).downcast().unwrap_or(computed)
    }
}
