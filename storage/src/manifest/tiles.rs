//! Edits of tiles. Each preserves the invariant that `proof.rs` checks: at every level of a
//! rollup each event is in one section, or in the count of events dropped below the level's
//! floor.

use std::collections::BTreeMap;

use super::{Manifest, Pending, TileFile, TileMeta};
use crate::model::Name;
use crate::rollup_hook::{Floor, History, RollupMeta, Section};
use crate::seeded::{self, Bug};

/// Identifies a section by its file, level and time partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SectionKey {
    pub(crate) path: String,
    pub(crate) level: String,
    pub(crate) partition_us: i64,
}

impl SectionKey {
    pub(crate) fn of(path: &str, section: &Section) -> Self {
        Self {
            path: path.to_owned(),
            level: section.level.clone(),
            partition_us: section.partition_us,
        }
    }
}

impl TileMeta {
    /// Removes the sections for which `is_removed` holds. Returns the paths of files that have no
    /// section left, and the events of the removed sections by level.
    pub(super) fn remove_sections(
        &mut self,
        is_removed: impl Fn(&str, &Section) -> bool,
    ) -> (Vec<String>, BTreeMap<String, u64>) {
        let (mut paths, mut events) = (Vec::new(), BTreeMap::new());
        self.files.retain_mut(|file| {
            let path = &file.file.path;
            file.sections.retain(|section| {
                let removed = is_removed(path, section);
                if removed {
                    *events.entry(section.level.clone()).or_default() += section.events;
                }
                !removed
            });
            let keeps = !file.sections.is_empty();
            if !keeps {
                paths.push(path.clone());
            }
            keeps
        });
        (paths, events)
    }

    /// Drops the sections below the floors of the rollup and counts their events as dropped.
    fn cut(&mut self, rollup: &RollupMeta) -> (Vec<String>, BTreeMap<String, u64>) {
        let below = |_: &str, s: &Section| s.partition_us < rollup.floor_us(&s.level);
        let (paths, events) = self.remove_sections(below);
        for (level, events) in &events {
            *self.dropped.entry(level.clone()).or_default() += events;
        }
        (paths, events)
    }
}

impl Manifest {
    /// Adds one tile to every rollup: of the new events, or an empty one where the stream had
    /// none. An empty tile extends the previous one when that is empty too, so idle streams stay
    /// small.
    /// Sections below a level's floor are left out, and their events are counted as late. Rows of
    /// the stream that the rollup's history holds back are counted as missing.
    pub(crate) fn add_tiles(
        &mut self,
        new: &BTreeMap<u32, (u64, Vec<TileFile>)>,
        rows: &BTreeMap<Name, u64>,
        cutoff: u64,
    ) {
        for nth in 0..self.rollups.len() {
            let rollup = &self.rollups[nth];
            let (id, first_seq) = (rollup.id, rollup.first_seq);
            let last = self.tiles.iter_mut().rfind(|t| t.rollup == id);
            let first_seq = last.as_ref().map_or(first_seq, |t| t.cutoff);
            let (events, files) = new.get(&id).cloned().unwrap_or_default();
            if cutoff <= first_seq {
                continue;
            }
            let rows = rows.get(&rollup.stream).copied().unwrap_or(0);
            let held_back = rows.saturating_sub(events);
            match last {
                Some(last) if events == 0 && last.events == 0 => last.cutoff = cutoff,
                _ => {
                    let mut tile = TileMeta {
                        rollup: id,
                        first_seq,
                        cutoff,
                        events,
                        files,
                        dropped: BTreeMap::new(),
                    };
                    let late = if seeded::is(Bug::FloorIgnored) {
                        Default::default()
                    } else {
                        tile.cut(rollup)
                    };
                    self.insert(tile);
                    self.count_late(nth, late);
                }
            }
            if let Some(history) = &mut self.rollups[nth].history {
                history.missing += held_back;
            }
        }
    }

    /// Adds the events that a step has counted of a rollup's history. `remaining` is the rest of
    /// that history. Sections below a floor are left out, since no query ever returned them.
    pub(crate) fn add_history(
        &mut self,
        rollup: u32,
        (files, events): (Vec<TileFile>, u64),
        remaining: Option<History>,
    ) {
        let Some(nth) = self.rollups.iter().position(|r| r.id == rollup) else {
            return;
        };
        let Some(at) = self.tiles.iter().position(|t| t.rollup == rollup) else {
            return;
        };
        self.rollups[nth].history = remaining;
        let mut tile = TileMeta {
            files,
            events,
            dropped: BTreeMap::new(),
            ..self.tiles[at].clone()
        };
        let (paths, _) = tile.cut(&self.rollups[nth]);
        self.add_pending(paths);
        let first = &mut self.tiles[at];
        first.events += events;
        first.files.extend(tile.files);
        for (level, events) in tile.dropped {
            *first.dropped.entry(level).or_default() += events;
        }
    }

    /// Removes a rollup and its files.
    pub(crate) fn drop_rollup(&mut self, rollup: u32) {
        self.rollups.retain(|r| r.id != rollup);
        let (gone, kept) = std::mem::take(&mut self.tiles)
            .into_iter()
            .partition(|t: &TileMeta| t.rollup == rollup);
        self.tiles = kept;
        let gone: Vec<TileMeta> = gone;
        let files = gone.into_iter().flat_map(|t| t.files);
        self.add_pending(files.map(|f| f.file.path).collect());
    }

    fn count_late(&mut self, nth: usize, (paths, events): (Vec<String>, BTreeMap<String, u64>)) {
        for (level, events) in events {
            if let Some(floor) = self.rollups[nth].floors.get_mut(&level) {
                floor.late += events;
            }
        }
        self.add_pending(paths);
    }

    /// Inserts a tile after those of its rollup.
    fn insert(&mut self, tile: TileMeta) {
        let order: BTreeMap<u32, usize> = self
            .rollups
            .iter()
            .enumerate()
            .map(|(nth, r)| (r.id, nth))
            .collect();
        let place = |t: &TileMeta| (order.get(&t.rollup).copied(), t.first_seq);
        let at = self.tiles.partition_point(|t| place(t) <= place(&tile));
        self.tiles.insert(at, tile);
    }

    pub(super) fn add_pending(&mut self, paths: Vec<String>) {
        let since = self.version + 1;
        let pending = paths.into_iter().map(|path| Pending { path, since });
        self.pending.extend(pending);
    }

    /// Replaces some sections of a rollup by `files`. The tiles from the first to the last that
    /// hold one of these sections become one, which covers the same range of sequence numbers.
    pub(crate) fn replace_sections(
        &mut self,
        rollup: u32,
        gone: &[SectionKey],
        files: Vec<TileFile>,
    ) {
        let is_removed = |path: &str, s: &Section| {
            gone.iter()
                .any(|g| g.path == path && g.level == s.level && g.partition_us == s.partition_us)
        };
        let holds = |t: &TileMeta| {
            t.rollup == rollup
                && t.files.iter().any(|f| {
                    let path = &f.file.path;
                    f.sections.iter().any(|s| is_removed(path, s))
                })
        };
        let Some(first) = self.tiles.iter().position(holds) else {
            return;
        };
        let last = self.tiles.iter().rposition(holds).unwrap_or(first);
        let mut joined = self.join(first, last);
        if !seeded::is(Bug::CompactedTwice) {
            let (paths, _) = joined.remove_sections(is_removed);
            self.add_pending(paths);
        }
        joined.files.extend(files);
        self.tiles.insert(first, joined);
    }

    /// Raises the floor of a rollup's level and drops the sections below it. Returns the number
    /// of events that the level no longer counts.
    pub(crate) fn cut_level(&mut self, rollup: u32, level: &str, from_us: i64) -> u64 {
        let Some(meta) = self.rollups.iter_mut().find(|r| r.id == rollup) else {
            return 0;
        };
        let floor = meta
            .floors
            .entry(level.to_owned())
            .or_insert(Floor { from_us, late: 0 });
        floor.from_us = floor.from_us.max(from_us);
        let meta = meta.clone();
        let (mut paths, mut events) = (Vec::new(), 0);
        for tile in self.tiles.iter_mut().filter(|t| t.rollup == rollup) {
            let (removed, cut) = tile.cut(&meta);
            paths.extend(removed);
            events += cut.get(level).copied().unwrap_or(0);
        }
        self.add_pending(paths);
        events
    }

    /// Returns the number of events dropped below a level's floor.
    pub(crate) fn given_up(&self, rollup: u32, level: &str) -> u64 {
        let tiles = self.tiles_of(rollup);
        tiles.filter_map(|t| t.dropped.get(level)).sum()
    }

    /// Lowers the floor of a rollup's level to `from_us`, now that `files` count all `events`
    /// that the level lacked from there on. The rollup's tiles become one, since it is not known
    /// which of them held the events. The floor is removed when no event lies below it any more.
    pub(crate) fn lower_floor(
        &mut self,
        rollup: u32,
        (level, from_us): (&str, i64),
        (files, events): (Vec<TileFile>, u64),
    ) {
        let left = self.given_up(rollup, level).saturating_sub(events);
        let Some(meta) = self.rollups.iter_mut().find(|r| r.id == rollup) else {
            return;
        };
        match meta.floors.get_mut(level) {
            Some(floor) if left > 0 => floor.from_us = from_us,
            _ => drop(meta.floors.remove(level)),
        }
        let Some(mut joined) = self.join_all(rollup) else {
            return;
        };
        joined.dropped.remove(level);
        if left > 0 {
            joined.dropped.insert(level.to_owned(), left);
        }
        joined.files.extend(files);
        self.insert(joined);
    }

    /// Removes all tiles of a rollup and returns them joined into one; `None` if it has none.
    pub(super) fn join_all(&mut self, rollup: u32) -> Option<TileMeta> {
        let of_rollup = |t: &TileMeta| t.rollup == rollup;
        let first = self.tiles.iter().position(of_rollup)?;
        let last = self.tiles.iter().rposition(of_rollup).unwrap_or(first);
        Some(self.join(first, last))
    }

    /// Removes consecutive tiles of one rollup and returns them joined into one.
    fn join(&mut self, first: usize, last: usize) -> TileMeta {
        let mut joined: Option<TileMeta> = None;
        for tile in self.tiles.drain(first..=last) {
            let Some(all) = &mut joined else {
                joined = Some(tile);
                continue;
            };
            all.cutoff = tile.cutoff;
            all.events += tile.events;
            all.files.extend(tile.files);
            for (level, events) in tile.dropped {
                *all.dropped.entry(level).or_default() += events;
            }
        }
        joined.expect("BUG: first..=last is not empty")
    }
}
