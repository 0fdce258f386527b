//! Compaction debt: the merges that are due, for operators and for the log of maintenance.

use std::collections::BTreeMap;

use super::part_choice::{self, Partition, by_partition};
use super::section_choice::{self, FileSection, LevelPartition, by_level_partition};
use crate::manifest::{Manifest, PartMeta};
use crate::model::Name;
use crate::part::partition_folder;

/// Files due to be merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Debt {
    /// Number of parts, or of sections of tiles.
    pub count: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Returns the debt if every partition were quiet: parts by stream, and sections of tiles by
/// rollup. The result names every stream and rollup.
pub fn compaction_debt(manifest: &Manifest) -> (BTreeMap<Name, Debt>, BTreeMap<Name, Debt>) {
    let streams = manifest.streams.keys();
    let mut of_parts: BTreeMap<Name, Debt> =
        streams.map(|s| (s.clone(), Debt::default())).collect();
    for ((stream, _), parts) in alike_parts(manifest, &|_| true) {
        let debt = of_parts.entry(stream.clone()).or_default();
        debt.count += parts.len() as u64;
        debt.bytes += parts.iter().map(|p| p.file.len).sum::<u64>();
    }
    let mut of_tiles: BTreeMap<Name, Debt> = BTreeMap::new();
    for rollup in &manifest.rollups {
        // A redefined rollup has several generations.
        let debt = of_tiles.entry(rollup.name.clone()).or_default();
        for sections in by_level_partition(manifest, rollup).into_values() {
            for (_, section) in section_choice::alike(sections, true).unwrap_or_default() {
                debt.count += 1;
                debt.bytes += section.len;
            }
        }
    }
    (of_parts, of_tiles)
}

/// Returns the parts of each partition that are merged first.
fn alike_parts<'a>(
    manifest: &'a Manifest,
    quiet: &dyn Fn(Partition<'_>) -> bool,
) -> BTreeMap<Partition<'a>, Vec<&'a PartMeta>> {
    let all = by_partition(manifest).into_iter();
    let alike = all.filter_map(|(partition, mut of)| {
        let alike = part_choice::alike(&mut of, quiet(partition));
        of.truncate(alike);
        (!of.is_empty()).then_some((partition, of))
    });
    alike.collect()
}

/// Returns the number of parts to merge, and the reason in a sentence.
pub(super) fn why_parts(
    manifest: &Manifest,
    only: Option<&Name>,
    quiet: &dyn Fn(Partition<'_>) -> bool,
) -> (u64, String) {
    let mut alike = alike_parts(manifest, quiet);
    alike.retain(|(stream, _), _| only.is_none_or(|only| only == *stream));
    let count: u64 = alike.values().map(|parts| parts.len() as u64).sum();
    let Some((stream, partition_us)) = alike.keys().next() else {
        return (0, "no parts of similar size".into());
    };
    let width = manifest.streams.get(*stream).map(|s| s.partition);
    let folder = partition_folder(width.unwrap_or_default(), *partition_us);
    let others = match alike.len() {
        1 => String::new(),
        more => format!(" and {} other partitions", more - 1),
    };
    (
        count,
        format!("{count} parts of similar size in {stream}, {folder}{others}"),
    )
}

/// Returns the number of sections of tiles to merge, and the reason in a sentence.
pub(super) fn why_tiles(
    manifest: &Manifest,
    quiet: &dyn Fn(LevelPartition<'_>) -> bool,
) -> (u64, String) {
    let (mut count, mut places) = (0, 0);
    for rollup in &manifest.rollups {
        for ((level, partition_us), sections) in by_level_partition(manifest, rollup) {
            let is_quiet = quiet((rollup.id, level, partition_us));
            let alike: Option<Vec<FileSection<'_>>> = section_choice::alike(sections, is_quiet);
            places += u64::from(alike.is_some());
            count += alike.map_or(0, |sections| sections.len() as u64);
        }
    }
    let why = match count {
        0 => "most sections of some tile files have been dropped".into(),
        _ => format!("{count} sections of similar size in {places} partitions of levels"),
    };
    (count, why)
}
