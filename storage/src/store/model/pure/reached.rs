//! The state of a store that follows from its journal, however it is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::UInt64Type;
use arrow::util::display::array_value_to_string;

use super::Program;
use crate::identity::Entry;
use crate::manifest::StreamMeta;
use crate::model::{Column, Name, SEQ};
use crate::part::read_part;
use crate::resolutions::Settled;
use crate::store::Store;

/// Cells of a row by column, without nulls.
type Cells = BTreeMap<String, String>;

/// State of a store that follows from its journal.
#[derive(Debug)]
pub(super) struct Reached {
    rows: BTreeMap<u64, (Name, Cells)>,
    columns: Vec<(Name, Vec<Column>, usize)>,
    identities: Vec<Entry>,
    settled: Settled,
    pub(super) next_seq: u64,
}

impl Reached {
    /// Returns the state of a store. Rows of resolved items are left out: retention drops them by
    /// the clock.
    pub(super) fn of(store: &Store) -> Self {
        let snapshot = store.snapshot();
        let mut rows = BTreeMap::new();
        for (name, meta) in snapshot.streams() {
            for part in snapshot.manifest().parts_of(name) {
                let bytes = snapshot.read(&part.file).expect("a part is there");
                for batch in read_part(bytes, None).expect("a part") {
                    add_rows(&mut rows, (name, meta), &batch);
                }
            }
            for chunk in snapshot.chunks(name.as_str()) {
                add_rows(&mut rows, (name, meta), &chunk.events);
            }
        }
        rows.retain(|seq, _| snapshot.settled().how(*seq).is_none());
        let streams = snapshot.streams().iter();
        Self {
            rows,
            columns: streams
                .map(|(name, meta)| (name.clone(), meta.columns.clone(), meta.columns_max))
                .collect(),
            identities: store.shared.state.lock().identities.clone().into_entries(),
            settled: snapshot.settled().clone(),
            next_seq: snapshot.next_seq(),
        }
    }

    /// Compares the state with the expected one, piece by piece.
    #[track_caller]
    pub(super) fn check(&self, expected: &Self, program: Program) {
        assert_eq!(self.columns, expected.columns, "{program:?}");
        assert_eq!(self.identities, expected.identities, "{program:?}");
        assert_eq!(self.settled, expected.settled, "{program:?}");
        assert_eq!(self.next_seq, expected.next_seq, "{program:?}");
        for (seq, row) in &expected.rows {
            assert_eq!(self.rows.get(seq), Some(row), "{program:?}: {seq}");
        }
        assert_eq!(self.rows.len(), expected.rows.len(), "{program:?}");
    }
}

fn add_rows(
    rows: &mut BTreeMap<u64, (Name, Cells)>,
    (name, meta): (&Name, &StreamMeta),
    batch: &RecordBatch,
) {
    let seqs = batch.column_by_name(SEQ).expect("every row has a number");
    let seqs = seqs.as_primitive::<UInt64Type>();
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        // Integers may have been written before their column became one of floats.
        let array = match meta.column_type(field.name()) {
            Some(column_type) => cast(array, &column_type.arrow()).expect("its own type"),
            None => Arc::clone(array),
        };
        for (row, seq) in seqs.values().iter().enumerate() {
            let (_, cells) = rows
                .entry(*seq)
                .or_insert_with(|| (name.clone(), Cells::new()));
            if array.is_valid(row) {
                let text = array_value_to_string(&array, row).expect("printable");
                let before = cells.insert(field.name().clone(), text);
                assert_eq!(before, None, "sequence {seq} is there twice");
            }
        }
    }
}
