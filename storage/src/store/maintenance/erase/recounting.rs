//! The recount of one rollup of a stream, level by level, from the finest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choice::CountedDays;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Recount, SectionKey, TileFile};
use crate::rollup_hook::{BoxError, Merge, RollupMeta, Section, TileImage};
use crate::snapshot::Snapshot;
use crate::store::Shared;
use crate::store::maintenance::compact::by_level_partition;
use crate::store::staged_files::StagedFiles;

/// The recount of one rollup.
pub(super) struct Recounting<'a> {
    pub(super) shared: &'a Shared,
    pub(super) now: &'a Snapshot,
    /// The manifest without the erased rows, in which finer levels are counted again before coarser
    /// ones.
    pub(super) remaining: &'a mut Manifest,
    pub(super) rollup: &'a RollupMeta,
    pub(super) written: &'a mut StagedFiles,
}

impl Recounting<'_> {
    pub(super) fn recount(&mut self, days: &CountedDays) -> Result<Recount> {
        let rollup = self.rollup;
        let mut done = Recount {
            rollup: rollup.id,
            counted: days.events(),
            waiting: days.waiting,
            below: BTreeMap::new(),
            gone: BTreeSet::new(),
            files: Vec::new(),
        };
        for level in &rollup.levels {
            let mut partitions: BTreeMap<i64, u64> = BTreeMap::new();
            for (day, events) in &days.days {
                let hook = &self.shared.options.rollup_hook;
                let partition = hook.partition(rollup, level, day.start_us);
                let partition = partition.map_err(|e| self.failed(e))?;
                if partition.start_us < rollup.floor_us(level) {
                    *done.below.entry(level.clone()).or_default() += events;
                } else {
                    *partitions.entry(partition.start_us).or_default() += events;
                }
            }
            for (partition_us, erased) in partitions {
                self.recount_partition((level, partition_us), days, erased, &mut done)?;
            }
        }
        self.move_others(&mut done)?;
        Ok(done)
    }

    fn recount_partition(
        &mut self,
        (level, partition_us): (&str, i64),
        days: &CountedDays,
        erased: u64,
        done: &mut Recount,
    ) -> Result<()> {
        let snapshot = self.snapshot();
        let permit = self.shared.background_permits.acquire();
        let hook = &self.shared.options.rollup_hook;
        let place = (level, partition_us);
        let images = hook.recount(self.rollup, place, &days.partitions(), &snapshot);
        drop(permit);
        let images = images.map_err(|e| self.failed(e))?;
        let sections = by_level_partition(&snapshot.manifest, self.rollup).remove(&place);
        let sections = sections.unwrap_or_default();
        let before: u64 = sections.iter().map(|(_, s)| s.events).sum();
        let after: u64 = images.iter().map(|i| i.events).sum();
        if after.checked_add(erased) != Some(before) {
            let what = format!(
                "level {level} counts {before} events of a partition; {erased} of them are erased, \
                 and {after} were counted again"
            );
            return Err(self.failed(what.into()));
        }
        let gone = sections.iter().map(|(f, s)| SectionKey::of(&f.path, s));
        let gone: Vec<SectionKey> = gone.collect();
        let files = self.stage(images)?;
        self.remaining
            .replace_sections(self.rollup.id, &gone, files.clone());
        done.gone.extend(gone);
        done.files.extend(files);
        Ok(())
    }

    /// Moves the other sections of files that lose one: the keys of a file are those of all of its
    /// sections.
    fn move_others(&mut self, done: &mut Recount) -> Result<()> {
        let mut others = Vec::new();
        let tiles = self.now.manifest.tiles_of(self.rollup.id);
        for file in tiles.flat_map(|t| &t.files) {
            let is_gone = |s: &Section| done.gone.contains(&SectionKey::of(&file.file.path, s));
            let (gone, stay): (Vec<&Section>, _) = file.sections.iter().partition(|s| is_gone(s));
            if !gone.is_empty() {
                others.extend(stay.into_iter().map(|s| (&file.file, s)));
            }
        }
        for (file, section) in others {
            let merge = Merge {
                level: &section.level,
                partition_us: section.partition_us,
                sections: vec![(file, section)],
            };
            let hook = &self.shared.options.rollup_hook;
            let images = hook.merge(self.rollup, &[merge], self.now);
            let images = images.map_err(|e| self.failed(e))?;
            done.gone.insert(SectionKey::of(&file.path, section));
            done.files.extend(self.stage(images)?);
        }
        Ok(())
    }

    fn stage(&mut self, images: Vec<TileImage>) -> Result<Vec<TileFile>> {
        let mut files = Vec::new();
        for image in images.into_iter().filter(|i| i.events > 0) {
            files.push(self.written.write_tile(self.shared, self.rollup, image)?);
        }
        Ok(files)
    }

    /// Returns the store as the recount has left it so far.
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            manifest: Arc::new(self.remaining.clone()),
            ..self.now.clone()
        }
    }

    fn failed(&self, source: BoxError) -> Error {
        Error::Rollup {
            rollup: self.rollup.name.to_string(),
            source,
        }
    }
}
