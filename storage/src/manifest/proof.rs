//! The self-check of a manifest: invariants 2 to 6, verified whenever one is read or written, and
//! those of an edit, 1 and 7.

use std::collections::{BTreeMap, BTreeSet};

use super::{Manifest, StreamMeta, TileMeta};
use crate::model::{Name, SEQ_END_MAX};
use crate::rollup_hook::RollupMeta;
use crate::shard_key::Division;

impl Manifest {
    /// Checks invariants 2 to 6.
    pub(crate) fn check(&self) -> Result<(), String> {
        for rollup in &self.rollups {
            self.check_tiles(rollup)?;
        }
        for (name, stream) in &self.streams {
            self.check_parts(name, stream)?;
        }
        self.check_detached()?;
        if self.store_id.len() != 32 || !self.store_id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("{:?} is not a store id", self.store_id));
        }
        if !self.next_file_id().is_assignable() {
            return Err("no epoch or file number is left".into());
        }
        self.check_counters()?;
        self.check_reserved()?;
        let files = || self.files().chain(self.detached_files());
        if let Some(file) = files().find(|f| !f.blocks_fit()) {
            let (path, blocks, len) = (&file.path, file.blocks.len(), file.len);
            return Err(format!(
                "{path} has {len} bytes but {blocks} block checksums"
            ));
        }
        let mut named = BTreeSet::new();
        let pending = self.pending.iter().map(|p| p.path.as_str());
        for path in files().map(|f| f.path.as_str()).chain(pending) {
            if !named.insert(path) {
                return Err(format!("{path} is named twice"));
            }
        }
        Ok(())
    }

    /// Checks that what later edits add to does not overflow.
    fn check_counters(&self) -> Result<(), String> {
        let end = self.sealed_seq.max(self.next_seq);
        if end > SEQ_END_MAX {
            return Err(format!(
                "its sequence numbers end at {end}, beyond the last one of an _id"
            ));
        }
        if self.version == u64::MAX
            || self.journal_floor == u64::MAX
            || self.next_rollup == u32::MAX
        {
            return Err("no version, journal segment or rollup is left".into());
        }
        Ok(())
    }

    fn check_parts(&self, name: &Name, stream: &StreamMeta) -> Result<(), String> {
        let dropped: BTreeSet<i64> = stream.dropped.iter().map(|d| d.partition_us).collect();
        if dropped.len() != stream.dropped.len() {
            return Err(format!("stream {name}: a partition was dropped twice"));
        }
        let live: u128 = self.parts_of(name).map(|p| u128::from(p.rows)).sum();
        let gone: u128 = stream.dropped.iter().map(|d| u128::from(d.events)).sum();
        let detached = self.detached_of(name).flat_map(|d| &d.parts);
        let detached: u128 = detached.map(|p| u128::from(p.rows)).sum();
        if live + gone + detached != u128::from(stream.sealed_events) {
            return Err(format!(
                "stream {name}: parts hold {live} events, {gone} were dropped, {detached} are detached, {} were sealed",
                stream.sealed_events
            ));
        }
        Ok(())
    }

    fn check_tiles(&self, rollup: &RollupMeta) -> Result<(), String> {
        let mut at = rollup.first_seq;
        let mut events: u128 = 0;
        for tile in self.tiles_of(rollup.id) {
            if tile.first_seq != at || tile.cutoff <= tile.first_seq {
                return Err(format!(
                    "rollup {}: a tile covers {}..{} but should start at {at}",
                    rollup.name, tile.first_seq, tile.cutoff
                ));
            }
            at = tile.cutoff;
            events += u128::from(tile.events);
            check_levels(rollup, tile)?;
        }
        if at != self.sealed_seq.max(rollup.first_seq) {
            return Err(format!(
                "rollup {}: tiles end at {at}, last_run is {}",
                rollup.name, self.sealed_seq
            ));
        }
        let sealed = self
            .streams
            .get(&rollup.stream)
            .map_or(0, |s| s.sealed_events);
        let missing = rollup.missing();
        if events + u128::from(missing) != u128::from(sealed) {
            return Err(format!(
                "rollup {}: tiles hold {events} events and {missing} are not counted, {sealed} were sealed",
                rollup.name
            ));
        }
        Ok(())
    }

    /// Checks that `next` may follow this version.
    pub(crate) fn check_edit(&self, next: &Self) -> Result<(), String> {
        if next.version != self.version + 1 || next.store_id != self.store_id {
            return Err(format!(
                "version {} cannot follow {}",
                next.version, self.version
            ));
        }
        if next.sealed_seq < self.sealed_seq
            || next.journal_floor < self.journal_floor
            || next.writer_epoch < self.writer_epoch
            || next.next_seq < self.next_seq
            || next.next_seq < next.sealed_seq
        {
            return Err(
                "a sequence number, the writer epoch or the journal floor would decrease".into(),
            );
        }
        self.check_journal(next)?;
        for rollup in &self.rollups {
            if let Some(after) = next.rollups.iter().find(|r| r.id == rollup.id) {
                self.check_floors(rollup, next, after)?;
            }
        }
        for (name, stream) in &self.streams {
            let ever = |s: &StreamMeta| s.sealed_events + s.erased_events();
            let after = next.streams.get(name).map_or(0, ever);
            if after < ever(stream) {
                return Err(format!(
                    "stream {name}: {after} events would be sealed or erased, {} were",
                    ever(stream)
                ));
            }
            let divided_by = next.streams.get(name).and_then(|s| s.divided_by.as_ref());
            let says_more = |next: &Division| {
                let before = stream.divided_by.as_ref();
                before.is_none_or(|before| !before.says_no_less_than(next))
            };
            if divided_by.is_some_and(says_more) {
                return Err(format!("stream {name}: its division would say more"));
            }
        }
        next.check()
    }

    /// Checks that a level whose floor falls gets back all the events that it returns again: its
    /// sections below the old floor hold as many events as its count of dropped events loses.
    fn check_floors(
        &self,
        rollup: &RollupMeta,
        next: &Self,
        after: &RollupMeta,
    ) -> Result<(), String> {
        for (level, floor) in &rollup.floors {
            if after.floor_us(level) >= floor.from_us {
                continue;
            }
            let lost = |manifest: &Self| manifest.given_up(rollup.id, level);
            let files = next.tiles_of(rollup.id).flat_map(|t| &t.files);
            let sections = files.flat_map(|f| &f.sections);
            let back = sections.filter(|s| s.level == *level && s.partition_us < floor.from_us);
            let back: u64 = back.map(|s| s.events).sum();
            if lost(next).checked_add(back) != Some(lost(self)) {
                return Err(format!(
                    "rollup {}: the floor of level {level} would be lowered without the events that it returns",
                    rollup.name
                ));
            }
        }
        Ok(())
    }
}

/// Checks that at every level the events of the sections and the events dropped below the floor
/// add up to those of the tile, and that no section lies below the floor.
fn check_levels(rollup: &RollupMeta, tile: &TileMeta) -> Result<(), String> {
    let expected: &[String] = if tile.events > 0 { &rollup.levels } else { &[] };
    let mut by_level: BTreeMap<&str, u128> =
        expected.iter().map(|level| (level.as_str(), 0)).collect();
    for (level, events) in &tile.dropped {
        *by_level.entry(level).or_default() += u128::from(*events);
    }
    for section in tile.files.iter().flat_map(|f| &f.sections) {
        if section.partition_us < rollup.floor_us(&section.level) {
            return Err(format!(
                "rollup {}: a section of level {} lies below its floor",
                rollup.name, section.level
            ));
        }
        *by_level.entry(&section.level).or_default() += u128::from(section.events);
    }
    let wrong = |found: &u128| *found != u128::from(tile.events);
    if let Some((level, found)) = by_level.iter().find(|(_, found)| wrong(found)) {
        return Err(format!(
            "rollup {}: level {level} of tile {}..{} holds {found} events, the tile {}",
            rollup.name, tile.first_seq, tile.cutoff, tile.events
        ));
    }
    if tile.events > 0 && by_level.is_empty() {
        return Err(format!(
            "rollup {}: a tile of {} events has no section",
            rollup.name, tile.events
        ));
    }
    Ok(())
}
