use super::*;

const GIB: u64 = 1 << 30;

fn sample(day: f64, bytes: u64) -> Sample {
    Sample {
        at_us: (day * DAY_US as f64) as i64,
        bytes,
    }
}

#[test]
fn the_disk_is_full_when_free_bytes_have_come_to_stay() {
    let forecast = |samples: &[(f64, u64)], now: (f64, u64), free: u64| {
        let samples: Vec<Sample> = samples.iter().map(|(d, b)| sample(*d, *b)).collect();
        full_in_days(&samples, sample(now.0, now.1), free)
    };
    for (samples, now, free, expected) in [
        // Samples that span less than a day allow no forecast.
        (&[][..], (100.0, GIB), GIB, None),
        (&[(99.5, 0)], (100.0, GIB), GIB, None),
        (&[(99.0, 0)], (100.0, GIB), 10 * GIB, Some(10.0)),
        // The oldest sample of the week counts, and older ones do not.
        (&[(80.0, 0)], (100.0, GIB), GIB, None),
        (
            &[(80.0, 0), (96.0, GIB), (99.0, 7 * GIB)],
            (100.0, 17 * GIB),
            8 * GIB,
            Some(2.0),
        ),
        (
            &[(93.0, 0), (99.0, 6 * GIB)],
            (100.0, 7 * GIB),
            14 * GIB,
            Some(14.0),
        ),
        (&[(92.6, 0)], (100.0, 74 * GIB), 10 * GIB, Some(1.0)),
        // The store has not grown, or it has shrunk.
        (&[(95.0, GIB)], (100.0, GIB), GIB, Some(f64::INFINITY)),
        (&[(95.0, 5 * GIB)], (100.0, GIB), GIB, Some(f64::INFINITY)),
        // The disk is full.
        (&[(95.0, 0)], (100.0, GIB), 0, Some(0.0)),
        // The clock was ahead when the sample was taken.
        (&[(200.0, 0)], (100.0, GIB), GIB, None),
    ] {
        let found = forecast(samples, now, free);
        let same = match (found, expected) {
            (Some(a), Some(b)) => a == b || (a - b).abs() < 1e-6,
            (a, b) => a == b,
        };
        assert!(same, "{samples:?} {now:?}: {found:?}, not {expected:?}");
    }
}

#[test]
fn each_day_is_sampled_once_and_a_week_is_kept() {
    let mut samples = Vec::new();
    for hour in 0..24 * 30 {
        let now = sample(f64::from(hour) / 24.0 + 0.001, u64::from(hour as u32));
        if let Some(more) = sampled(&samples, now) {
            samples = more;
        }
    }
    let days: Vec<i64> = samples.iter().map(|s| s.at_us / DAY_US).collect();
    assert_eq!(days, [22, 23, 24, 25, 26, 27, 28, 29]);
    assert!(samples.iter().all(|s| s.bytes % 24 == 0), "{samples:?}");
    // A sample of a clock that was ahead is removed once the clock is right.
    let ahead = sampled(&samples, sample(400.0, 1)).expect("another day");
    assert_eq!(ahead.len(), 1);
    let back = sampled(&ahead, sample(30.0, 2)).expect("another day");
    assert_eq!(back, [sample(30.0, 2)]);
}
