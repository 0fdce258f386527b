//! The first documents of a sort, in bounded memory.
//!
//! # Invariants
//! * No more documents are held than the limit, and no more bytes.
//! * Of documents with equal keys, those that came first are held, in their order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bson::Document;

use super::{Sort, SortKey};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::size::encoded_bytes;

/// Collects the first documents of a sort.
#[derive(Debug)]
pub struct TopK {
    sort: Arc<Sort>,
    limit: usize,
    bytes_max: usize,
    /// The last in the order of the sort is on top.
    held: BinaryHeap<HeldDocument>,
    bytes: usize,
    pushed: u64,
}

#[derive(Debug)]
struct HeldDocument {
    key: SortKey,
    /// The number of documents before it.
    position: u64,
    bytes: usize,
    document: Document,
}

impl TopK {
    /// Begins with a limit of documents, and one of the bytes that they and their keys have in
    /// BSON.
    pub fn new(sort: impl Into<Arc<Sort>>, limit: Option<usize>, bytes_max: usize) -> Self {
        Self {
            sort: sort.into(),
            limit: limit.unwrap_or(usize::MAX),
            bytes_max,
            held: BinaryHeap::new(),
            bytes: 0,
            pushed: 0,
        }
    }

    /// Takes a document.
    ///
    /// # Errors
    /// If more bytes would have to be held than the limit allows.
    pub fn push(&mut self, document: Document) -> Result<()> {
        let key = self.sort.key(&document);
        let position = self.pushed;
        self.pushed += 1;
        if self.held.len() >= self.limit {
            // A document that came later is behind one with an equal key.
            let is_behind = self.held.peek().is_none_or(|last| key >= last.key);
            if is_behind {
                return Ok(());
            }
            let last = self.held.pop().expect("BUG: peek found one");
            self.bytes -= last.bytes;
        }
        let bytes = encoded_bytes(&document) + key.bytes() + size_of::<HeldDocument>();
        self.bytes += bytes;
        self.held.push(HeldDocument {
            key,
            position,
            bytes,
            document,
        });
        if self.bytes > self.bytes_max {
            let message = format!(
                "the sort holds more than {} bytes; ask for fewer documents with a filter or a limit",
                self.bytes_max
            );
            return Err(QueryError::located(292, message));
        }
        Ok(())
    }

    /// Returns the bytes that are held.
    pub(in crate::mongo) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the documents in their order.
    pub fn finish(self) -> Vec<Document> {
        let sorted = self.held.into_sorted_vec();
        sorted.into_iter().map(|held| held.document).collect()
    }
}

impl Ord for HeldDocument {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.key.cmp(&other.key);
        by_key.then_with(|| self.position.cmp(&other.position))
    }
}

impl PartialOrd for HeldDocument {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for HeldDocument {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for HeldDocument {}
