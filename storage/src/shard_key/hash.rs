//! Hashes that are the same on every machine.

/// Adds a value to a hash (FNV-1a). A null and an empty text differ.
pub fn shard_hash(hash: u64, value: Option<&[u8]>) -> u64 {
    let bytes = value.unwrap_or(&[0xff]);
    let mut hash = hash ^ 0xcbf2_9ce4_8422_2325;
    for byte in bytes.iter().chain(&[0xfe]) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

/// Spreads numbers that follow one another (the finalizer of SplitMix64).
pub fn shard_mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
