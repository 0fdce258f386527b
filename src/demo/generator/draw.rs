//! Random numbers and draws from fixed distributions, the same for ever.
//!
//! Invariant: what is drawn depends on the seed and the weights alone. Weights
//! are whole numbers, so thresholds are computed exactly.

/// Random numbers that are the same for ever: xoshiro256++ of Blackman and
/// Vigna, its state filled from the seed by SplitMix64 as its authors advise.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    pub(crate) state: [u64; 4],
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut counter = seed;
        let state = [(); 4].map(|()| {
            counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = counter;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        Self { state }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `[0, bound)`; the bias is below `bound` / 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in `[0, 1)` with 53 bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws from a fixed discrete distribution in constant time (Walker's alias
/// method, in Vose's construction), with whole numbers for weights so that
/// rounding plays no part.
#[derive(Debug)]
pub(crate) struct Alias {
    /// Of each column: draws below this go to the column itself, others to the alias.
    /// In units of 2^-32.
    pub(crate) columns: Vec<(u32, u32)>,
}

impl Alias {
    /// Rank k (from 1) has the weight k^-exponent.
    pub(crate) fn zipf(count: usize, exponent: f64) -> Self {
        let weights: Vec<u64> = (1..=count)
            .map(|rank| ((rank as f64).powf(-exponent) * (1u64 << 40) as f64) as u64)
            .collect();
        Self::new(&weights)
    }

    pub(crate) fn new(weights: &[u64]) -> Self {
        let count = weights.len() as u128;
        let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        // Scaled so that the mean column holds exactly `total`.
        let mut scaled: Vec<u128> = weights.iter().map(|&w| u128::from(w) * count).collect();
        let mut columns = vec![(u32::MAX, 0); weights.len()];
        for (index, column) in columns.iter_mut().enumerate() {
            column.1 = index as u32;
        }
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&index| scaled[index] < total);
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            // Below `total`, so the quotient is below 2^32.
            columns[low] = (((scaled[low] << 32) / total) as u32, high as u32);
            scaled[high] -= total - scaled[low];
            if scaled[high] < total {
                large.pop();
                small.push(high);
            }
        }
        Self { columns }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let bits = random.next();
        // The high half chooses the column, the low half within it.
        let index = ((bits >> 32) * self.columns.len() as u64) >> 32;
        let (threshold, alias) = self.columns[index as usize];
        if (bits as u32) < threshold {
            index as usize
        } else {
            alias as usize
        }
    }
}
