//! A column of documents that widens from integers to floats: no rollup over it may change.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use serde_json::{Value, json};
use storage::sim::SimFs;
use storage::{
    Batch, Column, ColumnType, Config as StoreConfig, ManualClock, Name, Options, RollupHook,
    Store, StreamKind, TIME, WriteConcern, arrow_schema,
};

use super::STREAM;
use crate::table::RollupTable;
use crate::{Cascade, CascadeConfig, Definition, Sample, cascade, encode, verify};

/// 2000-10-10T20:55:36Z.
const START_US: i64 = 971_211_336_000_000;
/// The largest integer up to which a float represents every one.
const EXACT: i64 = 1 << 53;

/// Returns a rollup that reads a field in every way in which a rollup can.
fn table() -> Value {
    json!({
        "stream": STREAM,
        "by": [
            "n",
            { "name": "hundreds", "expr": "n / 100" },
            { "name": "text", "expr": "lower(n)" },
        ],
        "measures": {
            "hits": "count", "total": "sum(n)", "least": "min(n)", "most": "max(n)",
            "middle": "mean(n)", "spread": "variance(n)",
            "finer": { "histogram": "n", "digits": 3 },
            "sizes": { "histogram": "n" },
            "different": { "distinct": "n" },
            "five": { "of": "count", "filter": "n = 5" },
            "texts": { "of": "count", "filter": "n = '5' or n like '%7'" },
            "rests": { "of": "count", "filter": "n % 7 = 3 or n in (250, 9007199254740992)" },
            "below": { "of": "count", "filter": "n < 9007199254740993" },
            "decimal": { "of": "count", "filter": "n >= 4.5" },
            "none": { "of": "count", "filter": "n is null" },
        },
    })
}

fn definition() -> Definition {
    let table: RollupTable = serde_json::from_value(table()).expect("a table");
    let name = Name::new("numbers").expect("a name");
    table
        .resolve(&name, StreamKind::Documents)
        .expect("a definition")
}

fn numbers() -> Vec<Option<i64>> {
    let edges = [0, 5, -5, 7, 99, 100, 250, 1_000_000, 123_456_789_012_345];
    let edges = edges
        .into_iter()
        .chain([EXACT - 1, EXACT, 1 - EXACT, -EXACT]);
    edges.map(Some).chain([None]).cycle().take(60).collect()
}

fn events(numbers: &[Option<i64>], first: usize, floats: bool) -> RecordBatch {
    let times = (first..first + numbers.len()).map(|i| START_US + i as i64 * 977_000_000);
    let values: ArrayRef = if floats {
        let values = numbers.iter().map(|n| n.map(|n| n as f64));
        Arc::new(values.collect::<Float64Array>())
    } else {
        Arc::new(numbers.iter().collect::<Int64Array>())
    };
    let number = match floats {
        true => ColumnType::Float64,
        false => ColumnType::Int64,
    };
    let columns = [
        Column::new(TIME, ColumnType::Time),
        Column::new("n", number),
    ];
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    RecordBatch::try_new(arrow_schema(&columns), vec![Arc::new(times), values]).expect("a batch")
}

fn tile(events: &[RecordBatch]) -> Vec<u8> {
    let definition = definition();
    let cells = cascade(&[&definition], events).expect("a cascade");
    encode(&definition, &cells[0]).bytes
}

#[test]
fn an_integer_and_the_float_that_equals_it_make_the_same_bytes() {
    let numbers = numbers();
    let (head, tail) = numbers.split_at(23);
    let integers = tile(&[events(&numbers, 0, false)]);
    assert_eq!(tile(&[events(&numbers, 0, true)]), integers, "floats");
    for floats in [(false, true), (true, false)] {
        let both = [events(head, 0, floats.0), events(tail, 23, floats.1)];
        assert_eq!(tile(&both), integers, "{floats:?}");
    }
}

fn open(fs: &SimFs) -> Store {
    let config = json!({ "rollups": { "numbers": table() } });
    let config: CascadeConfig = serde_json::from_value(config).expect("a configuration");
    let options = Options {
        depot: None,
        journal: None,
        shard: None,
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(START_US)),
        rollup_hook: Arc::new(Cascade::new(config).expect("a cascade")) as Arc<dyn RollupHook>,
        config: StoreConfig {
            lag_us: 1 << 50,
            tends: false,
            ..StoreConfig::default()
        },
        on_poison: None,
    };
    Store::open(Path::new("/data"), options).expect("opens")
}

fn write(store: &Store, events: RecordBatch) {
    let batch = Batch {
        stream: Name::new(STREAM).expect("a name"),
        kind: StreamKind::Documents,
        received_us: START_US,
        source: "test".into(),
        events,
        quarantine: Vec::new(),
        identity: None,
    };
    store
        .write(batch, WriteConcern::JOURNALED)
        .expect("acknowledged");
}

fn assert_verified(store: &Store, when: &str) {
    let snapshot = store.snapshot();
    for meta in &snapshot.manifest().rollups {
        let found = verify(&snapshot, meta, Sample::ALL).expect("verifies");
        assert_eq!(found.differences(), 0, "{when}: {found:?}");
    }
}

fn column_type(store: &Store) -> Option<ColumnType> {
    store.snapshot().streams()[STREAM].column_type("n")
}

/// Returns length and checksum of every tile file; names differ between stores.
fn tiles(store: &Store) -> Vec<(u64, u32)> {
    let snapshot = store.snapshot();
    let files = snapshot.manifest().tiles.iter().flat_map(|t| &t.files);
    let mut files: Vec<(u64, u32)> = files.map(|f| (f.file.len, f.file.crc)).collect();
    files.sort_unstable();
    files
}

#[test]
fn a_column_that_widens_in_the_middle_of_a_history_changes_no_rollup() {
    let numbers = numbers();
    let fs = SimFs::new();
    let store = open(&fs);
    write(&store, events(&numbers[..20], 0, false));
    store.seal().expect("seals");
    write(&store, events(&numbers[20..30], 20, false));
    assert_eq!(column_type(&store), Some(ColumnType::Int64));
    write(&store, events(&numbers[30..45], 30, true));
    assert_eq!(column_type(&store), Some(ColumnType::Float64));
    assert_verified(&store, "integers in a part, both in memory");
    store.seal().expect("seals");
    // A parser with an older schema still sends integers.
    write(&store, events(&numbers[45..], 45, false));
    assert_verified(&store, "both in parts, integers in memory");
    drop(store);
    let store = open(&fs);
    assert_eq!(column_type(&store), Some(ColumnType::Float64));
    assert_verified(&store, "after a new start");
    store.seal().expect("seals");
    assert_verified(&store, "sealed");
    let whole = || store.compact_tiles(false).expect("compacts");
    whole();
    assert_verified(&store, "compacted");
    // Integers and floats become one part of floats.
    let merged = store.compact_parts(None, true).expect("compacts");
    assert_eq!((merged.merged, merged.into), (3, 1));
    assert_verified(&store, "parts compacted");
    let rollup = Name::new("numbers").expect("a name");
    store
        .rebuild(&rollup, (i64::MIN, i64::MAX))
        .expect("rebuilds");
    whole();
    let rebuilt = tiles(&store);
    store
        .rebuild(&rollup, (i64::MIN, i64::MAX))
        .expect("rebuilds");
    whole();
    assert_eq!(tiles(&store), rebuilt);
    assert_verified(&store, "rebuilt");
    // The same history without a float.
    let fs = SimFs::new();
    let plain = open(&fs);
    for (from, to) in [(0, 20), (20, 45), (45, 60)] {
        write(&plain, events(&numbers[from..to], from, false));
        plain.seal().expect("seals");
    }
    plain.compact_tiles(false).expect("compacts");
    plain.compact_parts(None, true).expect("compacts");
    plain
        .rebuild(&rollup, (i64::MIN, i64::MAX))
        .expect("rebuilds");
    plain.compact_tiles(false).expect("compacts");
    assert_eq!(tiles(&plain), rebuilt, "with floats and without");
}
