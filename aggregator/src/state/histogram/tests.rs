use super::*;
use crate::testing::TestRandom;
use hdrhistogram::Histogram as Oracle;
use proptest::prelude::*;

fn of(layout: Layout, values: &[i128]) -> Histogram {
    let mut state = Histogram::new(layout, false);
    values.iter().for_each(|v| state.record(*v));
    state
}

fn merged(a: &Histogram, b: &Histogram) -> Histogram {
    let mut sum = a.clone();
    sum.merge(b).expect("one layout");
    sum
}

#[test]
fn quantiles_are_those_of_hdrhistogram() {
    let mut random = TestRandom(3);
    for digits in [1, 2, 3] {
        let layout = Layout::new(digits, 1 << 40).expect("a layout");
        for len in [1, 2, 10, 1_000] {
            let mut oracle = Oracle::<u64>::new_with_bounds(1, 1 << 40, digits).expect("an oracle");
            let values: Vec<i128> = (0..len)
                .map(|_| i128::from(random.next() >> (24 + random.below(38))))
                .collect();
            values
                .iter()
                .for_each(|v| oracle.record(*v as u64).expect("in range"));
            let state = of(layout, &values);
            for q in [0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
                assert_eq!(
                    state.quantile(q),
                    Some(oracle.value_at_quantile(q) as f64),
                    "{digits} digits, q {q}"
                );
            }
        }
    }
}

#[test]
fn every_value_lies_in_its_bucket_and_within_its_digits() {
    for (digits, precision) in [(1, 10), (2, 100), (3, 1_000)] {
        let layout = Layout::new(digits, 1 << 62).expect("a layout");
        for power in 0..62 {
            for value in [
                (1_u64 << power) - 1,
                1 << power,
                (1 << power) + 1,
                (1 << power) / 3 * 2,
            ] {
                let index = layout.index(value);
                let highest = layout.highest(index);
                assert!(
                    highest >= value && layout.index(highest) == index,
                    "{value}"
                );
                assert!(
                    highest - value <= value / precision,
                    "{digits} digits: {value} reads as {highest}"
                );
                assert_eq!(layout.index(highest + 1), index + 1);
            }
        }
        assert_eq!(layout.len(), layout.index(1 << 62) + 1);
    }
}

#[test]
fn values_outside_the_layout_are_counted_apart() {
    let state = of(
        Layout::new(2, 1_000).expect("a layout"),
        &[-5, 3, 1_000, 1_001, 5_000],
    );
    assert_eq!((state.count(), state.overflow()), (5, 2));
    assert_eq!(
        (state.min(), state.max(), state.sum()),
        (Some(-5), Some(5_000), Some(6_999))
    );
    // Ranks 1 to 4 are 3, 1000, and the two above.
    assert_eq!(state.quantile(0.25), Some(3.0));
    assert_eq!(state.quantile(0.5), Some(1_003.0));
    assert_eq!(state.quantile(0.99), Some(5_000.0));
    assert_eq!(Histogram::new(Layout::DEFAULT, false).quantile(0.5), None);
}

#[test]
fn decimals_round_half_to_even() {
    assert_eq!(
        [500_000, 1_500_000, 1_500_001, -500_000].map(|v| bucket_value(v, true)),
        [0, 2, 2, 0]
    );
}

#[test]
fn states_of_different_layouts_do_not_merge() {
    let mut a = Histogram::new(Layout::DEFAULT, false);
    assert!(
        a.merge(&Histogram::new(
            Layout::new(3, 1 << 40).expect("a layout"),
            false
        ))
        .is_err()
    );
    assert!(a.merge(&Histogram::new(Layout::DEFAULT, true)).is_err());
}

#[test]
fn hostile_bytes_are_an_error() {
    let good = of(Layout::DEFAULT, &[1, 2, 300, 1 << 41]).encode();
    assert_eq!(Histogram::decode(&good).expect("a state").encode(), good);
    let mut random = TestRandom(5);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = random.next() as u8;
        bytes.truncate(1 + random.below(bytes.len() as u64) as usize);
        // Bytes that can be decoded are canonical.
        if let Ok(state) = Histogram::decode(&bytes) {
            assert_eq!(state.encode(), bytes);
            let _ = (state.quantile(0.5), state.sum());
        }
    }
    for bytes in [
        &b""[..],
        b"H",
        b"D\x01",
        &[
            b'H', 1, 2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
        ],
    ] {
        assert!(Histogram::decode(bytes).is_err());
    }
}

proptest! {
    #[test]
    fn merging_is_associative_and_commutative_with_an_identity(
        a in prop::collection::vec(-10_i128..1 << 42, 0..40),
        b in prop::collection::vec(-10_i128..5_000, 0..40),
        c in prop::collection::vec(-10_i128..5_000, 0..40),
    ) {
        let [x, y, z] = [&a, &b, &c].map(|v| of(Layout::DEFAULT, v));
        let all = of(Layout::DEFAULT, &[&a[..], &b, &c].concat()).encode();
        prop_assert_eq!(merged(&merged(&x, &y), &z).encode(), all.clone());
        prop_assert_eq!(merged(&x, &merged(&z, &y)).encode(), all.clone());
        prop_assert_eq!(merged(&x, &Histogram::new(Layout::DEFAULT, false)).encode(), x.encode());
        prop_assert_eq!(Histogram::decode(&all).expect("a state").encode(), all);
    }
}
