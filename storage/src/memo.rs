//! Room for what the rooms above compute from what never changes, by rollup generation.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Values by generation, each made once.
#[derive(Debug, Default)]
pub(crate) struct Memo(Mutex<HashMap<u32, Arc<dyn Any + Send + Sync>>>);

impl Memo {
    /// The value under `generation`, made by `make` the first time.
    pub(crate) fn get<T: Any + Send + Sync>(
        &self,
        generation: u32,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        let known = self.0.lock().get(&generation).cloned();
        if let Some(known) = known.and_then(|d| d.downcast().ok()) {
            return known;
        }
        // Made outside the lock; of two that are made at once the first stays.
        let made = Arc::new(make());
        let mut all = self.0.lock();
        let kept = all.entry(generation).or_insert_with(|| made.clone());
        Arc::clone(kept).downcast().unwrap_or(made)
    }
}
