//! A store recovers from a full disk by its own means: by dropping, detaching, retention or a
//! stop.

use super::*;
use crate::concern::WriteConcern;
use crate::limits::Retention;
use crate::model::Name;
use crate::rot::life::{self, DATA};
use crate::sim::SimFs;
use crate::store::{Options, Store, StreamConfig};
use crate::testing::batch;

const DAY_US: i64 = 86_400_000_000;
const RESERVE_BYTES: u64 = 64 << 10;
/// Sixteen times the reserve.
const DISK_BYTES: u64 = 1 << 20;

fn options(fs: &SimFs, reserve_bytes: u64) -> Options {
    let mut options = life::options(fs);
    options.config.reserve_bytes = reserve_bytes;
    let keeps_little = StreamConfig {
        retention: Retention {
            age_us: None,
            bytes: Some(1),
        },
        ..StreamConfig::default()
    };
    options.config.streams.insert(events(), keeps_little);
    options
}

fn events() -> Name {
    Name::new("events").expect("a name")
}

fn write(store: &Store, times: &[i64]) -> Result<()> {
    let written = store.write(batch(times, &[], None), WriteConcern::JOURNALED);
    written.map(|_| ())
}

/// Makes a store with a sealed day and one more event in memory, on a disk without a free block.
fn full(reserve_bytes: u64) -> (SimFs, Store) {
    let fs = SimFs::new();
    fs.set_capacity(Some(DISK_BYTES));
    let store = Store::open(Path::new(DATA), options(&fs, reserve_bytes)).expect("opens");
    write(&store, &[1, 2]).expect("taken");
    store.seal().expect("seals");
    write(&store, &[DAY_US]).expect("taken");
    fill(&fs);
    let refused = write(&store, &[DAY_US + 1]).expect_err("no room");
    assert_eq!(refused.kind(), Kind::DiskFull);
    assert!(store.status().disk_full);
    (fs, store)
}

/// Takes every free block, as another user of the disk would.
fn fill(fs: &SimFs) {
    let ballast = Path::new("/ballast");
    let file = if fs.exists(ballast) {
        fs.open(ballast).expect("opens")
    } else {
        fs.create_new(ballast).expect("created")
    };
    let len = file.len().expect("known");
    let free = fs.space(ballast).expect("known").free;
    let more = vec![7; usize::try_from(free).expect("small")];
    file.write_all_at(&more, len).expect("what is free");
    assert_eq!(fs.space(ballast).expect("known").free, 0);
}

#[test]
fn on_a_full_disk_partitions_are_dropped_detached_and_retained_with_the_reserve() {
    type Work = fn(&Store) -> Result<u64>;
    let works: [(&str, Work); 3] = [
        ("drop", |store| {
            let dropped = store.drop_partitions(&events(), (0, DAY_US), false);
            dropped.map(|report| report.events)
        }),
        ("detach", |store| {
            let detached = store.detach_partitions(&events(), (0, DAY_US), false);
            detached.map(|report| report.events)
        }),
        ("retain", |store| {
            let gone = store.retain(Some(&events()), false)?;
            Ok(gone.iter().map(|leaving| leaving.events).sum())
        }),
    ];
    for (name, work) in works {
        let (_fs, store) = full(0);
        let refused = work(&store).expect_err("without a reserve there is no way");
        assert_eq!(refused.kind(), Kind::DiskFull, "{name}: {refused}");
        let (fs, store) = full(RESERVE_BYTES);
        let gone = work(&store).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(gone >= 2, "{name}: {gone}");
        // Events never take the space that was kept back.
        fill(&fs);
        let refused = write(&store, &[DAY_US + 1]).expect_err("no room yet");
        assert_eq!(refused.kind(), Kind::DiskFull, "{name}: {refused}");
        assert!(store.status().disk_full, "{name}");
        fs.remove(Path::new("/ballast")).expect("removed");
        write(&store, &[DAY_US + 1]).expect("writes resume by themselves");
        assert!(!store.status().disk_full, "{name}");
        assert!(
            fs.exists(&Path::new(DATA).join(FILE)),
            "{name}: room is kept back again"
        );
    }
}

#[test]
fn nobody_takes_events_into_the_room_that_was_kept_back() {
    let (fs, store) = full(RESERVE_BYTES);
    assert!(store.shared.reserve.release(&fs));
    let free = fs.space(Path::new(DATA)).expect("known").free;
    assert!(
        free >= RESERVE_BYTES,
        "{free} bytes are free, and more than a batch takes"
    );
    let refused = write(&store, &[DAY_US + 1]).expect_err("no room yet");
    assert_eq!(refused.kind(), Kind::DiskFull, "{refused}");
    assert!(store.status().disk_full);
    fs.remove(Path::new("/ballast")).expect("removed");
    write(&store, &[DAY_US + 1]).expect("writes resume by themselves");
    assert!(!store.status().disk_full);
}

#[test]
fn a_store_on_a_full_disk_stops_well_and_starts_again() {
    for reserve_bytes in [0, RESERVE_BYTES] {
        let (fs, store) = full(reserve_bytes);
        store.close().expect("a stop is no failure");
        fill(&fs);
        let fs = fs.kill();
        let opened = Store::open(Path::new(DATA), options(&fs, reserve_bytes));
        if reserve_bytes == 0 {
            assert_eq!(opened.expect_err("no room").kind(), Kind::DiskFull);
            fs.remove(Path::new("/ballast")).expect("removed");
        } else {
            drop(opened);
        }
        let fs = fs.kill();
        let _none = fs.remove(Path::new("/ballast"));
        let store = Store::open(Path::new(DATA), options(&fs, reserve_bytes)).expect("opens");
        let snapshot = store.snapshot();
        let sealed: u64 = snapshot.manifest().parts.iter().map(|p| p.rows).sum();
        let memory = snapshot.chunks("events").iter();
        let all = sealed + memory.map(|c| c.events.num_rows() as u64).sum::<u64>();
        assert_eq!(all, 3, "everything acknowledged is there");
        write(&store, &[5]).expect("taken");
    }
}

#[test]
fn a_writer_starts_on_a_full_disk_with_the_reserve_and_answers() {
    let (fs, store) = full(RESERVE_BYTES);
    drop(store);
    let fs = fs.kill();
    let store = Store::open(Path::new(DATA), options(&fs, RESERVE_BYTES)).expect("opens");
    assert_eq!(store.snapshot().chunks("events").len(), 1);
    assert!(store.status().disk_full);
    let refused = write(&store, &[5]).expect_err("no room");
    assert_eq!(refused.kind(), Kind::DiskFull);
    let dropped = store.drop_partitions(&events(), (0, DAY_US), false);
    assert_eq!(dropped.expect("drops").events, 2);
}
