use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::concern::WriteConcern;
use crate::env::ManualClock;
use crate::model::{Batch, Identity};
use crate::resolutions::{Ranges, Settlement};
use crate::sim::SimFs;
use crate::store::{Config, Options, Store};
use crate::testing::{FaultFs, Op, RECEIVED_US, batch, options};

const DAY_US: i64 = 86_400_000_000;

fn settles(items: &[u64], how: Settlement) -> Batch {
    let items = Ranges::of(items.iter().copied());
    let events = match how {
        Settlement::Replayed => items.count() as usize,
        Settlement::Dropped => 0,
    };
    let identity = Some(Identity::Settles { items, how });
    batch(&vec![RECEIVED_US; events], &[], identity)
}

/// Opens a store without background work.
fn store(clock: &Arc<ManualClock>) -> (Store, Options) {
    let options = Options {
        fs: Arc::new(SimFs::new()),
        clock: clock.clone(),
        config: Config {
            tends: false,
            lag_us: 1 << 50,
            ..Config::default()
        },
        ..Options::default()
    };
    let store = Store::open(Path::new("/data"), options.clone()).expect("opens");
    (store, options)
}

#[test]
fn a_partition_goes_once_it_is_over_and_all_of_it_is_settled() {
    let clock = Arc::new(ManualClock::at(RECEIVED_US));
    let (store, options) = store(&clock);
    let write = |batch| store.write(batch, WriteConcern::ACKNOWLEDGED);
    // The items are 1 and 3 of the first batch, and 5 of the second.
    write(batch(&[7, 8], &[1, 3], None)).expect("stored");
    store.seal().expect("sealed");
    write(batch(&[9], &[1], None)).expect("stored");
    write(settles(&[1, 3], Settlement::Replayed)).expect("settled");
    store.seal().expect("sealed");
    clock.advance(DAY_US);
    let gone = || store.drop_settled().expect("looked").events;
    assert_eq!(gone(), 0, "5 waits");
    write(settles(&[5], Settlement::Dropped)).expect("settled");
    clock.jump(-DAY_US);
    assert_eq!(gone(), 0, "the day is not over");
    clock.jump(DAY_US);
    assert_eq!((gone(), gone()), (3, 0));
    let quarantine = Name::new(QUARANTINE).expect("a name");
    assert_eq!(store.snapshot().manifest().parts_of(&quarantine).count(), 0);
    // Dropped items stay settled for ever.
    store.close().expect("closes");
    let store = Store::open(Path::new("/data"), options).expect("opens");
    let write = |batch| store.write(batch, WriteConcern::ACKNOWLEDGED);
    for items in [&[1, 3][..], &[5], &[1, 5]] {
        let again = write(settles(items, Settlement::Replayed)).expect("answered");
        assert!(again.duplicate, "{items:?}");
    }
}

#[test]
fn a_batch_that_settles_what_does_not_wait_is_refused() {
    let (store, _) = store(&Arc::new(ManualClock::at(RECEIVED_US)));
    let write = |batch| store.write(batch, WriteConcern::ACKNOWLEDGED);
    write(batch(&[7, 8], &[1, 3], None)).expect("stored");
    let early = write(settles(&[1, 4], Settlement::Dropped)).expect_err("refused");
    assert!(matches!(early, Error::Invalid { .. }), "{early}");
    write(settles(&[1], Settlement::Replayed)).expect("settled");
    let partly = write(settles(&[1, 3], Settlement::Replayed)).expect_err("refused");
    assert!(
        matches!(
            partly,
            Error::Settled {
                items: 2,
                settled: 1
            }
        ),
        "{partly}"
    );
    // A replay needs as many events as items and no bad ones, a discard no events.
    let items = Ranges::of([3]);
    for (events, bad, how) in [
        (&[][..], &[][..], Settlement::Replayed),
        (&[1], &[], Settlement::Dropped),
        (&[1], &[1], Settlement::Replayed),
    ] {
        let identity = Identity::Settles {
            items: items.clone(),
            how,
        };
        let wrong = write(batch(events, bad, Some(identity))).expect_err("refused");
        assert!(matches!(wrong, Error::Invalid { .. }), "{wrong}");
    }
    let counters = store.counters();
    let of = counters.values().next().expect("one stream");
    assert_eq!(
        of.received,
        of.stored + of.quarantined + of.refused + of.duplicate
    );
    assert_eq!((of.stored, of.quarantined), (3, 2));
}

/// Makes a batch of bad items alone, received at this time.
fn bad(items: u32, received_us: i64) -> Batch {
    let ranks: Vec<u32> = (0..items).collect();
    Batch {
        received_us,
        ..batch(&[], &ranks, None)
    }
}

#[test]
fn numbers_of_another_partition_do_not_count() {
    let (store, _) = store(&Arc::new(ManualClock::at(2 * DAY_US)));
    let write = |batch| store.write(batch, WriteConcern::ACKNOWLEDGED);
    // The clock was set forward a day and back: items 0 and 2 are in the first day, 1 and 3 in
    // the next.
    for received_us in [0, DAY_US, 0, DAY_US] {
        write(bad(1, received_us)).expect("stored");
    }
    write(settles(&[0, 1], Settlement::Replayed)).expect("settled");
    store.seal().expect("sealed");
    let quarantine = Name::new(QUARANTINE).expect("a name");
    let parts = store
        .snapshot()
        .manifest()
        .parts_of(&quarantine)
        .map(|p| p.seq)
        .collect::<Vec<_>>();
    assert_eq!(parts, [(0, 2), (1, 3)]);
    assert_eq!(store.drop_settled().expect("looked").events, 0, "2 waits");
    write(settles(&[2], Settlement::Replayed)).expect("settled");
    assert_eq!(store.drop_settled().expect("looked").events, 2);
}

#[test]
fn a_part_that_came_meanwhile_keeps_its_partition() {
    let (store, _) = store(&Arc::new(ManualClock::at(DAY_US)));
    let write = |batch| store.write(batch, WriteConcern::ACKNOWLEDGED);
    let quarantine = Name::new(QUARANTINE).expect("a name");
    write(bad(1, 0)).expect("stored");
    write(settles(&[0], Settlement::Dropped)).expect("settled");
    store.seal().expect("sealed");
    let looked_at: BTreeSet<u64> = {
        let snapshot = store.snapshot();
        let parts = snapshot.manifest().parts_of(&quarantine);
        parts.map(|p| p.id).collect()
    };
    assert_eq!(looked_at.len(), 1);
    write(bad(1, 0)).expect("stored");
    store.seal().expect("sealed");
    let taken = take(&store.shared, &quarantine, BTreeMap::from([(0, looked_at)]));
    assert_eq!(taken.expect("edited").events, 0);
    assert_eq!(store.snapshot().manifest().parts_of(&quarantine).count(), 2);
}

/// A seal may freeze the memtable while a group is on its way to the journal. A batch without
/// items in that group is in no checkpoint then, and has no sequence number that would keep its
/// segment.
#[test]
fn what_is_given_up_while_a_seal_begins_is_given_up_after_a_kill() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Arc::new(Store::open(dir.path(), options(&fs)).expect("opens"));
    let write = |batch| {
        let ack = store.write(batch, WriteConcern::JOURNALED);
        ack.expect("taken");
    };
    write(batch(&[7], &[1], None));
    let (sealing, frozen) = (Arc::clone(&store), Arc::clone(&store.shared));
    let (begun, seal) = crossbeam_channel::bounded(1);
    fs.hold_syncs("streams");
    fs.before(Op::Write, "journal", move || {
        let seal = std::thread::spawn(move || sealing.seal().map(|_| ()));
        begun.send(seal).expect("somebody waits");
        // A seal requests a new segment for the next group when it freezes.
        while !frozen.state.lock().rotate {
            std::thread::yield_now();
        }
    });
    write(settles(&[1], Settlement::Dropped));
    write(batch(&[9], &[], None));
    fs.release();
    let seal = seal.recv().expect("it has begun");
    seal.join().expect("no panic").expect("seals");
    drop(store);
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    let settled = store.snapshot().settled().how(1);
    assert_eq!(settled, Some(Settlement::Dropped));
}
