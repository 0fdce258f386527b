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
    if !zone::has_changed(definition.timezone(), meta.zone_data.as_deref()) {
        return Vec::new();
    }
    let is_held = |level: &Level| {
        let files = manifest.tiles_of(meta.id).flat_map(|t| &t.files);
        let mut sections = files.flat_map(|f| &f.sections);
        sections.any(|section| section.level == level.as_str())
    };
    let levels = definition.levels().iter().copied();
    levels.filter(is_held).collect()
}
