//! Quiet partitions: those that get no more events, and may be compacted further.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::compact::{LevelPartition, Partition, by_level_partition, by_partition};
use crate::manifest::Manifest;
use crate::model::Name;

/// Time without new events after which a partition is quiet: ten minutes.
const QUIET_US: i64 = 600_000_000;

/// Time since which each (level, time partition) has had the same sections, and each partition of
/// a stream the same number of rows.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    sections: BTreeMap<(u32, String, i64), (u64, i64)>,
    rows: BTreeMap<(Name, i64), (u64, i64)>,
}

impl Quiet {
    /// Notes the partitions that have changed since the last call.
    pub(super) fn observe(&mut self, manifest: &Manifest, now_us: i64) {
        let mut seen = BTreeMap::new();
        for rollup in &manifest.rollups {
            for ((level, partition_us), sections) in by_level_partition(manifest, rollup) {
                let paths: Vec<&str> = sections.iter().map(|(f, _)| f.path.as_str()).collect();
                let hash = xxh3_64(paths.join("\n").as_bytes());
                let place = (rollup.id, level.to_owned(), partition_us);
                let known = self.sections.get(&place).filter(|(h, _)| *h == hash);
                let since = known.map_or(now_us, |(_, since)| *since);
                seen.insert(place, (hash, since));
            }
        }
        self.sections = seen;
        self.observe_parts(manifest, now_us);
    }

    fn observe_parts(&mut self, manifest: &Manifest, now_us: i64) {
        let seen = by_partition(manifest)
            .into_iter()
            .map(|((stream, partition_us), parts)| {
                let partition = (stream.clone(), partition_us);
                let rows = parts.iter().map(|p| p.rows).sum();
                let known = self.rows.get(&partition).filter(|(r, _)| *r == rows);
                let since = known.map_or(now_us, |(_, since)| *since);
                (partition, (rows, since))
            });
        self.rows = seen.collect();
    }

    pub(super) fn is_quiet(
        &self,
        (rollup, level, partition_us): LevelPartition<'_>,
        now_us: i64,
    ) -> bool {
        let known = self.sections.get(&(rollup, level.to_owned(), partition_us));
        known.is_some_and(|(_, since)| now_us - since >= QUIET_US)
    }

    pub(super) fn is_partition_quiet(
        &self,
        (stream, partition_us): Partition<'_>,
        now_us: i64,
    ) -> bool {
        let known = self.rows.get(&(stream.clone(), partition_us));
        known.is_some_and(|(_, since)| now_us - since >= QUIET_US)
    }
}
