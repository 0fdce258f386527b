//! Tests of the selection against its guarantees.

use proptest::prelude::*;

use super::*;
use crate::file::FileRef;
use crate::manifest::{DetachedPartition, StreamMeta};
use crate::model::StreamKind;
use crate::store::Config;

const DAY_US: i64 = 86_400_000_000;

fn name() -> Name {
    Name::new("events").expect("a name")
}

/// Returns a part of a day with this many events, the last of them at noon.
fn part(id: u64, day: i64, rows: u64, bytes: u64) -> PartMeta {
    PartMeta {
        id,
        stream: name(),
        partition_us: day * DAY_US,
        file: FileRef {
            path: format!("streams/events/{day}/{id:016x}.parquet"),
            len: bytes,
            crc: 0,
            blocks: Vec::new(),
            block_bytes: 256 * 1024,
        },
        rows,
        seq: (id, id),
        time: (day * DAY_US, day * DAY_US + DAY_US / 2),
        text_range: BTreeMap::new(),
    }
}

/// Returns a manifest with parts of these days, events and bytes.
fn manifest(parts: &[(i64, u64, u64)]) -> Manifest {
    let mut manifest = Manifest::new("0123456789abcdef0123456789abcdef".into(), 0);
    let meta: StreamMeta = Config::default().stream_meta(&name(), StreamKind::Documents, 0);
    manifest.streams.insert(name(), meta);
    let parts = parts.iter().enumerate();
    manifest.parts = parts
        .map(|(i, (day, rows, bytes))| part(i as u64, *day, *rows, *bytes))
        .collect();
    manifest
}

fn limits(age_days: Option<i64>, bytes: Option<u64>) -> BTreeMap<Name, Retention> {
    let retention = Retention {
        age_us: age_days.map(|d| d * DAY_US),
        bytes,
    };
    BTreeMap::from([(name(), retention)])
}

/// Returns the days to be dropped, with the reason.
fn days(
    manifest: &Manifest,
    limits: &BTreeMap<Name, Retention>,
    now: Option<i64>,
) -> Vec<(i64, Why)> {
    let chosen = choose(manifest, limits, now.map(|day| day * DAY_US));
    chosen
        .iter()
        .map(|l| (l.partition_us / DAY_US, l.why))
        .collect()
}

#[test]
fn a_partition_goes_when_its_end_is_old_enough_and_not_before() {
    let manifest = manifest(&[(1, 10, 5), (2, 10, 5), (5, 10, 5), (10, 10, 5)]);
    let aged = limits(Some(5), None);
    // The newest event is at noon of day 10, so the limit is noon of day 5, before that day ends.
    assert_eq!(
        days(&manifest, &aged, Some(100)),
        [(1, Why::Age), (2, Why::Age)]
    );
    assert_eq!(
        days(&manifest, &aged, Some(8)),
        [(1, Why::Age), (2, Why::Age)]
    );
    assert_eq!(days(&manifest, &aged, Some(7)), [(1, Why::Age)]);
    assert_eq!(days(&manifest, &aged, None), []);
}

#[test]
fn bytes_take_the_oldest_and_never_the_newest() {
    let manifest = manifest(&[(3, 1, 40), (1, 1, 10), (2, 1, 30), (2, 1, 5)]);
    assert_eq!(days(&manifest, &limits(None, Some(85)), None), []);
    assert_eq!(
        days(&manifest, &limits(None, Some(75)), None),
        [(1, Why::Bytes)]
    );
    let all_but_one = [(1, Why::Bytes), (2, Why::Bytes)];
    assert_eq!(days(&manifest, &limits(None, Some(40)), None), all_but_one);
    assert_eq!(days(&manifest, &limits(None, Some(1)), None), all_but_one);
}

#[test]
fn a_detached_partition_and_what_came_for_it_stay() {
    let mut manifest = manifest(&[(1, 10, 50), (2, 10, 50), (9, 10, 50)]);
    manifest.detached.push(DetachedPartition {
        stream: name(),
        partition_us: DAY_US,
        complete_from: 0,
        folder: "detached/events/1".into(),
        parts: vec![part(7, 1, 1, 1000)],
    });
    assert_eq!(
        days(&manifest, &limits(Some(3), None), Some(20)),
        [(2, Why::Age)]
    );
    assert_eq!(
        days(&manifest, &limits(None, Some(1)), None),
        [(2, Why::Bytes)],
        "and its bytes are not the stream's"
    );
}

#[test]
fn a_flood_is_a_day_like_any_other() {
    let mut parts: Vec<(i64, u64, u64)> = (0..60).map(|day| (day, 10, 1)).collect();
    parts[20].1 = 1_000_000_000;
    let gone = days(&manifest(&parts), &limits(Some(30), None), Some(1000));
    assert_eq!(gone.len(), 29, "to noon of day 59, less 30 days: {gone:?}");
}

fn parts() -> impl Strategy<Value = Vec<(i64, u64, u64)>> {
    proptest::collection::vec((0..40_i64, 1..50_u64, 1..100_u64), 1..60)
}

proptest! {
    #[test]
    fn what_goes_is_old_enough_or_too_much(
        parts in parts(),
        age in proptest::option::of(1..40_i64),
        most in proptest::option::of(1..3000_u64),
        now in proptest::option::of(0..80_i64),
    ) {
        let manifest = manifest(&parts);
        let chosen = days(&manifest, &limits(age, most), now);
        let newest = parts.iter().map(|p| p.0).max().expect("a part");
        let gone = |day: i64| chosen.iter().any(|(d, _)| *d == day);
        prop_assert!(chosen.is_sorted_by(|a, b| a.0 < b.0), "in order, each once");
        for (day, why) in &chosen {
            match (why, age, now) {
                (Why::Age, Some(age), Some(now)) => {
                    let limit_us = (now * DAY_US).min(newest * DAY_US + DAY_US / 2) - age * DAY_US;
                    prop_assert!((day + 1) * DAY_US <= limit_us, "{day} is too young");
                }
                (Why::Age, ..) => prop_assert!(false, "no age, or no time"),
                (Why::Bytes, ..) => {
                    prop_assert!(*day != newest, "the newest");
                    // Dropping only the days before it would have left too many bytes.
                    let kept = parts.iter().filter(|p| !gone(p.0) || p.0 >= *day);
                    let younger_gone = kept.map(|p| p.2).sum::<u64>();
                    prop_assert!(most.is_some_and(|most| younger_gone > most));
                }
            }
        }
        let left: u64 = parts.iter().filter(|p| !gone(p.0)).map(|p| p.2).sum();
        let of_newest: u64 = parts.iter().filter(|p| p.0 == newest).map(|p| p.2).sum();
        prop_assert!(most.is_none_or(|most| left <= most.max(of_newest)), "{left} bytes are left");
    }

    #[test]
    fn fewer_events_ahead_than_a_usual_partition_push_nothing_out(
        parts in parts(),
        ahead in proptest::collection::vec((100..100_000_i64, 1..10_u64), 1..4),
        age in 1..40_i64,
    ) {
        let newest = parts.iter().map(|p| p.0).max().expect("a part");
        let mut all = parts.clone();
        all.extend(ahead.iter().map(|(day, rows)| (*day, *rows, 1)));
        let mut usual: BTreeMap<i64, u64> = BTreeMap::new();
        for (day, rows, _) in &all {
            *usual.entry(*day).or_default() += rows;
        }
        let mut usual: Vec<u64> = usual.into_values().collect();
        usual.sort_unstable();
        let usual = usual[usual.len() / 2].max(2);
        prop_assume!(ahead.iter().map(|a| a.1).sum::<u64>() < usual);
        for (day, _) in days(&manifest(&all), &limits(Some(age), None), Some(1_000_000)) {
            let limit_us = newest * DAY_US + DAY_US / 2 - age * DAY_US;
            prop_assert!((day + 1) * DAY_US <= limit_us, "{day} is too young");
        }
    }
}
