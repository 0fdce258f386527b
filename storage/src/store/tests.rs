//! The store as a whole, on a real disk.

use std::sync::Arc;

use super::Store;
use crate::concern::WriteConcern;
use crate::env::RealFs;
use crate::error::Error;
use crate::model::{Identity, Name};
use crate::read_only_store::ReadOnlyStore;
use crate::snapshot::Snapshot;
use crate::testing::{FaultFs, batch, options};

const DAY_US: i64 = 86_400_000_000;

fn rows(snapshot: &Snapshot, stream: &str) -> u64 {
    let name = Name::new(stream).expect("a name");
    let sealed: u64 = snapshot.manifest().parts_of(&name).map(|p| p.rows).sum();
    sealed
        + snapshot
            .chunks(stream)
            .iter()
            .map(|c| c.events.num_rows() as u64)
            .sum::<u64>()
}

#[test]
fn what_is_acknowledged_is_there_after_seal_close_and_reopen() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens");
    let ack = store
        .write(batch(&[1, 2, DAY_US], &[1], None), WriteConcern::JOURNALED)
        .expect("acknowledged");
    assert_eq!(
        (ack.accepted, ack.quarantined, ack.first_seq, ack.last_seq),
        (3, 1, Some(0), Some(3))
    );
    assert_eq!(rows(&store.snapshot(), "events"), 3);
    let beside = ReadOnlyStore::open(Arc::new(RealFs), dir.path())
        .expect("a reader opens beside the writer");
    assert_eq!(rows(&beside.snapshot(), "events"), 3);
    assert_eq!(rows(&beside.snapshot(), "_quarantine"), 1);
    let report = store.seal().expect("seals");
    assert_eq!((report.events, report.parts), (4, 3));
    assert_eq!(rows(&store.snapshot(), "events"), 3);
    store
        .write(batch(&[5], &[], None), WriteConcern::ACKNOWLEDGED)
        .expect("acknowledged");
    store.close().expect("closes");
    let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens again");
    assert_eq!(store.status().replayed, 0);
    let ack = store
        .write(batch(&[6], &[], None), WriteConcern::ACKNOWLEDGED)
        .expect("acknowledged");
    assert_eq!(ack.first_seq, Some(5), "a clean close leaves no hole");
    assert_eq!(rows(&store.snapshot(), "events"), 5);
}

#[test]
fn an_unclean_stop_loses_nothing_and_skips_ahead() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens");
    store
        .write(batch(&[1, 2], &[], None), WriteConcern::ACKNOWLEDGED)
        .expect("acknowledged");
    drop(store);
    let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens again");
    assert_eq!(store.status().replayed, 2);
    assert_eq!(rows(&store.snapshot(), "events"), 2);
    let ack = store
        .write(batch(&[3], &[], None), WriteConcern::ACKNOWLEDGED)
        .expect("acknowledged");
    assert!(ack.first_seq >= Some(2 + super::open::SKIP));
    store.close().expect("closes");
    let beside = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
    assert_eq!(rows(&beside.snapshot(), "events"), 3);
}

#[test]
fn a_second_copy_is_answered_like_the_first_before_and_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = Identity::Key {
        key: "events\0k".into(),
        body_hash: 7,
    };
    let range = |from, to| Identity::Range {
        producer: "p".into(),
        from,
        to,
        content: to,
    };
    let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens");
    let first = store
        .write(
            batch(&[1, 2], &[], Some(key.clone())),
            WriteConcern::ACKNOWLEDGED,
        )
        .expect("stored");
    store
        .write(
            batch(&[3], &[], Some(range(0, 10))),
            WriteConcern::ACKNOWLEDGED,
        )
        .expect("stored");
    for round in 0..3 {
        let again = store
            .write(
                batch(&[1, 2], &[], Some(key.clone())),
                WriteConcern::JOURNALED,
            )
            .expect("known");
        assert!(again.duplicate, "round {round}");
        assert_eq!(
            (again.first_seq, again.accepted),
            (first.first_seq, first.accepted)
        );
        let other = Identity::Key {
            key: "events\0k".into(),
            body_hash: 8,
        };
        assert!(
            store
                .write(batch(&[1], &[], Some(other)), WriteConcern::ACKNOWLEDGED)
                .is_err()
        );
        assert!(
            store
                .write(
                    batch(&[3], &[], Some(range(0, 10))),
                    WriteConcern::ACKNOWLEDGED
                )
                .expect("known")
                .duplicate
        );
        assert!(
            store
                .write(
                    batch(&[3], &[], Some(range(11, 12))),
                    WriteConcern::ACKNOWLEDGED
                )
                .is_err(),
            "a gap"
        );
        if round == 0 {
            store.seal().expect("seals");
        }
    }
    store.close().expect("closes");
    let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens again");
    assert!(
        store
            .write(batch(&[1, 2], &[], Some(key)), WriteConcern::ACKNOWLEDGED)
            .expect("known")
            .duplicate
    );
    assert_eq!(store.position("p").map(|p| p.to), Some(10));
    assert_eq!(rows(&store.snapshot(), "events"), 3);
}

#[test]
fn a_store_has_one_writer() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens");
    store
        .announce("http://127.0.0.1:7070", "secret")
        .expect("written");
    let refused = Store::open(dir.path(), options(&FaultFs::default()))
        .expect_err("locked")
        .to_string();
    assert!(refused.contains("127.0.0.1:7070"), "{refused}");
}

#[test]
fn what_an_empty_batch_says_of_its_source_outlives_a_close() {
    let dir = tempfile::tempdir().expect("a directory");
    let range = |from, to| {
        let (producer, content) = ("p".into(), to);
        Some(Identity::Range {
            producer,
            from,
            to,
            content,
        })
    };
    let opened = || Store::open(dir.path(), options(&FaultFs::default())).expect("opens");
    let store = opened();
    for (times, identity) in [(&[1][..], range(0, 5)), (&[], range(5, 9))] {
        store
            .write(batch(times, &[], identity), WriteConcern::ACKNOWLEDGED)
            .expect("taken");
        store.seal().expect("seals");
    }
    store.close().expect("closes");
    let store = opened();
    assert_eq!(store.position("p").map(|p| p.to), Some(9));
    store
        .write(batch(&[], &[], range(9, 12)), WriteConcern::ACKNOWLEDGED)
        .expect("taken");
    store.close().expect("closes");
    let store = opened();
    assert_eq!(store.position("p").map(|p| p.to), Some(12));
    let copy = store.write(batch(&[], &[], range(9, 12)), WriteConcern::ACKNOWLEDGED);
    assert!(copy.expect("known").duplicate);
    assert_eq!(rows(&store.snapshot(), "events"), 1);
}

#[test]
fn a_dropped_partition_is_gone_with_what_came_before_and_takes_what_comes_after() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    let write = |times: &[i64]| {
        let ack = store.write(batch(times, &[], None), WriteConcern::ACKNOWLEDGED);
        ack.expect("taken")
    };
    let events = Name::new("events").expect("a name");
    let first_day = (0, DAY_US);
    write(&[1, DAY_US + 1]);
    store.seal().expect("seals");
    // Both events are still in the memtable when the partition of the first is dropped.
    write(&[2, DAY_US + 2]);
    let would = store.drop_partitions(&events, first_day, true);
    assert_eq!(
        rows(&store.snapshot(), "events"),
        4,
        "a dry run drops nothing"
    );
    let before = store.snapshot();
    let did = store
        .drop_partitions(&events, first_day, false)
        .expect("drops");
    assert_eq!(would.expect("a dry run"), did);
    assert_eq!((did.partitions, did.parts, did.events), (1, 2, 2));
    assert_eq!(rows(&store.snapshot(), "events"), 2);
    let files = |snapshot: &Snapshot| {
        let parts = snapshot.manifest().parts.clone();
        parts
            .iter()
            .filter(|p| snapshot.read(&p.file).is_ok())
            .count()
    };
    assert_eq!(files(&before), 4, "what is being read stays on disk");
    drop(before);
    let again = store
        .drop_partitions(&events, first_day, false)
        .expect("nothing to drop");
    assert_eq!(again.parts, 0);
    let late = write(&[3]);
    store.seal().expect("seals");
    let pending = store.snapshot().manifest().pending.clone();
    assert!(
        !pending.iter().any(|p| p.path.ends_with("parquet")),
        "{pending:?}"
    );
    store.close().expect("closes");
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    let snapshot = store.snapshot();
    assert_eq!(rows(&snapshot, "events"), 3, "what comes late is taken");
    let meta = &snapshot.streams()["events"];
    assert_eq!((meta.sealed_events, meta.dropped_events()), (5, 2));
    assert_eq!(
        meta.dropped[0].complete_from,
        late.first_seq.expect("a sequence")
    );
    let nowhere = Name::new("nowhere").expect("a name");
    let error = store.drop_partitions(&nowhere, first_day, false);
    assert!(matches!(error, Err(Error::Missing { .. })), "{error:?}");
}
