//! Tests of the store on a disk that fails: refused writes, unknown results, recovery without a
//! restart.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;

use super::Store;
use crate::concern::WriteConcern;
use crate::env::RealFs;
use crate::error::{Error, Kind};
use crate::model::{Identity, Name, StreamKind};
use crate::read_only_store::ReadOnlyStore;
use crate::rollup_hook::{
    BoxError, Merge, NewRollup, Partition, RollupHook, RollupMeta, TileImage,
};
use crate::snapshot::Snapshot;
use crate::store::Options;
use crate::testing::{FaultFs, Op, batch, options};

fn rows(snapshot: &Snapshot) -> u64 {
    let name = Name::new("events").expect("a name");
    let sealed: u64 = snapshot.manifest().parts_of(&name).map(|p| p.rows).sum();
    let chunks = snapshot.chunks("events").iter();
    sealed + chunks.map(|c| c.events.num_rows() as u64).sum::<u64>()
}

fn range(from: u64, to: u64) -> Option<Identity> {
    Some(Identity::Range {
        producer: "p".into(),
        from,
        to,
        content: to,
    })
}

fn is(path: &std::path::Path, part: &str) -> bool {
    path.to_string_lossy().contains(part)
}

#[test]
fn an_acknowledgement_with_j_waits_for_a_sync_after_its_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let mut options = options(&fs);
    options.config.sync_interval_ms = 3_600_000;
    let store = Store::open(dir.path(), options).expect("opens");
    let write = |n: i64, identity, concern| {
        fs.calls();
        let ack = store.write(batch(&[n][..usize::from(n > 0)], &[], identity), concern);
        let calls = fs.calls().into_iter().filter(|c| is(&c.1, "journal"));
        (ack.expect("taken"), calls.map(|c| c.0).collect::<Vec<Op>>())
    };
    let (_, first) = write(1, None, WriteConcern::JOURNALED);
    assert!(first.ends_with(&[Op::Write, Op::Sync]), "{first:?}");
    assert_eq!(write(1, None, WriteConcern::ACKNOWLEDGED).1, [Op::Write]);
    assert_eq!(
        write(1, None, WriteConcern::JOURNALED).1,
        [Op::Write, Op::Sync]
    );
    // A copy with `j` waits for a sync although its first one did not request it.
    assert_eq!(
        write(1, range(0, 5), WriteConcern::ACKNOWLEDGED).1,
        [Op::Write]
    );
    let (copy, calls) = write(1, range(0, 5), WriteConcern::JOURNALED);
    assert!(copy.duplicate);
    assert_eq!(calls, [Op::Sync]);
    // A batch without items still records the position of its source.
    assert_eq!(
        write(0, range(5, 6), WriteConcern::JOURNALED).1,
        [Op::Write, Op::Sync]
    );
    assert_eq!(
        write(0, range(5, 6), WriteConcern::JOURNALED).1,
        [],
        "known to be synced"
    );
}

#[test]
fn a_seal_syncs_the_journal_and_its_files_before_the_manifest_names_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let mut options = options(&fs);
    options.config.sync_interval_ms = 3_600_000;
    let store = Store::open(dir.path(), options).expect("opens");
    store
        .write(
            batch(&[1, 2], &[1], range(0, 1)),
            WriteConcern::ACKNOWLEDGED,
        )
        .expect("taken");
    fs.calls();
    store.seal().expect("seals");
    let calls = fs.calls();
    let at = |op: Op, part: &str| {
        let found = calls.iter().position(|c| c.0 == op && is(&c.1, part));
        found.unwrap_or_else(|| panic!("no {op:?} of {part}: {calls:?}"))
    };
    let committed = at(Op::Rename, "manifest/");
    assert!(at(Op::Sync, "journal/") < at(Op::Create, ".parquet"));
    for (file, directory) in [
        (".parquet", "streams/events/date="),
        (".json.zst", "identities"),
    ] {
        assert!(at(Op::Sync, file) < at(Op::Rename, file));
        let renamed = calls
            .iter()
            .rposition(|c| c.0 == Op::Rename && is(&c.1, file));
        let synced = calls
            .iter()
            .rposition(|c| c.0 == Op::SyncDir && is(&c.1, directory));
        assert!(
            renamed < synced && synced < Some(committed),
            "{file}: {calls:?}"
        );
    }
    assert!(at(Op::SyncDir, "streams") < committed, "parents too");
    assert!(committed < at(Op::SyncDir, "manifest"));
}

#[test]
fn a_disk_that_is_full_for_the_journal_refuses_and_resumes() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    store
        .write(batch(&[1], &[], range(0, 1)), WriteConcern::JOURNALED)
        .expect("taken");
    fs.fail(Op::Write, "journal", ErrorKind::StorageFull, 3);
    for _ in 0..3 {
        let error = store
            .write(batch(&[2, 3], &[], range(1, 2)), WriteConcern::JOURNALED)
            .expect_err("full");
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    }
    let ack = store.write(batch(&[2, 3], &[], range(1, 2)), WriteConcern::JOURNALED);
    assert!(!ack.expect("resumed").duplicate);
    // The next segment does not fit either: the request for it is not lost.
    store.seal().expect("seals");
    fs.fail(Op::Create, "journal", ErrorKind::QuotaExceeded, 1);
    let full = store.write(batch(&[4], &[], None), WriteConcern::ACKNOWLEDGED);
    assert!(matches!(full, Err(Error::DiskFull { .. })));
    store
        .write(batch(&[4], &[], None), WriteConcern::ACKNOWLEDGED)
        .expect("resumed");
    store.seal().expect("seals");
    let counters = store.counters()[&Name::new("events").expect("a name")];
    assert_eq!(
        (counters.received, counters.stored, counters.refused),
        (11, 4, 7)
    );
    assert_eq!(rows(&store.snapshot()), 4);
    assert_eq!(store.status().poisoned, None);
    drop(store);
    let store = Store::open(dir.path(), options(&fs)).expect("opens again");
    assert_eq!(rows(&store.snapshot()), 4);
    assert_eq!(store.position("p").map(|p| p.to), Some(2));
}

#[test]
fn want_of_a_file_descriptor_refuses_and_ends_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    store
        .write(batch(&[1], &[], None), WriteConcern::JOURNALED)
        .expect("taken");
    store.seal().expect("seals");
    // The next segment cannot be created, nor a file of the next seal.
    fs.fail(Op::Create, "journal", rustix::io::Errno::MFILE, 1);
    let refused = store.write(batch(&[2], &[], None), WriteConcern::JOURNALED);
    let refused = refused.expect_err("no segment");
    assert_eq!(refused.kind(), Kind::Overloaded, "{refused}");
    let taken = store.write(batch(&[2], &[], None), WriteConcern::JOURNALED);
    taken.expect("taken once there is one again");
    fs.fail(Op::Create, ".parquet", rustix::io::Errno::NFILE, 1);
    let failed = store.seal().expect_err("no file");
    assert_eq!(failed.kind(), Kind::Unavailable, "{failed}");
    store.seal().expect("seals once there is one again");
    assert_eq!(rows(&store.snapshot()), 2);
    assert_eq!(store.status().poisoned, None);
}

#[test]
fn a_seal_that_fails_anywhere_keeps_everything_and_succeeds_later() {
    let steps = [
        (Op::Create, ".parquet"),
        (Op::Write, ".parquet"),
        (Op::Sync, ".parquet"),
        (Op::Rename, ".parquet"),
        (Op::SyncDir, "streams"),
        (Op::Write, "identities"),
        (Op::Write, "manifest/"),
        (Op::Sync, "manifest/"),
        (Op::Rename, "manifest/"),
    ];
    for (op, part) in steps {
        let dir = tempfile::tempdir().expect("a directory");
        let fs = FaultFs::default();
        let store = Store::open(dir.path(), options(&fs)).expect("opens");
        store
            .write(
                batch(&[1, 2], &[0], range(0, 3)),
                WriteConcern::ACKNOWLEDGED,
            )
            .expect("taken");
        fs.fail(op, part, ErrorKind::StorageFull, 1);
        let error = store.seal().expect_err("fails");
        assert_eq!(error.kind(), Kind::DiskFull, "{op:?} {part}: {error}");
        assert!(store.status().seal_error.is_some());
        store
            .write(batch(&[3], &[], range(3, 4)), WriteConcern::ACKNOWLEDGED)
            .expect("taken");
        assert_eq!(rows(&store.snapshot()), 3, "{op:?} {part}");
        let beside = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
        assert_eq!(rows(&beside.snapshot()), 3, "{op:?} {part}");
        let report = store.seal().expect("seals");
        assert_eq!(report.events, 4, "{op:?} {part}");
        assert_eq!(store.status().seal_error, None);
        store.close().expect("closes");
        let store = Store::open(dir.path(), options(&fs)).expect("opens again");
        assert_eq!(rows(&store.snapshot()), 3, "{op:?} {part}");
        let again = store.write(batch(&[3], &[], range(3, 4)), WriteConcern::ACKNOWLEDGED);
        assert!(again.expect("known").duplicate, "{op:?} {part}");
    }
}

#[test]
fn writers_are_told_when_the_memtable_is_full_and_cannot_be_sealed() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let mut options = options(&fs);
    options.config.memtable_bytes_max = 1;
    fs.fail(Op::Create, ".parquet", ErrorKind::StorageFull, usize::MAX);
    let store = Store::open(dir.path(), options).expect("opens");
    let mut taken = 0;
    let error = loop {
        match store.write(batch(&[1], &[], None), WriteConcern::ACKNOWLEDGED) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 1000, "never refused");
    };
    assert_eq!(error.kind(), Kind::DiskFull, "{error}");
    fs.mend();
    // A repeated write succeeds once the seal thread has run.
    while store
        .write(batch(&[1], &[], None), WriteConcern::ACKNOWLEDGED)
        .is_err()
    {
        std::thread::yield_now();
    }
    assert_eq!(rows(&store.snapshot()), taken + 1);
    assert_eq!(store.status().poisoned, None);
}

#[test]
fn after_a_failed_sync_nothing_is_promised_any_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let told = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&told);
    let mut options = options(&fs);
    options.config.sync_interval_ms = 3_600_000;
    options.on_poison = Some(Arc::new(move |_: &Error| {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    let store = Store::open(dir.path(), options).expect("opens");
    store
        .write(batch(&[1], &[], None), WriteConcern::JOURNALED)
        .expect("taken");
    fs.fail(Op::Sync, "journal", ErrorKind::Other, 1);
    let unknown = |outcome| matches!(outcome, Err(Error::Unknown { .. }));
    assert!(unknown(
        store.write(batch(&[2], &[], None), WriteConcern::JOURNALED)
    ));
    for concern in [WriteConcern::JOURNALED, WriteConcern::ACKNOWLEDGED] {
        assert!(unknown(store.write(batch(&[3], &[], None), concern)));
    }
    let version = store.snapshot().manifest().version;
    assert!(matches!(store.seal(), Err(Error::Unknown { .. })));
    assert!(store.status().poisoned.is_some());
    assert_eq!(store.snapshot().manifest().version, version);
    assert!(store.close().is_err());
    assert_eq!(told.load(Ordering::SeqCst), 1, "the process is told once");
}

#[test]
fn a_manifest_that_may_or_may_not_be_durable_stops_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    store
        .write(batch(&[1, 2], &[], None), WriteConcern::JOURNALED)
        .expect("taken");
    fs.fail(Op::SyncDir, "manifest", ErrorKind::Other, 1);
    assert!(matches!(store.seal(), Err(Error::Unknown { .. })));
    assert!(store.status().poisoned.is_some());
    assert!(
        store
            .write(batch(&[3], &[], None), WriteConcern::ACKNOWLEDGED)
            .is_err()
    );
    drop(store);
    let store = Store::open(dir.path(), options(&fs)).expect("opens again");
    assert_eq!(rows(&store.snapshot()), 2);
}

#[test]
fn the_tail_of_a_killed_writer_is_made_durable_before_anything_follows_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let mut options = options(&fs);
    options.config.sync_interval_ms = 3_600_000;
    let store = Store::open(dir.path(), options.clone()).expect("opens");
    store
        .write(batch(&[1, 2], &[], None), WriteConcern::ACKNOWLEDGED)
        .expect("taken");
    let segment = dir.path().join("journal/0000000000000001.log");
    let kept = std::fs::read(&segment).expect("read");
    fs.calls();
    // Copy the files that a killed process would leave: written but not synced.
    let copy = tempfile::tempdir().expect("a directory");
    for folder in ["journal", "manifest"] {
        std::fs::create_dir(copy.path().join(folder)).expect("a directory");
        for entry in std::fs::read_dir(dir.path().join(folder)).expect("listed") {
            let path = entry.expect("listed").path();
            let name = path.file_name().expect("a name");
            std::fs::copy(&path, copy.path().join(folder).join(name)).expect("copied");
        }
    }
    fs.calls();
    let second = Store::open(copy.path(), options.clone()).expect("opens the copy");
    let calls = fs.calls();
    let at = |op: Op, part: &str| calls.iter().position(|c| c.0 == op && is(&c.1, part));
    let settled = at(Op::Sync, "0000000000000001.log");
    assert!(settled.is_some(), "{calls:?}");
    assert!(settled < at(Op::Rename, "0000000000000001.log"));
    assert!(at(Op::Rename, "0000000000000001.log") < at(Op::Rename, "0000000000000002.log"));
    let again = std::fs::read(copy.path().join("journal/0000000000000001.log")).expect("read");
    assert_eq!(again, kept);
    assert_eq!(rows(&second.snapshot()), 2);
    drop(second);
    // On a disk that is too full for a copy, the segment is synced in place.
    fs.calls();
    fs.fail(
        Op::Create,
        "0000000000000002.log",
        ErrorKind::StorageFull,
        1,
    );
    let third = Store::open(copy.path(), options).expect("opens on a full disk");
    assert_eq!(rows(&third.snapshot()), 2);
    assert!(
        fs.calls()
            .iter()
            .any(|c| c.0 == Op::Sync && c.1.ends_with("0000000000000002.log"))
    );
}

#[test]
fn ranges_of_one_producer_that_do_not_wait_are_all_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    store
        .write(batch(&[0], &[], range(0, 1)), WriteConcern::JOURNALED)
        .expect("taken");
    let (send, receive) = crossbeam_channel::unbounded();
    let submit = |identity| {
        let send = send.clone();
        let answer = move |outcome| send.send(outcome).expect("somebody waits");
        store
            .submit(
                batch(&[1], &[], identity),
                WriteConcern::ACKNOWLEDGED,
                answer,
            )
            .expect("taken");
    };
    // The log thread is blocked in the sync of a seal's new segment, so the other batches form
    // one group.
    store.seal().expect("seals");
    fs.hold_syncs("journal/");
    submit(None);
    fs.wait_for_held();
    for from in 1..6 {
        submit(range(from, from + 1));
    }
    submit(range(3, 4));
    submit(range(9, 10));
    submit(range(4, 8));
    submit(range(6, 7));
    fs.release();
    let answers: Vec<_> = (0..10).map(|_| receive.recv().expect("answered")).collect();
    let taken = |i: usize| answers[i].as_ref().is_ok_and(|ack| !ack.duplicate);
    assert!((0..6).all(taken), "{answers:?}");
    let first = answers[3].as_ref().expect("taken").first_seq;
    let copy = answers[6].as_ref().expect("known");
    assert_eq!((copy.duplicate, copy.first_seq), (true, first));
    assert!(
        matches!(
            answers[7],
            Err(Error::Gap {
                from: 9,
                known: 6,
                ..
            })
        ),
        "{answers:?}"
    );
    assert!(
        matches!(answers[8], Err(Error::Invalid { .. })),
        "{answers:?}"
    );
    assert!(taken(9), "{answers:?}");
    assert_eq!(store.position("p").map(|p| p.to), Some(7));
    assert_eq!(rows(&store.snapshot()), 8);
}

/// Hook that panics when the log thread requests the rollups of a new stream.
#[derive(Debug)]
struct Panicking;

impl RollupHook for Panicking {
    fn rollups_for(
        &self,
        _: &Name,
        _: StreamKind,
        _: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        panic!("a fault of the room above, made on purpose");
    }
    fn tiles(
        &self,
        _: &[&RollupMeta],
        _: &[RecordBatch],
        _: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        Ok(Vec::new())
    }
    fn backfill(
        &self,
        _: &RollupMeta,
        _: &Snapshot,
        _: Partition,
        _: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    fn day(&self, _: &RollupMeta, at_us: i64) -> Result<Partition, BoxError> {
        Ok(Partition {
            start_us: at_us,
            end_us: at_us + 1,
        })
    }
    fn wants(&self, _: &RollupMeta, _: StreamKind, _: &[RollupMeta]) -> bool {
        true
    }
    fn recompute(
        &self,
        _: &RollupMeta,
        _: &str,
        _: i64,
        _: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        Ok(Vec::new())
    }
    fn merge(
        &self,
        _: &RollupMeta,
        _: &[Merge<'_>],
        _: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        Ok(Vec::new())
    }
    fn partition(&self, _: &RollupMeta, _: &str, at_us: i64) -> Result<Partition, BoxError> {
        let (start_us, end_us) = (at_us, at_us);
        Ok(Partition { start_us, end_us })
    }
    fn retention(&self, _: &RollupMeta) -> BTreeMap<String, i64> {
        BTreeMap::new()
    }
}

#[test]
fn a_thread_that_dies_takes_the_store_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options {
        rollup_hook: Arc::new(Panicking),
        ..options(&FaultFs::default())
    };
    let store = Store::open(dir.path(), options).expect("opens");
    let lost = store.write(batch(&[1], &[], None), WriteConcern::ACKNOWLEDGED);
    assert!(matches!(lost, Err(Error::Unknown { .. })), "{lost:?}");
    assert!(
        store
            .write(batch(&[1], &[], None), WriteConcern::ACKNOWLEDGED)
            .is_err()
    );
    while store.status().poisoned.is_none() {
        std::thread::yield_now();
    }
    assert!(
        store.close().is_err(),
        "a store that stopped so is not marked as closed"
    );
}
