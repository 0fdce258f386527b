//! Grouping by a pair of ranks: a stable radix sort of packed integers. Every level of the cascade
//! and every merge uses it.

/// Items by group: group `g` holds `order[offsets[g]..offsets[g + 1]]`.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    pub(crate) order: Vec<u32>,
    pub(crate) offsets: Vec<u32>,
}

impl Grouping {
    /// Returns the number of groups.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the items of one group.
    pub(crate) fn items(&self, group: usize) -> &[u32] {
        &self.order[self.offsets[group] as usize..self.offsets[group + 1] as usize]
    }

    /// Returns the items of each group.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets
            .windows(2)
            .map(|w| &self.order[w[0] as usize..w[1] as usize])
    }

    /// Returns the first item of each group.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = usize> {
        self.offsets[..self.len()]
            .iter()
            .map(|o| self.order[*o as usize] as usize)
    }

    /// Returns the same groups with only the items that pass; a group may become empty.
    pub(crate) fn passing(&self, passing: &[bool]) -> Self {
        let mut order = Vec::new();
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        for items in self.iter() {
            order.extend(items.iter().filter(|item| passing[**item as usize]));
            offsets.push(order.len() as u32);
        }
        Self { order, offsets }
    }

    /// Flattens groups of the groups of `finer` into groups of its items.
    pub(crate) fn over(&self, finer: &Self) -> Self {
        let mut order = Vec::with_capacity(finer.order.len());
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        for group in self.iter() {
            for item in group {
                let (from, to) = (
                    finer.offsets[*item as usize],
                    finer.offsets[*item as usize + 1],
                );
                order.extend_from_slice(&finer.order[from as usize..to as usize]);
            }
            offsets.push(order.len() as u32);
        }
        Self { order, offsets }
    }
}

/// Groups items by (`major`, `minor`): groups in ascending order, the items of a group in the order
/// of the input. `majors` and `minors` are exclusive upper bounds of the ranks.
///
/// # Panics
/// There are 2^32 items or more: callers split their input long before.
pub(crate) fn group(major: &[u32], minor: &[u32], majors: usize, minors: usize) -> Grouping {
    assert!(
        u32::try_from(major.len()).is_ok(),
        "BUG: too many items in one grouping"
    );
    let item_bits = bits(major.len());
    let (major_bits, minor_bits) = (bits(majors), bits(minors));
    if item_bits + major_bits + minor_bits > 64 {
        return group_wide(major, minor);
    }
    let mut words: Vec<u64> = major
        .iter()
        .zip(minor)
        .enumerate()
        .map(|(item, (a, b))| {
            (u64::from(*a) << minor_bits | u64::from(*b)) << item_bits | item as u64
        })
        .collect();
    sort_words(&mut words, item_bits, item_bits + major_bits + minor_bits);
    let item_mask = (1_u64 << item_bits) - 1;
    let order = words.iter().map(|w| (w & item_mask) as u32).collect();
    let offsets = starts(&words, |w| w >> item_bits);
    Grouping { order, offsets }
}

/// Groups as [`group`] does, for ranks whose pairs do not fit a word together with the item.
fn group_wide(major: &[u32], minor: &[u32]) -> Grouping {
    let mut words: Vec<u128> = major
        .iter()
        .zip(minor)
        .enumerate()
        .map(|(item, (a, b))| u128::from(*a) << 64 | u128::from(*b) << 32 | item as u128)
        .collect();
    words.sort_unstable();
    let offsets = starts(&words, |w| w >> 32);
    Grouping {
        order: words.iter().map(|w| *w as u32).collect(),
        offsets,
    }
}

/// Returns the position at which each group begins, and the end.
fn starts<W: Copy, K: PartialEq>(words: &[W], key: impl Fn(W) -> K) -> Vec<u32> {
    let mut offsets = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if at == 0 || key(*word) != key(words[at - 1]) {
            offsets.push(at as u32);
        }
    }
    offsets.push(words.len() as u32);
    offsets
}

/// Returns the number of bits that ranks below `bound` need.
fn bits(bound: usize) -> u32 {
    usize::BITS - bound.saturating_sub(1).leading_zeros()
}

/// Sorts by the bits `from..to`. The bits below ascend already, the bits above are zero.
fn sort_words(words: &mut Vec<u64>, from: u32, to: u32) {
    const DIGIT: u32 = 11;
    if words.is_sorted() {
        return;
    }
    if words.len() < 2_048 {
        words.sort_unstable();
        return;
    }
    let passes = (to - from).div_ceil(DIGIT);
    let mask = (1_u64 << DIGIT) - 1;
    let mut counts = vec![[0_u32; 1 << DIGIT]; passes as usize];
    for word in words.iter() {
        for (pass, counts) in counts.iter_mut().enumerate() {
            counts[(word >> (from + pass as u32 * DIGIT) & mask) as usize] += 1;
        }
    }
    let mut spare = vec![0_u64; words.len()];
    for (pass, counts) in counts.iter_mut().enumerate() {
        let shift = from + pass as u32 * DIGIT;
        if counts.iter().any(|c| *c as usize == words.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            let here = *count;
            *count = next;
            next += here;
        }
        for word in words.iter() {
            let slot = &mut counts[(word >> shift & mask) as usize];
            spare[*slot as usize] = *word;
            *slot += 1;
        }
        std::mem::swap(words, &mut spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(pairs: &[(u32, u32)]) {
        let (major, minor): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let bound = |ranks: &[u32]| ranks.iter().max().map_or(0, |m| *m as usize + 1);
        let mut expected: Vec<(u32, u32, u32)> = pairs
            .iter()
            .enumerate()
            .map(|(item, (a, b))| (*a, *b, item as u32))
            .collect();
        expected.sort_unstable();
        for grouping in [
            group(&major, &minor, bound(&major), bound(&minor)),
            group_wide(&major, &minor),
        ] {
            let mut found = Vec::new();
            for items in grouping.iter() {
                assert!(!items.is_empty());
                let pair = pairs[items[0] as usize];
                assert!(items.iter().all(|i| pairs[*i as usize] == pair));
                found.extend(items.iter().map(|i| (pair.0, pair.1, *i)));
            }
            assert_eq!(found, expected);
            let keys: Vec<_> = grouping.firsts().map(|i| pairs[i]).collect();
            assert!(keys.is_sorted_by(|a, b| a < b));
        }
    }

    proptest! {
        #[test]
        fn groups_are_those_of_a_sort(pairs in prop::collection::vec((0..60_u32, 0..5_000_000_u32), 0..300)) {
            check(&pairs);
        }
    }

    #[test]
    fn long_inputs_take_the_radix_path() {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        check(
            &(0..20_000)
                .map(|_| (next() % 977, next() % 300))
                .collect::<Vec<_>>(),
        );
        check(&(0..20_000).map(|_| (0, next() % 7)).collect::<Vec<_>>());
    }

    #[test]
    fn groups_of_groups_hold_the_items_of_each() {
        let fine = group(&[1, 0, 1, 2], &[0, 0, 0, 0], 3, 1);
        let coarse = group(&[0, 0, 1], &[0, 0, 0], 2, 1);
        let both = coarse.over(&fine);
        assert_eq!(
            both.iter().map(<[u32]>::to_vec).collect::<Vec<_>>(),
            [vec![1, 0, 2], vec![3]]
        );
    }
}
