//! Lookups return the rows that a scan finds, and a damaged index returns no wrong row.

use std::sync::Arc;

use arrow::array::{
    Array, AsArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Int64Type, UInt64Type};
use proptest::prelude::*;

use super::*;
use crate::concern::WriteConcern;
use crate::model::{Batch, Column, arrow_schema};
use crate::part::read_part;
use crate::store::Store;
use crate::testing::{FaultFs, batch, options};

const DAY_US: i64 = 86_400_000_000;

/// Day, text and number of a row.
type Row = (i64, Option<String>, Option<i64>);

/// Makes a store with these rows in parts, each indexed by `text` and `number`.
fn indexed(seals: &[Vec<Row>]) -> (tempfile::TempDir, Store) {
    indexed_as(seals, IndexKind::Inverted)
}

fn indexed_as(seals: &[Vec<Row>], kind: IndexKind) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut of = options(&FaultFs::default());
    of.config.index_rows_min = 1;
    of.config.tends = false;
    let store = Store::open(dir.path(), of).expect("opens");
    for rows in seals {
        let written = store.write(events(rows), WriteConcern::ACKNOWLEDGED);
        written.expect("taken");
        store.seal().expect("seals");
    }
    for field in ["text", "number"] {
        store.create_index(&name(), field, kind).expect("suits");
    }
    store.build_indexes().expect("builds");
    (dir, store)
}

fn name() -> Name {
    Name::new("events").expect("a name")
}

fn events(rows: &[Row]) -> Batch {
    let columns = [
        Column::new(TIME, ColumnType::Time),
        Column::new("text", ColumnType::Text),
        Column::new("number", ColumnType::Int64),
    ];
    let times: Vec<i64> = (0..).zip(rows).map(|(n, r)| r.0 * DAY_US + n).collect();
    let texts = rows.iter().map(|r| r.1.clone());
    let numbers = rows.iter().map(|r| r.2);
    let events = RecordBatch::try_new(
        arrow_schema(&columns),
        vec![
            Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")),
            Arc::new(texts.collect::<StringArray>()),
            Arc::new(numbers.collect::<Int64Array>()),
        ],
    );
    Batch {
        events: events.expect("columns fit"),
        ..batch(&[], &[], None)
    }
}

/// Returns the values of a part's column row by row, from a scan.
fn scanned(snapshot: &Snapshot, part: &PartMeta, field: &str) -> Vec<Option<IndexValue>> {
    let bytes = snapshot.read(&part.file).expect("read");
    let batches = read_part(bytes, Some(&[field])).expect("a part");
    let mut values = Vec::new();
    for batch in batches {
        match batch.column_by_name(field) {
            None => values.extend(vec![None; batch.num_rows()]),
            Some(column) => match column.as_string_opt::<i32>() {
                Some(texts) => {
                    values.extend(texts.iter().map(|t| Some(IndexValue::Text(t?.to_owned()))));
                }
                None => {
                    let numbers = column.as_primitive::<Int64Type>().iter();
                    values.extend(numbers.map(|n| Some(IndexValue::Integer(n?))));
                }
            },
        }
    }
    values
}

fn rows_with(scanned: &[Option<IndexValue>], wanted: &[IndexValue]) -> Vec<u32> {
    let rows = (0..).zip(scanned);
    let with = rows.filter(|(_, value)| value.as_ref().is_some_and(|v| wanted.contains(v)));
    with.map(|(row, _)| row).collect()
}

/// Looks up every value of every part, and one that no row has, alone and in pairs.
fn compare(store: &Store) {
    let snapshot = store.snapshot();
    for part in &snapshot.manifest.parts {
        for field in ["text", "number"] {
            let found = PartIndex::open(&snapshot, part, field).expect("sound");
            let index = found.expect("it is indexed");
            let scanned = scanned(&snapshot, part, field);
            assert_eq!(scanned.len() as u64, part.rows);
            let absent = match field {
                "text" => IndexValue::Text("no such text".into()),
                _ => IndexValue::Integer(-77),
            };
            let mut values: Vec<IndexValue> = scanned.iter().flatten().cloned().collect();
            values.dedup();
            values.push(absent);
            for pair in values.windows(2.min(values.len())) {
                for wanted in [&pair[..1], pair] {
                    let expected = rows_with(&scanned, wanted);
                    match index.rows(&snapshot, wanted).expect("sound") {
                        Some(IndexedRows::These(rows)) => assert_eq!(rows, expected, "{wanted:?}"),
                        Some(IndexedRows::Many) => {
                            assert!(expected.len() * 8 > scanned.len(), "{wanted:?}");
                        }
                        None => panic!("it is there"),
                    }
                }
            }
        }
    }
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(String::new())),
        4 => (0..5u8).prop_map(|n| Some(format!("/page-{n}"))),
        3 => (0..10_000u32).prop_map(|n| Some(format!("/seldom/{n}"))),
        1 => (0..3usize).prop_map(|n| Some("long ".repeat(4_000 + n))),
        2 => "\\PC{0,6}".prop_map(Some),
    ]
}

fn number() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![
        1 => Just(None),
        3 => (200..600i64).prop_map(Some),
        1 => any::<i64>().prop_map(Some),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn rows_by_index_are_rows_by_scan(
        seals in prop::collection::vec(
            prop::collection::vec((0..3i64, text(), number()), 1..200),
            1..4,
        ),
    ) {
        let (_dir, store) = indexed(&seals);
        prop_assert!(!store.snapshot().manifest.parts.is_empty());
        compare(&store);
    }
}

/// Checks that the covering indexes of each part hold its rows, each once and unchanged, in the
/// order of their column.
fn compare_covering(store: &Store) {
    let snapshot = store.snapshot();
    for part in &snapshot.manifest.parts {
        let mut rows = rows_of(&snapshot, &part.file);
        rows.sort_unstable_by_key(|(_, _, seq)| *seq);
        for field in ["text", "number"] {
            let index = CoveringIndex::open(&snapshot, part, field).expect("sound");
            let index = index.expect("it is there");
            let mut covering = rows_of(&snapshot, index.file());
            let is_ordered = match field {
                "text" => covering.is_sorted_by(|a, b| a.0 <= b.0),
                _ => covering.is_sorted_by(|a, b| a.1 <= b.1),
            };
            assert!(is_ordered, "by {field}");
            covering.sort_unstable_by_key(|(_, _, seq)| *seq);
            assert_eq!(covering, rows);
            let len = index.file().len;
            let all = index
                .read(&snapshot)
                .read_ranges(std::slice::from_ref(&(0..len)))
                .expect("checked");
            let file = snapshot.data.join(&index.file().path);
            assert_eq!(all[0], std::fs::read(file).expect("there"));
        }
    }
}

/// Returns (text, number, `_seq`) of each row of a file.
fn rows_of(
    snapshot: &Snapshot,
    file: &crate::file::FileRef,
) -> Vec<(Option<String>, Option<i64>, u64)> {
    let bytes = file
        .read(&*snapshot.fs, &snapshot.data)
        .expect("as it was written");
    let mut rows = Vec::new();
    for batch in read_part(bytes, None).expect("a part") {
        let texts = batch.column_by_name("text").map(|c| c.as_string::<i32>());
        let numbers = batch
            .column_by_name("number")
            .map(|c| c.as_primitive::<Int64Type>());
        let seqs = batch
            .column_by_name(SEQ)
            .expect("always")
            .as_primitive::<UInt64Type>();
        for row in 0..batch.num_rows() {
            let text = texts
                .filter(|t| t.is_valid(row))
                .map(|t| t.value(row).to_owned());
            let number = numbers.filter(|n| n.is_valid(row)).map(|n| n.value(row));
            rows.push((text, number, seqs.value(row)));
        }
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_covering_index_has_the_rows_of_its_part(
        seals in prop::collection::vec(
            prop::collection::vec((0..3i64, text(), number()), 1..200),
            1..4,
        ),
    ) {
        let (_dir, store) = indexed_as(&seals, IndexKind::Covering);
        prop_assert!(!store.snapshot().manifest.parts.is_empty());
        compare_covering(&store);
    }
}

#[test]
fn a_covering_index_of_more_rows_than_are_sorted_at_a_time_is_merged_of_pieces() {
    let row = |n: i64| (0, Some(format!("/{}", n * 7919 % 1009)), Some(n % 13));
    let (dir, store) = indexed_as(&[(0..300_000).map(row).collect()], IndexKind::Covering);
    compare_covering(&store);
    let making = dir.path().join("indexes/.making");
    assert_eq!(std::fs::read_dir(making).expect("a folder").count(), 0);
}

#[test]
fn a_covering_index_that_is_cut_changed_or_gone_is_none() {
    let rows = (0..40)
        .map(|n| (0, Some(format!("{n}")), Some(n)))
        .collect();
    let (_dir, store) = indexed_as(&[rows], IndexKind::Covering);
    let snapshot = store.snapshot();
    let part = &snapshot.manifest.parts[0];
    let open = || CoveringIndex::open(&snapshot, part, "text");
    let held = open().expect("sound").expect("there");
    let path = |ending| snapshot.data.join(at(part, "text", ending));
    let names = std::fs::read(path("covering")).expect("there");
    for n in 0..names.len() {
        let mut changed = names.clone();
        changed[n] ^= 4;
        std::fs::write(path("covering"), &changed).expect("written");
        assert!(open().is_err(), "byte {n}");
        std::fs::write(path("covering"), &names[..n]).expect("written");
        assert!(open().is_err(), "{n} bytes");
    }
    // The index of another column is refused.
    let other = snapshot.data.join(at(part, "number", "covering"));
    std::fs::copy(other, path("covering")).expect("copied");
    assert!(open().is_err());
    std::fs::write(path("covering"), &names).expect("written");
    let rows = std::fs::read(path("rows")).expect("there");
    std::fs::write(path("rows"), &rows[1..]).expect("written");
    assert!(open().is_err());
    std::fs::remove_file(path("rows")).expect("removed");
    assert!(open().expect("none").is_none());
    drop(held);
    // A reader that holds the index reads it after its removal, and gets an error when it
    // changed.
    std::fs::write(path("rows"), &rows).expect("written");
    let held = open().expect("sound").expect("there");
    let mut changed = rows.clone();
    changed[rows.len() / 2] ^= 1;
    let whole = 0..held.file().len;
    std::fs::write(path("rows"), &changed).expect("written");
    held.read(&snapshot)
        .read_ranges(std::slice::from_ref(&whole))
        .expect_err("changed");
    std::fs::write(path("rows"), &rows).expect("written");
    std::fs::remove_file(path("rows")).expect("removed");
    held.read(&snapshot).read_ranges(&[whole]).expect("held");
}

/// Returns so many rows that an index has several blocks, one of them filled by a single list.
fn many() -> Vec<Row> {
    let row = |n: i64| {
        let text = match n % 9 {
            0 => "often".to_owned(),
            _ => format!("/once/{n}"),
        };
        (0, Some(text), (n % 3 != 0).then_some(n * n % 1000))
    };
    (0..60_000).map(row).collect()
}

#[test]
fn an_index_of_many_blocks_knows_every_value() {
    let (_dir, store) = indexed(&[many()]);
    let snapshot = store.snapshot();
    let part = &snapshot.manifest.parts[0];
    let index = PartIndex::open(&snapshot, part, "text").expect("sound");
    let index = index.expect("it is indexed");
    let scanned = scanned(&snapshot, part, "text");
    for row in (0..60_000).step_by(97).chain(0..200) {
        let wanted = [scanned[row].clone().expect("a text")];
        let found = index.rows(&snapshot, &wanted).expect("sound");
        assert_eq!(
            found,
            Some(IndexedRows::These(rows_with(&scanned, &wanted)))
        );
    }
    // The head in memory is small beside the file.
    let bytes = std::fs::metadata(snapshot.data.join(at(part, "text", "index"))).expect("there");
    assert!(index.memory_bytes() * 200 < usize::try_from(bytes.len()).expect("small"));
}

/// Checks that a changed index returns the right rows, an error, or no list of rows.
fn is_true(
    snapshot: &Snapshot,
    part: &PartMeta,
    scanned: &[Option<IndexValue>],
    row: usize,
) -> bool {
    let wanted = [scanned[row]
        .clone()
        .unwrap_or(IndexValue::Text("none has it".into()))];
    let said = PartIndex::open(snapshot, part, "text")
        .and_then(|index| index.map_or(Ok(None), |index| index.rows(snapshot, &wanted)));
    match said {
        Err(Error::Corrupt { .. }) | Ok(None | Some(IndexedRows::Many)) => true,
        Err(other) => panic!("{other}"),
        Ok(Some(IndexedRows::These(rows))) => rows == rows_with(scanned, &wanted),
    }
}

#[test]
fn a_changed_index_is_no_index() {
    let rows: Vec<Row> = (0..60)
        .map(|n| (0, (n % 7 != 0).then(|| format!("t{}", n % 23)), Some(n)))
        .collect();
    let (_dir, store) = indexed(&[rows, many()]);
    let snapshot = store.snapshot();
    let [small, large] = &snapshot.manifest.parts[..] else {
        panic!("two parts");
    };
    for (part, all) in [(small, true), (large, false)] {
        let path = snapshot.data.join(at(part, "text", "index"));
        let scanned = scanned(&snapshot, part, "text");
        let whole = std::fs::read(&path).expect("there");
        let mut random = crate::sim::Random::new(7);
        let rounds = if all { whole.len() as u64 } else { 40 };
        let mut found = 0;
        for round in 0..rounds {
            let at = match all {
                true => usize::try_from(round).expect("small"),
                false => usize::try_from(random.below(whole.len() as u64)).expect("small"),
            };
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                std::fs::write(&path, &bytes).expect("written");
                let row = usize::try_from(random.below(part.rows)).expect("small");
                assert!(
                    is_true(&snapshot, part, &scanned, row),
                    "byte {at} bit {bit}"
                );
                found += u32::from(PartIndex::open(&snapshot, part, "text").is_err());
            }
            std::fs::write(&path, &whole[..at]).expect("written");
            assert!(
                PartIndex::open(&snapshot, part, "text").is_err(),
                "{at} bytes"
            );
        }
        // A large index has few bytes of head, so the changed ones may all be elsewhere.
        assert!(found > 0 || !all);
    }
}

#[test]
fn the_index_of_another_part_or_column_is_no_index() {
    let rows: Vec<Row> = (0..40)
        .map(|n| (n % 2, Some(format!("{n}")), Some(n)))
        .collect();
    let (_dir, store) = indexed(&[rows]);
    let snapshot = store.snapshot();
    let [one, two] = &snapshot.manifest.parts[..] else {
        panic!("two parts");
    };
    let path = |part, field| snapshot.data.join(at(part, field, "index"));
    for from in [path(one, "text"), path(two, "number")] {
        std::fs::copy(from, path(two, "text")).expect("copied");
        let error = PartIndex::open(&snapshot, two, "text").expect_err("another");
        assert!(
            error.to_string().contains("another part or column"),
            "{error}"
        );
    }
    // A number is looked up in a text column: the scan decides what that means.
    let index = PartIndex::open(&snapshot, one, "text").expect("sound");
    let found = index
        .expect("there")
        .rows(&snapshot, &[IndexValue::Integer(1)]);
    assert_eq!(found.expect("sound"), None);
}

#[test]
fn folders_have_names_that_every_disk_takes() {
    let long = "a.b/".repeat(100);
    let names = [
        "path",
        "a.b",
        "a/b",
        "..",
        "",
        "Ä",
        "%2e",
        &long,
        &format!("{long}c"),
    ];
    let folders: BTreeSet<String> = names.iter().map(|field| folder(&name(), field)).collect();
    assert_eq!(folders.len(), names.len());
    for folder in &folders {
        let last = folder.strip_prefix("indexes/events/").expect("its stream");
        assert!(last.len() <= 255 && !last.contains(['/', '.']), "{last}");
    }
    assert!(folders.contains("indexes/events/path"));
}
