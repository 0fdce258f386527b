use super::*;
use crate::testing::TestRandom;
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

fn of(hashes: &[u64]) -> Distinct {
    let mut state = Distinct::new();
    hashes.iter().for_each(|h| state.insert(*h));
    state
}

fn merged(a: &Distinct, b: &Distinct) -> Distinct {
    let mut sum = a.clone();
    sum.merge(b);
    sum
}

#[test]
fn small_counts_are_exact() {
    for len in 0..=COUPONS_MAX as u64 {
        let hashes: Vec<u64> = (0..len)
            .flat_map(|n| [n, n])
            .map(|n| xxh3_64(&n.to_le_bytes()))
            .collect();
        assert_eq!(of(&hashes).count(), len);
    }
}

#[test]
fn the_standard_error_is_under_two_percent() {
    for (len, trials) in [
        (200_u64, 60),
        (1_000, 60),
        (10_000, 40),
        (100_000, 12),
        (1_000_000, 4),
        (10_000_000, 1),
    ] {
        let mut squares = 0.0;
        for trial in 0..trials {
            let mut registers = [0; REGISTERS];
            for n in 0..len {
                observe(
                    &mut registers,
                    xxh3_64(&(trial * 100_000_000 + n).to_le_bytes()),
                );
            }
            let error = estimate(&registers) / len as f64 - 1.0;
            assert!(error.abs() < 0.07, "{len}: {error}");
            squares += error * error;
        }
        let standard = (squares / trials as f64).sqrt();
        assert!(standard < 0.022, "{len}: {standard}");
    }
}

#[test]
fn the_form_is_a_function_of_the_set() {
    let hashes: Vec<u64> = (0..400_u64).map(|n| xxh3_64(&n.to_le_bytes())).collect();
    for len in [1, 127, 128, 129, 400] {
        let mut reversed = hashes[..len].to_vec();
        reversed.reverse();
        let (front, back) = (of(&hashes[..len / 2]), of(&hashes[len / 2..len]));
        assert_eq!(of(&hashes[..len]).encode(), of(&reversed).encode());
        assert_eq!(of(&hashes[..len]).encode(), merged(&front, &back).encode());
        assert_eq!(of(&hashes[..len]).encode(), merged(&back, &front).encode());
    }
}

#[test]
fn both_forms_of_registers_are_read_back() {
    for len in [200_u64, 1_000, 2_000, 5_000, 100_000] {
        let hashes: Vec<u64> = (0..len).map(|n| xxh3_64(&n.to_le_bytes())).collect();
        let bytes = of(&hashes).encode();
        assert!(bytes.len() <= 3 + DENSE_BYTES);
        let state = Distinct::decode(&bytes).expect("a state");
        assert_eq!(state, of(&hashes));
        assert_eq!(state.encode(), bytes);
    }
}

#[test]
fn hostile_bytes_are_an_error() {
    let mut random = TestRandom(11);
    for len in [3_u64, 150, 5_000] {
        let good = of(&(0..len)
            .map(|n| xxh3_64(&n.to_le_bytes()))
            .collect::<Vec<_>>())
        .encode();
        for _ in 0..3_000 {
            let mut bytes = good.clone();
            let at = random.below(bytes.len().min(40) as u64) as usize;
            bytes[at] = random.next() as u8;
            if random.below(4) == 0 {
                bytes.truncate(random.below(bytes.len() as u64) as usize);
            }
            if let Ok(state) = Distinct::decode(&bytes) {
                assert_eq!(state.encode(), bytes);
                let _ = state.count();
            }
        }
    }
    for bytes in [
        &b""[..],
        b"D\x01",
        b"D\x01\x03",
        b"D\x01\x00\xff\xff\xff\xff\x0f",
        b"H\x01\x00\x00",
    ] {
        assert!(Distinct::decode(bytes).is_err());
    }
}

proptest! {
    #[test]
    fn merging_is_associative_commutative_and_idempotent(
        a in prop::collection::vec(any::<u64>(), 0..150),
        b in prop::collection::vec(0..500_u64, 0..150),
        c in prop::collection::vec(any::<u64>(), 0..20),
    ) {
        let [x, y, z] = [&a, &b, &c].map(|v| of(v));
        let all = of(&[&a[..], &b, &c].concat()).encode();
        prop_assert_eq!(merged(&merged(&x, &y), &z).encode(), all.clone());
        prop_assert_eq!(merged(&z, &merged(&y, &x)).encode(), all.clone());
        prop_assert_eq!(merged(&x, &Distinct::new()).encode(), x.encode());
        prop_assert_eq!(merged(&x, &x).encode(), x.encode());
        prop_assert_eq!(Distinct::decode(&all).expect("a state").encode(), all);
    }
}
