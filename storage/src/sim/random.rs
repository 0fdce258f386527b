//! Pseudo-random numbers from a seed.

/// A generator of pseudo-random numbers that returns the same ones for the same seed everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Random(u64);

impl Random {
    /// Returns the generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Returns a number determined by these three.
pub(super) fn decide(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(mix(seed.wrapping_add(1)).wrapping_add(a)).wrapping_add(b.wrapping_mul(31)))
}
