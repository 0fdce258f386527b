//! Repair: give up what is damaged and cannot be had back, say exactly what that was, and keep the
//! evidence.
//!
//! Order: copies of everything damaged and a report go to `damaged/<seconds>/`; what can be had of the
//! journal goes into a new segment, tiles that the raw events still give into new files; then one
//! manifest edit. A crash before that edit leaves the store as it was, and repair can be run again.
//! The manifest itself has no second copy from which it could be repaired.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::check::{check_part, check_tile};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::{FileRef, create_dir_durably, write_durably};
use crate::identity;
use crate::journal::{self, Journal, Salvage, salvage};
use crate::manifest::{self, Committed, Manifest, PartMeta, Pending, TileFile, TileMeta};
use crate::model::Name;
use crate::record::Record;
use crate::recover::recover;
use crate::rolling::{Roller, Section};
use crate::store::{Options, take_lock};

const DIR: &str = "damaged";

/// What a repair found and gave up.
#[derive(Debug, Clone, Default)]
pub struct RepairReport {
    /// Where copies of what was damaged and this report lie; `None` when nothing was damaged.
    pub evidence: Option<PathBuf>,
    /// What was damaged and what became of it, one sentence each.
    pub findings: Vec<String>,
    /// Events of damaged parts that are gone. The rollups still count them.
    pub events_lost: u64,
}

/// Repairs the store in `data`, which nobody else may have open.
///
/// # Errors
/// [`Error::Corrupt`] when the manifest itself is damaged, [`Error::Locked`], or what the disk says;
/// the store is as it was then.
pub fn repair(data: &Path, options: &Options) -> Result<RepairReport> {
    let fs = &*options.fs;
    if manifest::newest_version(fs, data)?.is_none() {
        return Err(Error::NotAStore { path: data.into() });
    }
    let _lock = take_lock(fs, data)?;
    let committed =
        manifest::read_newest(fs, data)?.ok_or_else(|| Error::NotAStore { path: data.into() })?;
    let mut work = Repair {
        fs: Arc::clone(&options.fs),
        data,
        roller: &*options.roller,
        next: (*committed.manifest).clone(),
        report: RepairReport::default(),
        evidence: Vec::new(),
    };
    let journal = work.look_at_journal()?;
    work.look_at_parts();
    let tiles = work.look_at_tiles();
    if work.report.findings.is_empty() {
        return Ok(work.report);
    }
    work.keep_evidence(options.clock.now_us())?;
    if let Some(salvage) = journal {
        work.write_journal(&salvage)?;
    }
    for (rollup, index, files) in tiles {
        work.write_tile(rollup, index, files)?;
    }
    work.commit(&committed)
}

/// The bytes of tile files and what lies where in them.
type Images = Vec<(Vec<u8>, Vec<Section>)>;
/// A tile to be replaced: its rollup, its place in the manifest, its new files.
type NewTile = (u32, usize, Images);

struct Repair<'a> {
    fs: Arc<dyn Fs>,
    data: &'a Path,
    roller: &'a dyn Roller,
    next: Manifest,
    report: RepairReport,
    /// Paths to copy before anything is changed, relative to the data directory.
    evidence: Vec<String>,
}

impl Repair<'_> {
    fn found(&mut self, path: &str, what: impl std::fmt::Display) {
        self.report.findings.push(format!("{path}: {what}"));
        self.evidence.push(path.to_owned());
    }

    fn give_up(&mut self, path: String) {
        let since = self.next.version + 1;
        self.next.pending.push(Pending { path, since });
    }

    /// Checkpoints of identities that cannot be read are given up; a journal that cannot be replayed
    /// is salvaged.
    fn look_at_journal(&mut self) -> Result<Option<Salvage>> {
        for file in std::mem::take(&mut self.next.identities) {
            let read = file.read(&*self.fs, self.data);
            match read.and_then(|bytes| identity::decode(self.data, &file, &bytes)) {
                Ok(_) => self.next.identities.push(file),
                Err(error) => {
                    self.found(&file.path, format!("{error}; batches that it knew and that are sent again will be taken again"));
                    self.give_up(file.path);
                }
            }
        }
        let Err(error) = recover(&*self.fs, self.data, &self.next) else {
            return Ok(None);
        };
        if let Error::FormatTooNew { .. } = error {
            return Err(error);
        }
        let mut found = salvage(
            &*self.fs,
            self.data,
            &self.next.store_id,
            self.next.journal_floor,
            self.next.sealed_seq,
        )?;
        found
            .groups
            .retain(|g| g.records.iter().all(|r| Record::decode(r).is_ok()));
        self.report.findings.push(error.to_string());
        for hole in &found.holes {
            self.report.findings.push(format!(
                "{}: no record could be had from bytes {}..{}",
                journal::relative_path(hole.segment),
                hole.bytes.0,
                hole.bytes.1
            ));
        }
        let items: u64 = found.groups.iter().map(|g| u64::from(g.items)).sum();
        self.report.findings.push(format!(
            "{}: {items} items in {} groups were had and go into a new segment; sequence numbers go on from {}",
            journal::DIR,
            found.groups.len(),
            found.next_seq()
        ));
        let segments = found.segments.iter();
        self.evidence
            .extend(segments.map(|s| journal::relative_path(*s)));
        Ok(Some(found))
    }

    /// Parts that cannot be read are given up.
    fn look_at_parts(&mut self) {
        for part in std::mem::take(&mut self.next.parts) {
            let read = part.file.read(&*self.fs, self.data);
            let sound = read
                .map_err(|e| e.to_string())
                .and_then(|bytes| check_part(&part, &bytes));
            match sound {
                Ok(_) => self.next.parts.push(part),
                Err(what) => self.drop_part(part, &what),
            }
        }
    }

    fn drop_part(&mut self, part: PartMeta, what: &str) {
        self.found(
            &part.file.path,
            format!(
                "{what}; its {} events of {}, sequence {} to {}, are gone; the rollups still count them",
                part.rows, part.stream, part.seq.0, part.seq.1
            ),
        );
        self.report.events_lost += part.rows;
        if let Some(stream) = self.next.streams.get_mut(&part.stream) {
            stream.lose(part.partition_us, part.seq.1 + 1, part.rows);
        }
        self.give_up(part.file.path);
    }

    /// Tiles that cannot be read are made again from the raw events of their range, where all of
    /// those are there.
    fn look_at_tiles(&mut self) -> Vec<NewTile> {
        let mut again = Vec::new();
        for (index, tile) in self.next.tiles.clone().into_iter().enumerate() {
            let damage: Vec<(String, String)> = tile
                .files
                .iter()
                .filter_map(|f| Some((f.file.path.clone(), self.tile_damage(f)?)))
                .collect();
            if damage.is_empty() {
                continue;
            }
            let made = self.recompute(&tile);
            for (path, what) in damage {
                let outcome = match &made {
                    Ok(_) => "it is made again from the raw events".to_owned(),
                    Err(why) => format!("it stays damaged: {why}"),
                };
                self.found(&path, format!("{what}; {outcome}"));
            }
            again.extend(made.ok().map(|files| (tile.rollup, index, files)));
        }
        again
    }

    fn tile_damage(&self, file: &TileFile) -> Option<String> {
        let read = file.file.read(&*self.fs, self.data);
        let sound = read
            .map_err(|e| e.to_string())
            .and_then(|bytes| check_tile(file, &bytes));
        sound.err()
    }

    /// One image for each part that holds events of the tile's range.
    fn recompute(&self, tile: &TileMeta) -> Result<Images, String> {
        let rollups = &self.next.rollups;
        let rollup = rollups.iter().find(|r| r.id == tile.rollup);
        let rollup = rollup.ok_or("its rollup is not known")?;
        let (mut images, mut events) = (Vec::new(), 0);
        for part in self.parts_in(&rollup.stream, tile) {
            let bytes = part.file.read(&*self.fs, self.data);
            let bytes = bytes.map_err(|e| e.to_string())?;
            let rows = crate::part::read_part(bytes, None).map_err(|e| e.to_string())?;
            let rows = crate::part::in_range(&rows, (tile.first_seq, tile.cutoff))
                .map_err(|e| e.to_string())?;
            let made = self.roller.tiles(&[rollup], &rows);
            for image in made.map_err(|e| e.to_string())? {
                events += image.events;
                if image.events > 0 {
                    images.push((image.bytes, image.sections));
                }
            }
        }
        if events != tile.events {
            return Err(format!(
                "{events} of its {} raw events are left",
                tile.events
            ));
        }
        Ok(images)
    }

    fn parts_in<'b>(
        &'b self,
        stream: &'b Name,
        tile: &'b TileMeta,
    ) -> impl Iterator<Item = &'b PartMeta> {
        self.next
            .parts_of(stream)
            .filter(|p| p.seq.0 < tile.cutoff && p.seq.1 >= tile.first_seq)
    }

    fn keep_evidence(&mut self, now_us: i64) -> Result<()> {
        let now_s = now_us.div_euclid(1_000_000);
        let folder = self.data.join(format!("{DIR}/{now_s:012}"));
        create_dir_durably(&*self.fs, self.data, &folder)?;
        for path in &self.evidence {
            // What cannot be read at all cannot be copied; the report names it.
            if let Ok(bytes) = self.fs.read(&self.data.join(path)) {
                write_durably(&*self.fs, &folder.join(path.replace('/', "+")), &bytes)?;
            }
        }
        let mut text = format!(
            "repair of {} with its loss accepted\nmanifest version {}\n\n",
            self.data.display(),
            self.next.version
        );
        for finding in &self.report.findings {
            let _ignored = writeln!(text, "{finding}");
        }
        write_durably(&*self.fs, &folder.join("report.txt"), text.as_bytes())?;
        self.fs.sync_dir(&folder).at("sync", &folder)?;
        self.report.evidence = Some(folder);
        Ok(())
    }

    /// Writes what was had of the journal into a segment after all others, which becomes the floor.
    fn write_journal(&mut self, found: &Salvage) -> Result<()> {
        self.next.writer_epoch += 1;
        let first_seq = found
            .groups
            .first()
            .map_or(self.next.sealed_seq, |g| g.first_seq);
        let mut journal = Journal::begin(
            Arc::clone(&self.fs),
            self.data,
            &self.next.store_id,
            self.next.writer_epoch,
            found.last(),
            first_seq,
        )?;
        for group in &found.groups {
            let payloads: Vec<Vec<u8>> = group.records.iter().map(|r| r.to_vec()).collect();
            journal.append(group.first_seq, u64::from(group.items), &payloads)?;
        }
        journal.syncer().sync_written()?;
        for segment in &found.segments {
            self.give_up(journal::relative_path(*segment));
        }
        self.next.journal_floor = journal.segment();
        self.next.next_seq = self.next.next_seq.max(found.next_seq());
        self.next.clean = false;
        Ok(())
    }

    fn write_tile(&mut self, rollup: u32, index: usize, images: Images) -> Result<()> {
        let names: BTreeMap<u32, Name> = self
            .next
            .rollups
            .iter()
            .map(|r| (r.id, r.name.clone()))
            .collect();
        let folder = self.data.join(format!("rollups/{}", names[&rollup]));
        create_dir_durably(&*self.fs, self.data, &folder)?;
        let mut files = Vec::new();
        for (bytes, sections) in images {
            let path = format!(
                "rollups/{}/{:016x}.tile",
                names[&rollup], self.next.next_file
            );
            self.next.next_file += 1;
            let file = FileRef::write(&*self.fs, self.data, path, &bytes)?;
            files.push(TileFile { file, sections });
        }
        self.fs.sync_dir(&folder).at("sync", &folder)?;
        let old = std::mem::replace(&mut self.next.tiles[index].files, files);
        for file in old {
            self.give_up(file.file.path);
        }
        Ok(())
    }

    fn commit(self, current: &Committed) -> Result<RepairReport> {
        let fs = Arc::clone(&self.fs);
        manifest::commit(&*fs, self.data, Some(current), self.next)?;
        Ok(self.report)
    }
}

#[cfg(test)]
mod tests;
