//! Tests of columns that are added and changed, in journal order, when writing and in recovery.

use std::path::Path;

use arrow::array::{
    BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray,
};

use super::*;
use crate::concern::WriteConcern;
use crate::env::ManualClock;
use crate::model::{Batch, Name};
use crate::sim::SimFs;
use crate::store::{Config, Options, Store};

/// First integer that no float represents.
const WIDE: i64 = (1 << 53) + 1;

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn events(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let rows = columns.first().map_or(1, |c| c.1.len());
    let times = TimestampMicrosecondArray::from(vec![0; rows]).with_timezone("UTC");
    let time: (&str, ArrayRef) = (TIME, Arc::new(times));
    RecordBatch::try_from_iter_with_nullable(
        std::iter::once(time)
            .chain(columns.iter().cloned())
            .map(|(name, array)| (name, array, name != TIME)),
    )
    .expect("a batch")
}

fn batch(events: RecordBatch, kind: StreamKind, received_us: i64) -> Batch {
    Batch {
        stream: Name::new("events").expect("a name"),
        kind,
        received_us,
        source: "test".into(),
        events,
        quarantine: Vec::new(),
        identity: None,
    }
}

/// A stream with the records that shaped it.
struct Stream {
    meta: StreamMeta,
    records: Vec<Record>,
}

impl Stream {
    fn new(kind: StreamKind) -> Self {
        let name = Name::new("events").expect("a name");
        Self {
            meta: Config::default().stream_meta(&name, kind, 0),
            records: Vec::new(),
        }
    }

    /// Returns the events after some columns were written to the stream.
    fn take(&mut self, columns: &[(&str, ArrayRef)], columns_max: usize) -> RecordBatch {
        let at = self.records.len() as i64;
        let mut record = Record::of(batch(events(columns), self.meta.kind, at));
        let fitted = fit(&self.meta, &record, columns_max).expect("columns that fit");
        if let Some(columns) = fitted.columns {
            self.meta.columns = columns;
        }
        if let Some(events) = fitted.events {
            record.events = events;
        }
        let events = record.events.clone();
        self.records.push(record);
        events
    }

    fn column(&self, name: &str) -> Option<(ColumnType, bool)> {
        let column = self.meta.columns.iter().find(|c| &*c.name == name)?;
        Some((column.column_type, column.wide))
    }
}

impl Drop for Stream {
    /// Checks that the stream's records need no further change, and that replaying them from the
    /// beginning results in the same stream.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let before = self.meta.clone();
        let mut again = Self::new(self.meta.kind);
        for record in &self.records {
            for meta in [&mut self.meta, &mut again.meta] {
                let moved = reconcile(meta, record).expect("columns that fit");
                assert_eq!(moved, None, "a record is moved twice");
            }
        }
        assert_eq!(self.meta, before, "after a seal's edit");
        assert_eq!(again.meta, before, "from the beginning");
        std::mem::take(&mut again.records);
        std::mem::forget(again);
    }
}

fn rest(events: &RecordBatch, row: usize) -> Document {
    documents_of(events).remove(row).unwrap_or_default()
}

#[test]
fn integers_become_floats_when_a_float_comes() {
    let mut stream = Stream::new(StreamKind::Documents);
    stream.take(&[("n", integers(&[1, 1 << 53]))], 9);
    assert_eq!(stream.column("n"), Some((ColumnType::Int64, false)));
    let taken = stream.take(&[("n", floats(&[1.5]))], 9);
    assert_eq!(stream.column("n"), Some((ColumnType::Float64, false)));
    assert_eq!(taken.column_by_name(REST), None);
    // A parser with an older schema sends integers: they are read as floats if floats can hold
    // them.
    let taken = stream.take(&[("n", integers(&[7, WIDE, -WIDE]))], 9);
    let kept = taken.column_by_name("n").expect("a column");
    assert_eq!(**kept, Int64Array::from(vec![Some(7), None, None]));
    assert_eq!(rest(&taken, 0), Document::new());
    assert_eq!(rest(&taken, 1).get("n"), Some(&Bson::Int64(WIDE)));
    assert_eq!(rest(&taken, 2).get("n"), Some(&Bson::Int64(-WIDE)));
}

#[test]
fn a_column_with_an_integer_that_no_float_holds_stays_one_of_integers() {
    for wide in [WIDE, -WIDE, i64::MAX, i64::MIN] {
        let mut stream = Stream::new(StreamKind::Documents);
        stream.take(&[("n", integers(&[1]))], 9);
        stream.take(&[("n", integers(&[wide]))], 9);
        let taken = stream.take(&[("n", floats(&[1.5, 2.0]))], 9);
        assert_eq!(stream.column("n"), Some((ColumnType::Int64, true)));
        assert_eq!(taken.column_by_name("n"), None);
        assert_eq!(rest(&taken, 0).get("n"), Some(&Bson::Double(1.5)));
        assert_eq!(rest(&taken, 1).get("n"), Some(&Bson::Double(2.0)));
    }
}

#[test]
fn the_columns_of_an_access_log_keep_their_types() {
    let mut stream = Stream::new(StreamKind::Access);
    let columns = [
        ("response_size", floats(&[1.5])),
        ("status", integers(&[9])),
    ];
    let taken = stream.take(&columns, 99);
    assert_eq!(
        rest(&taken, 0).get("response_size"),
        Some(&Bson::Double(1.5))
    );
    assert_eq!(rest(&taken, 0).get("status"), Some(&Bson::Int64(9)));
    let size = stream.column("response_size");
    assert_eq!(size, Some((ColumnType::Int64, false)));
    assert!(
        stream.meta.schema().iter().all(|c| c.wide),
        "nor do parsers"
    );
}

#[test]
fn a_text_among_numbers_keeps_its_type_and_its_own_rest() {
    let mut stream = Stream::new(StreamKind::Documents);
    stream.take(&[("n", integers(&[1])), ("t", texts(&["a"]))], 9);
    let before = bson::doc! { "other": [1, 2] }.to_vec().expect("a document");
    let known: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&before]));
    let truth: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    let taken = stream.take(&[("n", texts(&["x"])), ("t", truth), (REST, known)], 9);
    let wanted = bson::doc! { "other": [1, 2], "n": "x", "t": true };
    assert_eq!(rest(&taken, 0), wanted);
}

#[test]
fn the_limit_of_columns_holds_whoever_parsed_the_batches() {
    let mut stream = Stream::new(StreamKind::Documents);
    stream.take(&[("a", integers(&[1])), (ID, texts(&["x"]))], 2);
    // Both parsers knew one column and space for one more.
    stream.take(
        &[("b", integers(&[2])), (TIME_SOURCE, texts(&["received"]))],
        2,
    );
    let taken = stream.take(&[("c", integers(&[3])), ("b", floats(&[0.5]))], 2);
    assert_eq!(rest(&taken, 0), bson::doc! { "c": 3_i64 });
    let names: Vec<&str> = stream.meta.columns.iter().map(|c| &*c.name).collect();
    assert_eq!(names, [TIME, "a", ID, "b", TIME_SOURCE, REST]);
    assert_eq!(stream.meta.columns[3].first_us, Some(1));
}

#[test]
fn instants_and_large_counters_keep_every_digit_in_rest() {
    let us = 971_211_336_123_456;
    let time: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![us, us - 456]).with_timezone("UTC"));
    let mut stream = Stream::new(StreamKind::Documents);
    stream.take(&[("t", integers(&[1]))], 9);
    let taken = stream.take(&[("t", time)], 9);
    let text = "2000-10-10T20:55:36.123456Z";
    assert_eq!(rest(&taken, 0).get("t"), Some(&Bson::String(text.into())));
    let date = bson::DateTime::from_millis((us - 456) / 1000);
    assert_eq!(rest(&taken, 1).get("t"), Some(&Bson::DateTime(date)));
    assert_eq!(unsigned(u64::MAX).to_string(), "18446744073709551615");
}

fn open(fs: &SimFs) -> Store {
    let options = Options {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(0)),
        config: Config {
            columns_max: 40,
            lag_us: 1 << 50,
            tends: false,
            ..Config::default()
        },
        ..Options::default()
    };
    Store::open(Path::new("/data"), options).expect("opens")
}

/// Connections that all began before they knew the others' columns: each adds its own.
#[test]
fn many_connections_at_once_bring_no_more_columns_than_there_may_be() {
    let fs = SimFs::new();
    let store = open(&fs);
    std::thread::scope(|scope| {
        for writer in 0..4_i64 {
            let store = &store;
            scope.spawn(move || {
                for nth in 0..25 {
                    let name = format!("field{}", (nth * 4 + writer) % 60);
                    let value = match (writer + nth) % 3 {
                        0 => integers(&[nth]),
                        1 => floats(&[0.5]),
                        _ => integers(&[WIDE + nth]),
                    };
                    let events = events(&[(&name, value)]);
                    let batch = batch(events, StreamKind::Documents, nth);
                    let ack = store.write(batch, WriteConcern::ACKNOWLEDGED);
                    assert_eq!(ack.expect("acknowledged").accepted, 1);
                    if nth == 12 && writer == 0 {
                        store.seal().expect("seals");
                    }
                }
            });
        }
    });
    let columns = |store: &Store| store.snapshot().streams()["events"].columns.clone();
    let live = columns(&store);
    assert_eq!(counted(&live), 40);
    // The process ends abruptly.
    let fs = fs.kill();
    drop(store);
    let store = open(&fs);
    assert_eq!(columns(&store), live, "recovery makes the same columns");
    store.seal().expect("seals");
    let sealed = store.snapshot();
    let values: usize = sealed
        .manifest()
        .parts
        .iter()
        .map(|part| {
            let bytes = sealed.read(&part.file).expect("a part");
            let batches = crate::part::read_part(bytes, None).expect("a part");
            let values = |batch: &RecordBatch| {
                let columns = batch
                    .schema()
                    .fields()
                    .iter()
                    .zip(batch.columns())
                    .map(|(f, a)| {
                        let counts = f.name().starts_with("field");
                        if counts { a.len() - a.null_count() } else { 0 }
                    })
                    .sum::<usize>();
                let rest = documents_of(batch);
                columns + rest.iter().flatten().map(Document::len).sum::<usize>()
            };
            batches.iter().map(values).sum::<usize>()
        })
        .sum();
    assert_eq!(values, 100, "every event has its value in one place");
}

/// The records all have one shape: only their values differ.
#[test]
fn recovery_remembers_an_integer_that_no_float_holds() {
    let fs = SimFs::new();
    let write = |store: &Store, value: ArrayRef| {
        let batch = batch(events(&[("n", value)]), StreamKind::Documents, 0);
        let ack = store.write(batch, WriteConcern::JOURNALED);
        assert_eq!(ack.expect("acknowledged").accepted, 1);
    };
    let store = open(&fs);
    for value in [1, WIDE, 2] {
        write(&store, integers(&[value]));
    }
    let fs = fs.kill();
    drop(store);
    let store = open(&fs);
    write(&store, floats(&[1.5]));
    let column_type = store.snapshot().streams()["events"].column_type("n");
    assert_eq!(column_type, Some(ColumnType::Int64));
    let snapshot = store.snapshot();
    let chunks = snapshot.chunks("events");
    let last = &chunks.last().expect("a chunk").events;
    let row = last.num_rows() - 1;
    assert_eq!(rest(last, row).get("n"), Some(&Bson::Double(1.5)));
}
