use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn numbers() -> impl Strategy<Value = BTreeSet<u64>> {
    prop::collection::btree_set(0..60_u64, 0..40)
}

proptest! {
    #[test]
    fn ranges_are_sets_of_numbers(a in numbers(), b in numbers(), from in 0..60_u64, len in 0..60_u64) {
        let (mut ranges, other) = (Ranges::of(a.clone()), Ranges::of(b.clone()));
        prop_assert_eq!(ranges.count(), a.len() as u64);
        prop_assert_eq!(ranges.end(), a.last().map_or(0, |n| n + 1));
        prop_assert_eq!(ranges.in_common(&other), a.intersection(&b).count() as u64);
        let to = from + len;
        prop_assert_eq!(ranges.count_in((from, to)), a.range(from..to).count() as u64);
        for n in 0..61 {
            prop_assert_eq!(ranges.contains(n), a.contains(&n));
        }
        ranges.add(&other);
        prop_assert_eq!(&ranges, &Ranges::of(a.union(&b).copied()));
        // Ranges are joined as far as possible, and so they are read back.
        let plain = Vec::from(ranges.clone());
        prop_assert_eq!(Ranges::try_from(plain), Ok(ranges));
    }
}

#[test]
fn ranges_that_do_not_rise_are_refused() {
    for wrong in [
        vec![(1, 1)],
        vec![(2, 1)],
        vec![(3, 4), (1, 2)],
        vec![(1, 2), (2, 3)],
    ] {
        assert!(Ranges::try_from(wrong.clone()).is_err(), "{wrong:?}");
    }
}

#[test]
fn what_is_settled_in_part_is_neither_first_nor_a_duplicate() {
    let mut settled = Settled::default();
    settled.add(&Ranges::of([1, 2]), Settlement::Replayed);
    settled.add(&Ranges::of([5]), Settlement::Dropped);
    let ask =
        |items: &[u64], taken| settled.are_resolved(&Ranges::of(items.iter().copied()), taken);
    assert!(!ask(&[3, 4], 0).expect("asked"));
    assert!(ask(&[1, 5], 0).expect("asked"));
    assert!(matches!(
        ask(&[1, 3], 0),
        Err(Error::Settled {
            items: 2,
            settled: 1
        })
    ));
    // A batch of the same group resolved the others.
    assert!(ask(&[1, 3], 1).expect("asked"));
    assert_eq!(settled.how(2), Some(Settlement::Replayed));
    assert_eq!(settled.how(5), Some(Settlement::Dropped));
    assert_eq!(settled.how(3), None);
}
