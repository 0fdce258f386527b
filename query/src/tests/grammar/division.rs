//! The division of a stream among several stores, by a key or without one.

use arrow::array::RecordBatch;
use storage::{Division, HotValues, Name, ShardKey, StreamKind};

use super::super::support::Fixture;
use super::values::Values;

/// The key of a stream that is divided among shards.
pub(super) struct Divided {
    key: ShardKey,
    hot: Vec<Vec<String>>,
    stores: u16,
}

impl Divided {
    /// Creates the stream in all stores, divided by one of some keys; `None` for one store, and
    /// for some streams: their events may be anywhere.
    pub(super) fn some(
        (stream, kind): (&str, StreamKind),
        keys: &[&'static str],
        fixtures: &[Fixture],
        values: &mut Values,
    ) -> Option<Self> {
        let stores = u16::try_from(fixtures.len()).expect("a few");
        if stores == 1 || values.once_in(5) {
            return None;
        }
        let of_all = Self {
            key: values.of(keys).parse().expect("a key"),
            hot: vec![vec!["/often".to_owned()], vec!["/p3".to_owned()]],
            stores,
        };
        let name = Name::new(stream).expect("a name");
        for (shard, fixture) in (0..).zip(fixtures) {
            let division = Division::of(shard, stores, &of_all.key, &of_all.hot);
            let created = fixture.store.create_stream(&name, kind, division);
            created.expect("created");
        }
        Some(of_all)
    }

    /// Returns the stores of the rows of a batch. Some batches go to one store, as items of its
    /// quarantine do when they become events.
    pub(super) fn places(&self, batch: &RecordBatch, values: &mut Values) -> Vec<usize> {
        let home = values.below(usize::from(self.stores));
        if values.once_in(12) {
            return vec![home; batch.num_rows()];
        }
        let hot = HotValues::of(&self.hot);
        let places = self.key.places(batch, self.stores, home as u16, &hot);
        places.into_iter().map(usize::from).collect()
    }
}
