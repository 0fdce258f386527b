//! The table of groups, each found by the bytes of its `_id`.

use std::hash::BuildHasher;
use std::vec::IntoIter;

use bson::raw::{CString, RawDocument};
use bson::{Bson, Document};
use hashbrown::{DefaultHashBuilder, HashTable};

use super::row::no_name;
use crate::mongo::accumulator::{AccumulatorState, GroupAccumulator};
use crate::mongo::encoding::{begin_document, end_document, put_bson};
use crate::mongo::error::Result;
use crate::mongo::expression::Evaluated;
use crate::mongo::pipeline::KeptBytes;

/// The bytes of a group beside its `_id` and its accumulators: its place in the table, which may be
/// half empty, and the end of its `_id`.
const GROUP_BYTES: usize = 2 * (size_of::<usize>() + 1) + size_of::<usize>();

#[derive(Debug)]
pub(super) struct GroupTable {
    /// The names of the accumulators.
    names: Vec<CString>,
    places: HashTable<usize>,
    hasher: DefaultHashBuilder,
    ids: GroupIds,
    /// The accumulators of each group, one group after the other.
    states: Vec<AccumulatorState>,
    /// The bytes that are counted.
    bytes: usize,
    /// The part of it by which accumulators have grown.
    grown: usize,
}

/// The elements `_id`, one after the other.
#[derive(Debug, Default)]
struct GroupIds {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl GroupIds {
    fn get(&self, place: usize) -> &[u8] {
        let begin = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[place]]
    }
}

impl GroupTable {
    /// Returns an empty table of accumulators with names; `None` if one cannot be written.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a String>) -> Option<Self> {
        let names = names.map(|name| CString::try_from(name.as_str()).ok());
        Some(Self {
            names: names.collect::<Option<_>>()?,
            places: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            ids: GroupIds::default(),
            states: Vec::new(),
            bytes: 0,
            grown: 0,
        })
    }

    /// Returns the place of the group of an `_id`, and the bytes of a new one.
    pub(super) fn place<'a>(
        &mut self,
        id: &[u8],
        accumulators: impl Iterator<Item = &'a GroupAccumulator>,
    ) -> (usize, usize) {
        let hash = self.hasher.hash_one(id);
        let ids = &self.ids;
        if let Some(place) = self.places.find(hash, |place| ids.get(*place) == id) {
            return (*place, 0);
        }
        let place = self.ids.ends.len();
        self.ids.bytes.extend(id);
        self.ids.ends.push(self.ids.bytes.len());
        let (hasher, ids) = (&self.hasher, &self.ids);
        let hash_of = |place: &usize| hasher.hash_one(ids.get(*place));
        self.places.insert_unique(hash, place, hash_of);
        self.states
            .extend(accumulators.map(GroupAccumulator::start));
        let states = self.names.len() * size_of::<AccumulatorState>();
        (place, GROUP_BYTES + id.len() + states)
    }

    /// Gives an accumulator of a group a value so many times, and returns by how many bytes it has
    /// grown.
    ///
    /// # Errors
    /// As those of [`AccumulatorState::add_times`].
    pub(super) fn add(
        &mut self,
        (place, nth): (usize, usize),
        value: Evaluated,
        times: u64,
    ) -> Result<usize> {
        let state = &mut self.states[place * self.names.len() + nth];
        let bytes = state.add_times(value, times)?;
        self.grown += bytes;
        Ok(bytes)
    }

    /// Counts bytes that the groups take.
    ///
    /// # Errors
    /// 292 if they are too many.
    pub(super) fn keep(&mut self, bytes: usize, kept: &KeptBytes) -> Result<()> {
        self.bytes += bytes;
        kept.keep(bytes, "$group")
    }

    /// Counts the bytes of the groups no longer. Returns those by which accumulators have grown.
    pub(super) fn release(&mut self, kept: &KeptBytes) -> usize {
        kept.release(std::mem::take(&mut self.bytes));
        self.grown
    }

    /// Returns the groups with their `_id`s, in their order.
    pub(super) fn into_groups(self) -> impl Iterator<Item = (Bson, Vec<AccumulatorState>)> {
        let (ids, each, mut states) = (self.ids, self.names.len(), self.states.into_iter());
        (0..ids.ends.len()).map(move |place| {
            let mut document = Vec::new();
            let begin = begin_document(&mut document);
            document.extend(ids.get(place));
            end_document(&mut document, begin);
            let document = RawDocument::from_bytes(&document).and_then(Document::try_from);
            let mut document = document.expect("BUG: it was written as a document");
            let id = document.remove("_id").expect("BUG: a group has an _id");
            (id, states.by_ref().take(each).collect())
        })
    }

    /// Returns the results, which keep the bytes of the groups until they end.
    pub(super) fn finish(self, kept: KeptBytes) -> GroupResults {
        GroupResults {
            names: self.names,
            ids: self.ids,
            states: self.states.into_iter(),
            next: 0,
            kept,
            bytes: self.bytes,
        }
    }
}

/// The results of a group, one after the other.
#[derive(Debug)]
pub struct GroupResults {
    names: Vec<CString>,
    ids: GroupIds,
    states: IntoIter<AccumulatorState>,
    next: usize,
    kept: KeptBytes,
    bytes: usize,
}

impl GroupResults {
    /// Returns whether there are no more results.
    pub fn is_empty(&self) -> bool {
        self.next >= self.ids.ends.len()
    }

    /// Returns the next result in BSON.
    ///
    /// # Errors
    /// If a value of it cannot be written.
    pub fn next_encoded(&mut self) -> Option<Result<Vec<u8>>> {
        let result = (!self.is_empty()).then(|| {
            self.next += 1;
            self.encode(self.next - 1)
        });
        if self.is_empty() {
            self.kept.release(std::mem::take(&mut self.bytes));
        }
        result
    }

    fn encode(&mut self, place: usize) -> Result<Vec<u8>> {
        let id = self.ids.get(place);
        let names: usize = self.names.iter().map(|name| name.len() + 16).sum();
        let mut out = Vec::with_capacity(id.len() + names + 5);
        let begin = begin_document(&mut out);
        out.extend(id);
        for (name, state) in self.names.iter().zip(&mut self.states) {
            put_bson(&mut out, name, &state.finish()).map_err(no_name)?;
        }
        end_document(&mut out, begin);
        Ok(out)
    }
}
