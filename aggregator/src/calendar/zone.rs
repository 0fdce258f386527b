//! The release of the time zone database that the buckets of a rollup follow.

use chrono_tz::Tz;

/// Returns the release of the time zone database that buckets and SQL follow.
pub fn release() -> &'static str {
    chrono_tz::IANA_TZDB_VERSION
}

/// Returns a fingerprint of a zone's offsets between 1970 and 2100: two releases with the same
/// fingerprint make the same buckets.
pub(crate) fn fingerprint(zone: Tz) -> u64 {
    let (from_s, to_s) = (0, 4_102_444_800);
    let mut bytes = zone.offset_s(from_s).to_le_bytes().to_vec();
    for (start, offset) in zone.changes() {
        if (from_s..to_s).contains(&start) {
            bytes.extend(start.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
        }
    }
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// Returns the release and fingerprint that a manifest records for a rollup; `None` for UTC.
pub(crate) fn stamp(zone: Tz) -> Option<String> {
    (zone != Tz::UTC).then(|| format!("{} {:016x}", release(), fingerprint(zone)))
}

/// Checks whether buckets may have other bounds under these rules than under those of a [`stamp`].
/// A rollup without a stamp is of an older version, which followed an older release.
pub(crate) fn has_changed(zone: Tz, recorded: Option<&str>) -> bool {
    let recorded = recorded.and_then(|stamp| stamp.split(' ').nth(1));
    zone != Tz::UTC && recorded != Some(format!("{:016x}", fingerprint(zone)).as_str())
}
