//! Levels whose buckets follow an older release of the time zone database.

use storage::{Manifest, RollupMeta};

use crate::calendar::{Level, zone};
use crate::definition::Definition;

/// Returns the levels of a rollup that hold buckets for which its zone has other rules now than
/// when the rollup was added. Such levels can be read as they are, but do not answer queries on
/// raw events. They are correct again once the rollup is counted anew.
pub fn outdated_levels(
    manifest: &Manifest,
    meta: &RollupMeta,
    definition: &Definition,
) -> Vec<Level> {
    let tz = definition.timezone();
    if tz == chrono_tz::Tz::UTC || meta.zone_data == zone::stamp(tz) {
        return Vec::new();
    }
    let calendar = definition.calendar();
    let held = |level: &Level| {
        let files = manifest.tiles_of(meta.id).flat_map(|t| &t.files);
        let sections = files.flat_map(|f| &f.sections);
        let of_level = sections.filter(|s| s.level == level.as_str());
        of_level
            .map(|s| (s.bucket_min_us, s.bucket_max_us))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    };
    let levels = definition.levels().iter().copied();
    let is_outdated = |level: &Level| {
        held(level).is_some_and(|(first_us, last_us)| {
            let end_us = calendar.bucket(*level, last_us).end_us;
            zone::has_changed(tz, meta.zone_data.as_deref(), (first_us, end_us))
        })
    };
    levels.filter(is_outdated).collect()
}
