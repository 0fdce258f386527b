//! The memory of the stages of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::mongo::error::{QueryError, Result};

/// The bytes that the stages of a run may keep together.
#[derive(Debug, Clone)]
pub struct KeptBytes {
    kept: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl KeptBytes {
    /// Returns a budget of so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let kept = Arc::default();
        Self { kept, bytes_max }
    }

    /// Returns the bytes that are kept.
    pub fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// Counts bytes that a stage keeps.
    ///
    /// # Errors
    /// 292 if they are too many.
    pub(super) fn keep(&self, bytes: usize, stage: &str) -> Result<()> {
        let before = self.kept.fetch_add(bytes, Ordering::Relaxed);
        self.check(before.saturating_add(bytes), stage)
    }

    /// Refuses more bytes than the budget has.
    ///
    /// # Errors
    /// 292.
    pub(super) fn check(&self, bytes: usize, stage: &str) -> Result<()> {
        if bytes <= self.bytes_max {
            return Ok(());
        }
        let message = format!(
            "{stage} needs more than the {} bytes of memory of a pipeline; \
             take fewer documents with $match or $limit, or fewer fields with $project",
            self.bytes_max
        );
        Err(QueryError::located(292, message))
    }

    /// Counts bytes that a stage has let go.
    pub(super) fn release(&self, bytes: usize) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}
