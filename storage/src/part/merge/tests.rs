//! Tests of merges: a merge of any parts is a sort of all their rows.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::env::RealFs;
use crate::file::FileRef;
use crate::manifest::{Manifest, PartitionWidth};
use crate::model::{ColumnType, Name, TIME};
use crate::part::tests::{Has, Row, chunk, chunks, compare, meta, rows_of};
use crate::part::{PartImage, build, read_part};
use crate::snapshot::Snapshot;

const ALL: Has = [true; 4];

/// Parts in a directory.
struct Parts {
    dir: tempfile::TempDir,
    parts: Vec<PartMeta>,
}

impl Parts {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self {
            dir,
            parts: Vec::new(),
        }
    }

    /// Adds the parts that a seal of these rows writes.
    fn seal(&mut self, meta: &StreamMeta, rows: &[(Vec<Row>, Has)]) {
        let made: Vec<_> = rows.iter().map(|(rows, has)| chunk(rows, *has)).collect();
        for image in build(meta, &made).expect("builds") {
            let id = self.parts.len() as u64;
            let path = format!("{id}.parquet");
            let file = FileRef::write_new(&RealFs, self.dir.path(), path, &image.bytes);
            let name = Name::new("events").expect("a name");
            let file = file.expect("written");
            let part = image.bounds.part(id, &name, image.partition_us, file);
            self.parts.push(part);
        }
    }

    fn open(&self, file: &FileRef) -> CheckedFile {
        let manifest = Manifest::new("0".repeat(32), 0);
        let snapshot = Snapshot::of_manifest(Arc::new(RealFs), self.dir.path(), Arc::new(manifest));
        snapshot.open(file)
    }

    fn merge(&self, meta: &StreamMeta) -> Result<(PartImage, Census), Stop> {
        let inputs = self.parts.iter().map(|p| (p, self.open(&p.file)));
        let mut bytes = Vec::new();
        let merged = merge(meta, inputs.collect(), &[], &mut bytes, &|| Ok(()))?;
        assert_eq!(merged.inputs, self.parts.len(), "all fit into memory");
        let image = PartImage {
            partition_us: 0,
            bytes,
            bounds: merged.bounds,
        };
        Ok((image, merged.census))
    }

    /// Returns the census of some bytes as a file.
    fn census(&self, bytes: &[u8]) -> Census {
        let file = FileRef::write_new(&RealFs, self.dir.path(), "merged".into(), bytes);
        census("merged", self.open(&file.expect("written"))).expect("a part")
    }
}

fn row(seq: u64) -> Row {
    Row {
        time: 1,
        host: None,
        n: None,
        f: None,
        b: None,
        seq,
    }
}

fn columns(image: &PartImage) -> Vec<String> {
    let batches = read_part(image.bytes.clone().into(), None).expect("a part");
    let schema = batches[0].schema();
    schema.fields().iter().map(|f| f.name().clone()).collect()
}

fn order_by() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        Just(vec![TIME]),
        Just(vec!["host", TIME]),
        Just(vec![]),
        Just(vec!["n", "b", "host"]),
        Just(vec!["f"]),
        Just(vec!["b", "n"]),
        Just(vec!["nowhere", "f", "host"]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_merge_is_a_sort_of_all_rows(
        mut chunks in chunks(),
        order_by in order_by(),
        odd in proptest::collection::vec((0..100_usize, prop_oneof![
            Just(f64::NAN), Just(-f64::NAN), Just(-0.0), Just(0.0), Just(f64::NEG_INFINITY),
        ]), 0..8),
    ) {
        // Put all rows into one partition: a month is long enough.
        for (rows, has) in &mut chunks {
            for row in rows.iter_mut() {
                row.time = row.time.rem_euclid(1_000_000_000_000);
            }
            for (at, float) in &odd {
                let at = *at % rows.len();
                rows[at].f = has[2].then_some(*float);
            }
        }
        let meta = meta(PartitionWidth::Month, &order_by);
        let mut parts = Parts::new();
        for chunk in &chunks {
            parts.seal(&meta, std::slice::from_ref(chunk));
        }
        let mut expected: Vec<Row> = chunks.iter().flat_map(|(rows, _)| rows.clone()).collect();
        let all = build(&meta, &chunks.iter().map(|(r, h)| chunk(r, *h)).collect::<Vec<_>>());
        let all = all.expect("builds").pop().expect("one part");
        let (merged, read) = parts.merge(&meta).map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
        let known: Vec<String> = meta.order_by.iter().filter(|n| *n != "nowhere").cloned().collect();
        expected.sort_by(|a, b| compare(&known, a, b));
        // Compare as text: NaN is not equal to itself, but its name is.
        let text = |rows: &[Row]| rows.iter().map(|r| format!("{r:?}")).collect::<Vec<_>>();
        prop_assert_eq!(text(&rows_of(&merged)), text(&expected));
        // The bounds are as if one seal had built the part.
        prop_assert_eq!(&merged.bounds, &all.bounds);
        prop_assert_eq!(read, parts.census(&merged.bytes));
        let lacks = |name: &str, has: &dyn Fn(&Row) -> bool| {
            expected.iter().any(has) == columns(&merged).iter().any(|c| c == name)
        };
        prop_assert!(lacks("host", &|r| r.host.is_some()));
        prop_assert!(lacks("f", &|r| r.f.is_some()));
    }
}

#[test]
fn large_parts_are_merged_a_batch_at_a_time() {
    let meta = meta(PartitionWidth::Month, &["host", TIME]);
    let (mut parts, mut all) = (Parts::new(), Vec::new());
    for nth in 0..7_u64 {
        let rows: Vec<Row> = (0..20_000)
            .map(|i| Row {
                time: (i as i64 * 7919 + nth as i64) % 1_000_000,
                host: (i % 10 > 0).then(|| format!("h{}", (i * 31 + nth) % 500)),
                n: Some(i as i64),
                ..row(nth * 20_000 + i)
            })
            .collect();
        parts.seal(&meta, &[(rows.clone(), ALL)]);
        all.extend(rows);
    }
    let (merged, read) = parts.merge(&meta).expect("merges");
    all.sort_by(|a, b| compare(&meta.order_by, a, b));
    assert!(rows_of(&merged) == all, "the order differs");
    assert_eq!(columns(&merged), [TIME, "host", "n", "_seq"]);
    assert_eq!(read, parts.census(&merged.bytes));
}

#[test]
fn a_lost_row_and_a_doubled_one_are_another_census() {
    let meta = meta(PartitionWidth::Month, &[TIME]);
    let census = |seqs: &[u64]| {
        let mut parts = Parts::new();
        let rows: Vec<Row> = seqs.iter().map(|seq| row(*seq)).collect();
        parts.seal(&meta, &[(rows, ALL)]);
        parts.merge(&meta).expect("merges").1
    };
    assert_eq!(census(&[1, 2, 3]), census(&[1, 2, 3]));
    assert_ne!(census(&[1, 2, 3]), census(&[1, 1, 3]));
    assert_ne!(census(&[1, 2, 3]), census(&[1, 2]));
    // The plain sums of both are equal.
    assert_ne!(census(&[1, 2, 6]), census(&[2, 3, 4]));
}

#[test]
fn what_is_not_in_order_is_said_and_sorted_in_pieces() {
    let by_seq = meta(PartitionWidth::Month, &[]);
    let by_host = meta(PartitionWidth::Month, &["host"]);
    let mut parts = Parts::new();
    let rows = ["b", "a", "c"].into_iter().zip(1..);
    let rows = rows.map(|(host, seq)| Row {
        host: Some(host.into()),
        ..row(seq)
    });
    let rows: Vec<Row> = rows.collect();
    parts.seal(&by_seq, &[(rows.clone(), ALL)]);
    assert!(matches!(parts.merge(&by_host), Err(Stop::Unsorted(0))));
    let mut bytes = Vec::new();
    let part = &parts.parts[0];
    let mut bounds = None;
    let read = rewrite(&by_host, part, parts.open(&part.file), &[], &mut |rows| {
        bounds = Some(write_sorted(&by_host, &rows, &mut bytes)?);
        Ok(())
    });
    let image = PartImage {
        partition_us: 0,
        bounds: bounds.expect("one piece"),
        bytes,
    };
    let seqs: Vec<u64> = rows_of(&image).iter().map(|r| r.seq).collect();
    assert_eq!(seqs, [2, 1, 3]);
    assert_eq!(read.expect("read"), parts.census(&image.bytes));
    assert_eq!(image.bounds.text_range["host"], ("a".into(), "c".into()));
}

#[test]
fn columns_take_the_type_that_their_stream_has_now() {
    let mut meta = meta(PartitionWidth::Month, &["n"]);
    let mut parts = Parts::new();
    for seq in [1, 2] {
        let rows = [-5, 7].map(|n| Row {
            n: Some(n * seq),
            ..row(seq.unsigned_abs())
        });
        parts.seal(&meta, &[(rows.into(), ALL)]);
    }
    meta.columns[2].column_type = ColumnType::Float64;
    let (merged, _) = parts.merge(&meta).expect("merges");
    let batches = read_part(merged.bytes.into(), None).expect("a part");
    let floats: &arrow::array::Float64Array = crate::memtable::column(&batches[0], "n");
    assert_eq!(floats.values(), &[-10.0, -5.0, 7.0, 14.0]);
}

#[test]
fn a_value_that_a_cast_would_lose_or_a_column_that_is_unknown_stops_the_merge() {
    let mut meta = meta(PartitionWidth::Month, &[TIME]);
    let mut parts = Parts::new();
    let rows = vec![Row {
        host: Some("text".into()),
        ..row(1)
    }];
    parts.seal(&meta, &[(rows, ALL)]);
    meta.columns[1].column_type = ColumnType::Int64;
    let unread = |meta: &StreamMeta| match parts.merge(meta) {
        Err(Stop::Unread(0, error)) => error.to_string(),
        other => panic!("{:?}", other.map(|(image, _)| image.bounds)),
    };
    assert!(unread(&meta).contains("host"));
    meta.columns.remove(1);
    assert!(unread(&meta).contains("does not have: host"));
}

#[test]
fn an_input_that_is_not_what_the_manifest_says_stops_the_merge() {
    let meta = meta(PartitionWidth::Month, &[TIME]);
    let mut parts = Parts::new();
    parts.seal(&meta, &[(vec![row(1), row(2)], ALL)]);
    parts.parts[0].rows = 3;
    assert!(matches!(
        parts.merge(&meta),
        Err(Stop::Unread(0, Error::Invalid { .. }))
    ));
    parts.parts[0].rows = 2;
    let path = parts.dir.path().join(&parts.parts[0].file.path);
    damage(&path);
    assert!(matches!(
        parts.merge(&meta),
        Err(Stop::Unread(0, Error::Corrupt { .. }))
    ));
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).expect("read");
    bytes[20] ^= 1;
    std::fs::write(path, bytes).expect("damaged");
}

#[test]
fn of_parts_with_long_rows_only_those_that_fit_into_memory_are_merged() {
    let meta = meta(PartitionWidth::Month, &["time"]);
    // Long rows, that a dictionary and zstd reduce to next to nothing.
    for (mib, fitting) in [(1, 5), (15, 4), (25, 2), (70, 2)] {
        let mut parts = Parts::new();
        for part in 0..5 {
            let rows = (0..3).map(|seq| Row {
                host: Some("h".repeat(mib << 20)),
                ..row(3 * part + seq)
            });
            parts.seal(&meta, &[(rows.collect(), ALL)]);
        }
        assert!(parts.parts.iter().all(|part| part.file.len < 1 << 20));
        let inputs = parts.parts.iter().map(|p| (p, parts.open(&p.file)));
        let mut bytes = Vec::new();
        let merged = merge(&meta, inputs.collect(), &[], &mut bytes, &|| Ok(()));
        let merged = merged.expect("merges");
        assert_eq!(merged.inputs, fitting, "{mib} MiB");
        assert_eq!(merged.bounds.rows, 3 * fitting as u64);
        assert_eq!(parts.census(&bytes), merged.census);
    }
}

#[test]
fn a_pause_that_fails_ends_the_merge() {
    let meta = meta(PartitionWidth::Month, &[TIME]);
    let mut parts = Parts::new();
    parts.seal(&meta, &[((0..20_000).map(row).collect(), ALL)]);
    let inputs = parts
        .parts
        .iter()
        .map(|p| (p, parts.open(&p.file)))
        .collect();
    let ended = merge(&meta, inputs, &[], Vec::new(), &|| Err(Error::Closed));
    assert!(matches!(ended, Err(Stop::Failed(Error::Closed))));
}
