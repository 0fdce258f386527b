//! Tests of records: a record decodes to what was encoded, and no bytes make the decoder panic.

use std::collections::BTreeSet;

use arrow::array::Float64Array;
use arrow::datatypes::{DataType, Field, Schema};
use proptest::prelude::*;

use super::*;
use crate::testing::batch;

const TYPES: [ColumnType; 8] = [
    ColumnType::Bool,
    ColumnType::Int16,
    ColumnType::Int64,
    ColumnType::Float64,
    ColumnType::Text,
    ColumnType::Binary,
    ColumnType::Time,
    ColumnType::Uint64,
];

/// Returns one column of a type, with nulls where `valid` is false; values come from `noise`.
fn array(column_type: ColumnType, noise: &[(u64, String)], valid: &[bool]) -> ArrayRef {
    let values = || noise.iter().zip(valid.iter().cycle());
    macro_rules! of {
        ($array:ty, $value:expr) => {
            Arc::new(<$array>::from_iter(
                values().map(|(n, valid)| valid.then(|| $value(n))),
            ))
        };
    }
    type Noise = (u64, String);
    match column_type {
        ColumnType::Bool => of!(BooleanArray, |n: &Noise| n.0.is_multiple_of(2)),
        ColumnType::Int16 => of!(PrimitiveArray<Int16Type>, |n: &Noise| n.0 as i16),
        ColumnType::Int64 => of!(Int64Array, |n: &Noise| n.0 as i64),
        // Use any bits but those of a NaN, which equals nothing.
        ColumnType::Float64 => of!(Float64Array, |n: &Noise| {
            let float = f64::from_bits(n.0);
            if float.is_nan() { 0.5 } else { float }
        }),
        ColumnType::Text => {
            let texts = values().map(|(n, valid)| valid.then(|| n.1.clone()));
            Arc::new(StringArray::from_iter(texts))
        }
        ColumnType::Binary => {
            let bytes = values().map(|(n, valid)| valid.then(|| n.0.to_le_bytes().to_vec()));
            Arc::new(BinaryArray::from_iter(bytes))
        }
        ColumnType::Time => {
            let times: TimestampMicrosecondArray = values()
                .map(|(n, valid)| valid.then(|| n.0 as i64))
                .collect();
            Arc::new(times.with_timezone("UTC"))
        }
        ColumnType::Uint64 => of!(PrimitiveArray<UInt64Type>, |n: &Noise| n.0),
    }
}

prop_compose! {
    /// Events of random columns, cut out of longer arrays so that they begin anywhere in their
    /// buffers.
    fn events()(
        rows in 0..40_usize,
        before in 0..20_usize,
        after in 0..20_usize,
    )(
        noise in proptest::collection::vec((any::<u64>(), ".{0,12}"), before + rows + after),
        types in proptest::collection::vec((0..TYPES.len(), any::<[bool; 7]>(), any::<bool>()), 0..9),
        rows in Just(rows),
        before in Just(before),
    ) -> RecordBatch {
        let time = array(ColumnType::Time, &noise, &[true]);
        let mut fields = vec![Field::new(TIME, ColumnType::Time.arrow(), false)];
        let mut columns = vec![time];
        for (i, (column_type, valid, has_nulls)) in types.iter().enumerate() {
            let column_type = TYPES[*column_type];
            let valid: &[bool] = if *has_nulls { valid } else { &[true] };
            fields.push(Field::new(format!("c{i}.é"), column_type.arrow(), true));
            columns.push(array(column_type, &noise, valid));
        }
        let whole = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("fits");
        whole.slice(before, rows)
    }
}

fn identity() -> impl Strategy<Value = Option<Identity>> {
    let range =
        (".{0,30}", any::<(u64, u64, u64)>()).prop_map(|(producer, (from, to, content))| {
            Some(Identity::Range {
                producer,
                from,
                to,
                content,
            })
        });
    let key = (".{0,30}", any::<u64>())
        .prop_map(|(key, body_hash)| Some(Identity::Key { key, body_hash }));
    prop_oneof![Just(None), range, key]
}

/// Returns the identity of a batch of `events` that were replayed, or of one that discards items.
fn settles(events: u64, seed: u64) -> Identity {
    let (count, how) = match events {
        0 => (3, Settlement::Dropped),
        some => (some, Settlement::Replayed),
    };
    let items = Ranges::of((0..count).map(|n| seed / 2 + n + n / 3));
    Identity::Settles { items, how }
}

prop_compose! {
    fn any_batch()(
        events in events(),
        identity in identity(),
        settling in proptest::bool::weighted(0.2),
        marks in proptest::collection::vec(any::<bool>(), 0..40),
        raw in proptest::collection::vec(any::<u8>(), 0..60),
        text in ".{0,20}",
        numbers in any::<(u64, u64, u64)>(),
        received_us in any::<i64>(),
        kind in prop_oneof![Just(StreamKind::Access), Just(StreamKind::Documents)],
    ) -> Batch {
        // A batch that resolves items has as many events, and no quarantined item.
        let identity = settling.then(|| settles(events.num_rows() as u64, numbers.0)).or(identity);
        let marks = if settling { Vec::new() } else { marks };
        // At most as many quarantined items as marks, at any ranks among the events.
        let mut ranks: Vec<u32> = Vec::new();
        let mut left = events.num_rows();
        for (rank, quarantined) in (0..).zip(marks) {
            if quarantined || left == 0 {
                ranks.push(rank);
            } else {
                left -= 1;
            }
        }
        let quarantine = ranks
            .into_iter()
            .map(|rank| Quarantined {
                rank,
                index: numbers.0,
                reason: "bad_time",
                detail: text.clone(),
                line: numbers.1,
                byte: numbers.2,
                raw: raw.clone(),
                event: None,
            })
            .collect();
        let stream = Name::new("some_stream").expect("a name");
        let source = text.as_str().into();
        Batch { stream, kind, received_us, source, events, quarantine, identity }
    }
}

fn assert_same(found: &Record, expected: &Record) {
    assert_eq!(found.stream, expected.stream);
    assert_eq!(found.kind, expected.kind);
    assert_eq!(found.received_us, expected.received_us);
    assert_eq!(found.source, expected.source);
    assert_eq!(found.identity, expected.identity);
    assert_eq!(found.ranks, expected.ranks);
    assert_eq!(found.events, expected.events);
    assert_eq!(found.quarantine, expected.quarantine);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_record_comes_back_as_it_was(batch in any_batch()) {
        batch.validate().expect("a good batch");
        let record = Record::of(batch.clone());
        let bytes = record.encode();
        let back = Record::decode(&bytes).expect("decodes");
        assert_same(&back, &record);
        prop_assert_eq!(back.encode(), bytes, "one record has one encoding");
        for (i, item) in batch.quarantine.iter().enumerate() {
            let raw = back.quarantine.column_by_name("raw").expect("there");
            prop_assert_eq!(raw.as_binary::<i32>().value(i), &item.raw[..]);
            let time = back.quarantine.column_by_name(TIME).expect("there");
            let time = time.as_primitive::<TimestampMicrosecondType>().value(i);
            prop_assert_eq!(time, batch.received_us);
        }
    }

    #[test]
    fn sequence_numbers_are_disjoint_and_complete(batch in any_batch(), first in 0..1_u64 << 48) {
        let record = Record::of(batch);
        let (events, quarantined) = record.sequence(first);
        prop_assert_eq!(events.len(), record.events.num_rows());
        prop_assert_eq!(quarantined.len(), record.ranks.len());
        prop_assert!(events.is_sorted_by(|a, b| a < b));
        let all: BTreeSet<u64> = events.iter().chain(&quarantined).copied().collect();
        prop_assert_eq!(all, (first..first + record.items()).collect::<BTreeSet<u64>>());
        let ranks: Vec<u64> = quarantined.iter().map(|seq| seq - first).collect();
        let expected: Vec<u64> = record.ranks.iter().map(|r| u64::from(*r)).collect();
        prop_assert_eq!(ranks, expected);
    }

    #[test]
    fn a_cut_record_is_refused(batch in any_batch(), at in any::<prop::sample::Index>()) {
        let bytes = Record::of(batch).encode();
        prop_assert!(Record::decode(&bytes[..at.index(bytes.len())]).is_err());
        let mut longer = bytes;
        longer.push(0);
        prop_assert!(Record::decode(&longer).is_err());
    }

    #[test]
    fn damaged_bytes_never_make_the_decoder_panic(
        batch in any_batch(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = Record::of(batch).encode();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        // A damaged record that still decodes can be added to the memtable.
        if let Ok(record) = Record::decode(&bytes) {
            let (events, quarantined) = record.sequence(0);
            if !events.is_empty() {
                crate::memtable::Chunk::new(&record.events, events).expect("a chunk");
            }
            if !quarantined.is_empty() {
                crate::memtable::Chunk::new(&record.quarantine, quarantined).expect("a chunk");
            }
        }
    }

    #[test]
    fn random_bytes_never_make_the_decoder_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
        kind in 0..4_u8,
    ) {
        let _outcome = Record::decode(&bytes);
        // Try again with a beginning that passes the first checks.
        let mut head = vec![LAYOUT, kind];
        head.extend_from_slice(&[3, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 1, 0, b's', 0, 0, 0, 0]);
        head.append(&mut bytes);
        prop_assert!(Record::decode(&head).is_err());
    }
}

#[test]
fn a_huge_row_count_is_refused_before_anything_is_reserved() {
    let mut bytes = Record::of(batch(&[1, 2], &[], None)).encode();
    bytes[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Record::decode(&bytes).is_err());
    // A record is refused also when no column shows the count.
    let empty = Schema::empty();
    let none = RecordBatchOptions::new().with_row_count(Some(0));
    let events = RecordBatch::try_new_with_options(Arc::new(empty), vec![], &none).expect("empty");
    let mut bytes = Record::of(Batch {
        events,
        ..batch(&[], &[], None)
    })
    .encode();
    assert!(Record::decode(&bytes).is_ok());
    bytes[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Record::decode(&bytes).is_err());
}

#[test]
fn ranks_that_do_not_rise_are_refused() {
    let record = Record {
        ranks: vec![2, 1],
        ..Record::of(batch(&[1, 2], &[1, 2], None))
    };
    assert!(Record::decode(&record.encode()).is_err());
    let record = Record {
        ranks: vec![1, 4],
        ..Record::of(batch(&[1, 2], &[1, 2], None))
    };
    assert!(Record::decode(&record.encode()).is_err());
}

#[test]
fn a_batch_that_would_break_the_store_is_refused() {
    let good = batch(&[1, 2], &[1], None);
    let with = |name: &str, data_type: DataType| {
        let field = Field::new(name, data_type, true);
        let column = arrow::array::new_null_array(field.data_type(), 2);
        let schema = good.events.schema();
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        fields.push(Arc::new(field));
        let mut columns = good.events.columns().to_vec();
        columns.push(column);
        let events = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("fits");
        Batch {
            events,
            ..good.clone()
        }
    };
    good.validate().expect("good");
    with("other", DataType::Utf8).validate().expect("good");
    let long = "x".repeat(1 << 16);
    for (name, data_type) in [
        (SEQ, DataType::UInt64),
        ("host", DataType::Utf8),
        ("a\0b", DataType::Utf8),
        (long.as_str(), DataType::Utf8),
        ("other", DataType::LargeUtf8),
        (crate::model::REST, DataType::Utf8),
    ] {
        assert!(with(name, data_type).validate().is_err(), "{name:.20}");
    }
    let empty = with("other", DataType::Utf8).events.slice(0, 0);
    let time_as_text = RecordBatch::try_new(
        Arc::new(Schema::new(vec![Field::new(TIME, DataType::Utf8, true)])),
        vec![Arc::clone(empty.column(3))],
    );
    let events = time_as_text.expect("fits");
    let wrong = Batch {
        events,
        quarantine: vec![],
        ..good.clone()
    };
    assert!(
        wrong.validate().is_err(),
        "the type of a time holds without rows too"
    );
    let quarantine = Name::new(crate::model::QUARANTINE).expect("a name");
    assert!(
        Batch {
            stream: quarantine,
            ..good
        }
        .validate()
        .is_err()
    );
}
