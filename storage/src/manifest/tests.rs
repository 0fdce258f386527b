//! Tests of the manifest: each invariant is broken once, each byte is flipped once.

use std::io::ErrorKind;

use super::*;
use crate::env::RealFs;
use crate::model::SEQ_END_MAX;
use crate::testing::{FaultFs, Op};

fn file(path: &str) -> FileRef {
    FileRef {
        path: path.into(),
        len: 10,
        crc: 7,
        blocks: Vec::new(),
        block_bytes: 256 * 1024,
    }
}

fn name(name: &str) -> Name {
    Name::new(name).expect("a name")
}

fn part(id: u64, rows: u64) -> PartMeta {
    PartMeta {
        id,
        stream: name("events"),
        partition_us: 0,
        file: file(&format!("streams/events/date=1970-01-01/{id:016x}.parquet")),
        rows,
        seq: (id, id + rows - 1),
        time: (-5, 5),
        text_range: BTreeMap::from([("host".into(), ("a".into(), "é".into()))]),
    }
}

fn section(level: &str, events: u64) -> Section {
    Section {
        level: level.into(),
        partition_us: 0,
        bucket_min_us: 0,
        bucket_max_us: 0,
        cells: 1,
        densest: 1,
        events,
        offset: 0,
        len: 9,
    }
}

fn tile(rollup: u32, range: (u64, u64), events: u64) -> TileMeta {
    let files = if events == 0 {
        vec![]
    } else {
        vec![TileFile {
            file: file(&format!("rollups/stats/{rollup}-{}.tile", range.0)),
            sections: vec![
                section("hour", events - 1),
                section("hour", 1),
                section("day", events),
            ],
        }]
    };
    TileMeta {
        rollup,
        first_seq: range.0,
        cutoff: range.1,
        events,
        files,
        dropped: BTreeMap::new(),
    }
}

/// Returns a manifest of one stream with two parts of 10 and 5 events, and two rollups, the
/// second of which was added after 4 sequence numbers had been assigned.
pub(super) fn good() -> Manifest {
    let mut manifest = Manifest::new("0123456789abcdef0123456789abcdef".into(), 1_000_000);
    let stream = StreamMeta {
        kind: StreamKind::Documents,
        partition: PartitionWidth::Day,
        order_by: vec!["host".into(), "time".into()],
        columns: vec![
            Column::new("time", ColumnType::Time),
            Column::new("a.b", ColumnType::Text),
        ],
        created_us: -1,
        sealed_events: 18,
        dropped: vec![DroppedPartition {
            partition_us: 5 * 86_400_000_000,
            complete_from: 15,
            events: 3,
        }],
        columns_max: COLUMNS_MAX,
        erasures: Vec::new(),
        divided_by: None,
    };
    manifest.streams.insert(name("events"), stream);
    manifest.parts = vec![part(1, 10), part(2, 5)];
    for (id, first_seq) in [(1, 0), (2, 4)] {
        manifest.rollups.push(RollupMeta {
            id,
            name: name("stats"),
            stream: name("events"),
            definition: serde_json::json!({"by": ["site", "path"], "x": null}),
            levels: vec!["hour".into(), "day".into()],
            first_seq,
            created_us: 5,
            floors: BTreeMap::new(),
            history: None,
            zone_data: None,
        });
    }
    manifest.tiles = vec![
        tile(1, (0, 10), 10),
        tile(1, (10, 12), 0),
        tile(1, (12, 20), 8),
        tile(2, (4, 20), 18),
    ];
    manifest.identities = vec![file("identities/1.json.zst")];
    manifest.pending = vec![Pending {
        path: "journal/1.log".into(),
        since: 3,
    }];
    manifest.version = 7;
    manifest.sealed_seq = 20;
    manifest.next_seq = 25;
    manifest.journal_floor = 2;
    manifest.writer_epoch = 3;
    manifest
}

/// Marks a part as detached.
fn detach(manifest: &mut Manifest, mut part: PartMeta) {
    part.file.path = part.file.path.replacen("streams/", "detached/", 1);
    manifest.detached.push(DetachedPartition {
        stream: name("events"),
        partition_us: 0,
        complete_from: 20,
        folder: "detached/events/date=1970-01-01".into(),
        parts: vec![part],
    });
}

fn detach_last(manifest: &mut Manifest) {
    let part = manifest.parts.pop().expect("there");
    detach(manifest, part);
}

#[test]
fn a_manifest_with_a_detached_partition_comes_back_as_it_was() {
    let mut manifest = good();
    detach_last(&mut manifest);
    assert_eq!(manifest.check(), Ok(()));
    let (bytes, _) = encoding::encode(&manifest).expect("encodes");
    let back = encoding::decode(Path::new("m"), &bytes);
    assert_eq!(back.expect("decodes").0, manifest);
}

#[test]
fn each_broken_invariant_is_refused() {
    type Break = fn(&mut Manifest);
    let cases: [(&str, Break); 30] = [
        ("a gap between tiles", |m| m.tiles[1].first_seq = 11),
        ("a missing tile", |m| drop(m.tiles.remove(1))),
        ("an overlap", |m| m.tiles[1].first_seq = 9),
        ("a tile that ends before it begins", |m| {
            m.tiles[1].cutoff = 10
        }),
        ("tiles that end early", |m| m.tiles[2].cutoff = 19),
        ("tiles that end late", |m| m.tiles[2].cutoff = 21),
        ("tiles that begin before their rollup", |m| {
            m.tiles[3].first_seq = 3
        }),
        ("tiles in the wrong order", |m| m.tiles.swap(0, 1)),
        ("levels that differ", |m| {
            m.tiles[0].files[0].sections[2].events = 9
        }),
        ("a level with another count than the tile", |m| {
            m.tiles[0].events = 11;
            m.tiles[2].events = 7;
        }),
        ("a tile with events and no section", |m| {
            m.tiles[0].files.clear()
        }),
        ("a tile without events and a section", |m| {
            m.tiles[1].files = m.tiles[0].files.clone()
        }),
        ("more sealed than counted", |m| {
            let stream = m.streams.get_mut("events").expect("there");
            stream.sealed_events = 19;
            stream.dropped[0].events = 4;
        }),
        ("a partition dropped twice", |m| {
            let stream = m.streams.get_mut("events").expect("there");
            stream.dropped.push(DroppedPartition {
                events: 0,
                ..stream.dropped[0]
            });
        }),
        ("a part with other rows than were sealed", |m| {
            m.parts[0].rows = 9
        }),
        ("a part twice", |m| {
            m.parts[1].file.path = m.parts[0].file.path.clone()
        }),
        ("a live file that is pending", |m| {
            m.pending[0].path = m.parts[0].file.path.clone()
        }),
        ("a file pending twice", |m| {
            m.pending.push(m.pending[0].clone())
        }),
        ("more checksums than blocks", |m| {
            m.parts[0].file.blocks = vec![1, 2]
        }),
        ("an event live and detached", |m| detach(m, part(2, 5))),
        ("a partition detached twice", |m| {
            detach_last(m);
            let mut again = m.detached[0].clone();
            again.parts[0].rows = 0;
            again.parts[0].file.path = "detached/events/date=1970-01-01/9.parquet".into();
            m.detached.push(again);
        }),
        ("a detached partition of no stream", |m| {
            detach_last(m);
            m.detached[0].stream = name("nowhere");
            let stream = m.streams.get_mut("events").expect("there");
            stream.sealed_events -= 5;
            m.rollups.clear();
            m.tiles.clear();
        }),
        ("a detached part of another day", |m| {
            detach_last(m);
            m.detached[0].parts[0].partition_us = 86_400_000_000;
        }),
        ("a detached file that is pending", |m| {
            detach_last(m);
            m.pending[0].path = m.detached[0].parts[0].file.path.clone();
        }),
        ("rows of detached parts that add up beyond 64 bits", |m| {
            detach_last(m);
            let mut other = m.detached[0].parts[0].clone();
            other.file.path.push('2');
            let rows = other.rows;
            m.detached[0].parts[0].rows = u64::MAX;
            other.rows = rows + 1;
            m.detached[0].parts.push(other);
        }),
        ("sequence numbers beyond the last one of an _id", |m| {
            m.next_seq = SEQ_END_MAX + 1
        }),
        ("no version left", |m| m.version = u64::MAX),
        ("no segment left", |m| m.journal_floor = u64::MAX),
        ("no rollup left", |m| m.next_rollup = u32::MAX),
        ("a store without an id", |m| m.store_id = "short".into()),
    ];
    assert_eq!(good().check(), Ok(()));
    for (what, break_it) in cases {
        let mut broken = good();
        break_it(&mut broken);
        assert!(broken.check().is_err(), "{what}");
        let (bytes, _) = encoding::encode(&broken).expect("encodes");
        let read = encoding::decode(Path::new("m"), &bytes);
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{what}");
    }
}

#[test]
fn each_edit_that_goes_back_is_refused() {
    type Break = fn(&mut Manifest);
    let next = || Manifest {
        version: 8,
        ..good()
    };
    assert_eq!(good().check_edit(&next()), Ok(()));
    let cases: [(&str, Break); 9] = [
        ("the same version", |m| m.version = 7),
        ("a version left out", |m| m.version = 9),
        ("another store", |m| m.store_id = "f".repeat(32)),
        ("sealed_seq falls", |m| {
            m.sealed_seq = 12;
            m.tiles.truncate(2);
            m.rollups.truncate(1);
        }),
        ("next_seq falls", |m| m.next_seq = 24),
        ("next_seq below sealed_seq", |m| m.next_seq = 19),
        ("the journal's floor falls", |m| m.journal_floor = 1),
        ("the epoch falls", |m| m.writer_epoch = 2),
        ("a broken invariant", |m| m.parts[0].rows = 9),
    ];
    for (what, break_it) in cases {
        let mut broken = next();
        break_it(&mut broken);
        assert!(good().check_edit(&broken).is_err(), "{what}");
    }
}

#[test]
fn a_refused_edit_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(DIR)).expect("a directory");
    let first = commit(&RealFs, dir.path(), None, good()).expect("commits");
    let mut broken = good();
    broken.tiles.clear();
    commit(&RealFs, dir.path(), Some(&first), broken).expect_err("refused");
    let newest = read_newest(&RealFs, dir.path())
        .expect("reads")
        .expect("there");
    assert_eq!(*newest.manifest, good());
    assert_eq!(RealFs.list(&dir.path().join(DIR)).expect("listed").len(), 1);
}

#[test]
fn only_the_newest_version_counts_and_it_must_be_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().join(DIR);
    std::fs::create_dir(&folder).expect("a directory");
    assert!(read_newest(&RealFs, dir.path()).expect("reads").is_none());
    let first = commit(&RealFs, dir.path(), None, good()).expect("commits");
    let old = std::fs::read(folder.join(file_name(7))).expect("read");
    let second = commit(&RealFs, dir.path(), Some(&first), good()).expect("commits");
    assert_eq!(
        (second.manifest.version, second.manifest.previous_crc),
        (8, first.crc)
    );
    assert_eq!(RealFs.list(&folder).expect("listed"), [file_name(8)]);
    // An older version beside the newest one is no fallback.
    std::fs::write(folder.join(file_name(7)), old).expect("written");
    std::fs::write(folder.join("000000000000000a.manifest.tmp"), b"half").expect("written");
    let newest = read_newest(&RealFs, dir.path())
        .expect("reads")
        .expect("there");
    assert_eq!(newest.manifest.version, 8);
    std::fs::remove_dir_all(dir.path().join(COPY_DIR)).expect("removed");
    let path = folder.join(file_name(8));
    let mut bytes = std::fs::read(&path).expect("read");
    bytes.pop();
    std::fs::write(&path, &bytes).expect("cut");
    assert!(matches!(
        read_newest(&RealFs, dir.path()),
        Err(Error::Corrupt { .. })
    ));
    // A version under the file name of another one is refused too.
    std::fs::rename(folder.join(file_name(7)), &path).expect("renamed");
    assert!(matches!(
        read_newest(&RealFs, dir.path()),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn an_edit_is_undone_unknown_or_done_and_says_which() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(DIR)).expect("a directory");
    let fs = FaultFs::default();
    let first = commit(&fs, dir.path(), None, good()).expect("commits");
    for op in [Op::Create, Op::Write, Op::Sync, Op::Rename] {
        fs.fail(op, DIR, ErrorKind::StorageFull, 1);
        let error = commit(&fs, dir.path(), Some(&first), good()).expect_err("fails");
        assert!(matches!(error, Error::Io { .. }), "{op:?}: {error}");
        let newest = read_newest(&fs, dir.path()).expect("reads").expect("there");
        assert_eq!(newest.manifest.version, 7, "{op:?}");
    }
    fs.fail(Op::SyncDir, DIR, ErrorKind::Other, 1);
    let error = commit(&fs, dir.path(), Some(&first), good()).expect_err("fails");
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    let second = read_newest(&fs, dir.path()).expect("reads").expect("there");
    fs.fail(Op::Remove, DIR, ErrorKind::PermissionDenied, 1);
    let third = commit(&fs, dir.path(), Some(&second), good()).expect("an old file is no harm");
    assert_eq!(third.manifest.version, 9);
}
