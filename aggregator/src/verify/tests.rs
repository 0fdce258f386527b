//! Tests of the windows that samples take.

use super::*;

fn day(n: i64) -> Bucket {
    let start_us = n * 86_400_000_000;
    let end_us = start_us + 86_400_000_000;
    Bucket { start_us, end_us }
}

#[test]
fn the_turns_of_a_scrub_take_every_window_once() {
    for share in [1.0, 0.5, 0.3, 0.01] {
        let turns = (1.0_f64 / share).ceil() as u64;
        for n in -2000..2000 {
            let taken = (0..turns).filter(|t| Sample::turn(share, *t).takes(&day(n)));
            assert_eq!(taken.count(), 1, "{share}, day {n}");
        }
        assert_eq!(Sample::turn(share, 0), Sample::turn(share, turns));
    }
}

#[test]
fn a_share_is_about_that_many_windows() {
    assert!((0..100).all(|n| Sample::ALL.takes(&day(n))));
    let taken = (0..10_000).filter(|n| Sample::of(0.1, 7).takes(&day(*n)));
    assert!((900..1100).contains(&taken.count()));
}
