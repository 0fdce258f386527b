//! Many threads that use one store, on a real disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::listing::Listing;
use super::motley;
use super::seen::{DAY_US, Known, STREAM, read_content};
use crate::concern::WriteConcern;
use crate::env::RealFs;
use crate::model::{Identity, Name};
use crate::read_only_store::ReadOnlyStore;
use crate::snapshot::Snapshot;
use crate::store::{Options, Store};
use crate::testing::{FaultFs, batch, options};

#[test]
fn many_writers_seals_and_readers_get_along() {
    const WRITERS: i64 = 8;
    const BATCHES: i64 = 40;
    const SEALS: u64 = 4;
    let dir = tempfile::tempdir().expect("a directory");
    // Use the real disk, whose syncs take time.
    let options = Options {
        rollup_hook: Arc::new(Listing),
        fs: Arc::new(RealFs),
        ..options(&FaultFs::default())
    };
    let store = Store::open(dir.path(), options).expect("opens");
    let acknowledged = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let seals = AtomicU64::new(0);
    let count = |snapshot: &Snapshot| -> u64 {
        let name = Name::new(STREAM).expect("a name");
        let sealed: u64 = snapshot.manifest().parts_of(&name).map(|p| p.rows).sum();
        sealed
            + snapshot
                .chunks(STREAM)
                .iter()
                .map(|c| c.events.num_rows() as u64)
                .sum::<u64>()
    };
    // Runs `look` until the writers are done, and once after.
    let watch = |look: &dyn Fn() -> u64| {
        let (mut last, mut looks) = (0, 0);
        loop {
            let ended = done.load(Ordering::SeqCst);
            let promised = acknowledged.load(Ordering::SeqCst);
            let seen = look();
            assert!(seen >= last, "{seen} after {last}");
            assert!(
                seen >= promised,
                "{promised} were acknowledged, {seen} are seen"
            );
            (last, looks) = (seen, looks + 1);
            if ended {
                return (last, looks);
            }
        }
    };
    let (here, beside) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, acknowledged, seals) = (&store, &acknowledged, &seals);
                scope.spawn(move || {
                    // A seal takes long on a slow disk: write until there were some.
                    let more = |i: &i64| *i < BATCHES || seals.load(Ordering::SeqCst) < SEALS;
                    for i in (0..).take_while(more) {
                        let times: Vec<i64> = (0..1 + i % 5)
                            .map(|e| (e % 3) * DAY_US + i * 8 + writer)
                            .collect();
                        let range = Identity::Range {
                            producer: format!("w{writer}"),
                            from: i as u64,
                            to: i as u64 + 1,
                            content: 0,
                        };
                        let journal = i % 3 == 0;
                        let concern = if journal {
                            WriteConcern::JOURNALED
                        } else {
                            WriteConcern::ACKNOWLEDGED
                        };
                        let mut batch = batch(&times, &[], Some(range));
                        batch.events = motley::extend(&batch.events, i);
                        let ack = store.write(batch, concern);
                        acknowledged.fetch_add(ack.expect("taken").accepted, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let here = scope.spawn(|| watch(&|| count(&store.snapshot())));
        let beside = scope.spawn(|| {
            watch(&|| {
                let reader =
                    ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("never an error");
                // All files of the snapshot can be read while the reader lives.
                let snapshot = reader.snapshot();
                let seen = read_content(&snapshot, [], &mut Known::default());
                assert_eq!(seen.events.len() as u64, count(&snapshot));
                count(&snapshot)
            })
        });
        let sealer = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let sealed = store.seal().expect("seals").events > 0;
                seals.fetch_add(sealed.into(), Ordering::SeqCst);
                store.compact_tiles(true).expect("compacts");
                store.compact_parts(None, true).expect("compacts");
            }
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        done.store(true, Ordering::SeqCst);
        sealer.join().expect("no panic");
        (
            here.join().expect("no panic"),
            beside.join().expect("no panic"),
        )
    });
    let total = acknowledged.load(Ordering::SeqCst);
    assert!(total >= WRITERS as u64 * BATCHES as u64 / 5 * 15);
    assert_eq!((here.0, beside.0), (total, total));
    assert!(beside.1 > 2, "{} looks", beside.1);
    store.close().expect("closes");
    let journal = std::fs::read_dir(dir.path().join("journal"))
        .expect("listed")
        .count();
    assert!(journal <= 2, "{journal} segments are left");
}
