use proptest::prelude::*;

use super::*;

const HOUR_US: i64 = 3_600_000_000;
const YEAR_US: i64 = 365 * KEY_AGE_US;

/// Times of some records, which never fall, and the error of each stamp: in any
/// [`WITNESSES`] in a row fewer than half are not 0.
fn records() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let step = prop_oneof![
        3 => 0..60_000_000_i64,
        2 => 0..4 * HOUR_US,
        1 => Just(KEY_AGE_US),
        1 => 0..40 * KEY_AGE_US,
    ];
    let wrong = prop_oneof![
        1 => Just(KEY_AGE_US + 1),
        1 => Just(-KEY_AGE_US - 1),
        1 => Just(YEAR_US),
        1 => Just(-YEAR_US),
        1 => -9 * KEY_AGE_US..9 * KEY_AGE_US,
    ];
    let record = (step, proptest::option::weighted(0.7, wrong));
    proptest::collection::vec(record, 0..120).prop_map(|steps| {
        let mut records: Vec<(i64, i64)> = Vec::new();
        let mut now_us = 100 * YEAR_US;
        for (step, wrong) in steps {
            now_us += step;
            let window = records.iter().rev().take(WITNESSES - 1);
            let is_full = window.filter(|(_, error)| *error != 0).count() >= WITNESSES / 2;
            let error = wrong.filter(|_| !is_full).unwrap_or(0);
            records.push((now_us, error));
        }
        records
    })
}

proptest! {
    /// The three invariants of the module, by true times that the journal's time does not know.
    #[test]
    fn wrong_stamps_neither_end_nor_extend_the_time_of_a_key(
        records in records(),
        keys_max in WITNESSES as u64..40,
    ) {
        let mut time = JournalTime::new(keys_max);
        for (nth, (now_us, error)) in records.iter().enumerate() {
            time.pass(now_us + error, None);
            while time.forget_first().is_some() {}
            prop_assert!(time.now_us <= *now_us, "past the true time");
            let first = usize::try_from(time.first()).expect("few");
            let later = |since: usize| nth - since;
            for (key, (key_us, _)) in records[..=nth].iter().enumerate() {
                let is_known = key >= first;
                if later(key) >= keys_max as usize {
                    prop_assert!(!is_known, "{key} of {nth}: too many");
                    continue;
                }
                if now_us - key_us <= KEY_AGE_US {
                    prop_assert!(is_known, "{key} of {nth}: forgotten within a day");
                }
                let begins = records.get(key + WITNESSES).map(|(us, _)| *us);
                let begins = begins.filter(|_| later(key) >= 2 * WITNESSES);
                let day_on = records[nth + 1 - WITNESSES.min(nth + 1)].0;
                if begins.is_some_and(|begins_us| day_on - begins_us > KEY_AGE_US) {
                    prop_assert!(!is_known, "{key} of {nth}: remembered for ever");
                }
            }
        }
    }

    /// Whatever the stamps are, the forgotten keys are the oldest, and a group's fork knows what
    /// the time itself would.
    #[test]
    fn a_fork_ages_keys_as_the_time_itself(
        stamps in proptest::collection::vec(-3..3_i64, 0..90),
        at in 0..90_usize,
        keys_max in WITNESSES as u64..40,
    ) {
        let mut time = JournalTime::new(keys_max);
        let (before, after) = stamps.split_at(at.min(stamps.len()));
        let pass = |time: &mut JournalTime, stamp: &i64| {
            time.pass(stamp * (KEY_AGE_US - 1), None);
            while time.forget_first().is_some() {}
        };
        before.iter().for_each(|stamp| pass(&mut time, stamp));
        let (base, mut fork) = (time.clone(), time.fork());
        for stamp in after {
            fork.pass(stamp * (KEY_AGE_US - 1), None);
            pass(&mut time, stamp);
            prop_assert!(time.since.iter().is_sorted());
            prop_assert!(time.next() - time.first() <= keys_max);
            prop_assert_eq!(fork.next(), time.next());
            for key in base.first()..fork.next() {
                let since = base.since(key).or_else(|| fork.since(key));
                prop_assert_eq!(fork.is_over(key, since), key < time.first());
            }
        }
    }
}
