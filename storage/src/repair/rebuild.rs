//! Rebuilds the manifest from the files of the store when neither copy of it is whole.
//!
//! # Invariants
//! 1. Every readable event is taken once. Of files that hold the same sequence numbers the one
//!    with the highest epoch and number counts (the result of a merge has a higher number than
//!    its inputs). Journal events that are in no part are written to new parts.
//! 2. No value that affects the result of a query is guessed. The checksums of the files were in
//!    the manifest: a part is accepted when it can be read in full and its rows lie in its
//!    partition. Rollups are not rebuilt here; they are recomputed from the raw events at the
//!    next start, and their old files are kept as evidence.
//! 3. Sequence numbers continue [`GAP`] past the highest number found in any file.

mod journal;
mod parts;
mod streams;
mod write;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::GAP;
use crate::birth::Birth;
use crate::detached::{self, Card};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::FileRef;
use crate::file_id::FileId;
use crate::identity::{self, Identities};
use crate::journal::{Salvage, headers, salvage};
use crate::manifest::{self, Manifest};
use crate::memtable::Chunk;
use crate::model::{Name, StreamKind};
use crate::store::Options;

/// Upper bound of the file numbers that were assigned and of which no file is left.
const FILE_GAP: u64 = 1 << 20;

/// A store as far as it could be recovered without a manifest. Nothing is written yet.
pub(super) struct ManifestDraft {
    pub(super) manifest: Manifest,
    pub(super) findings: Vec<String>,
    /// Files to copy to the evidence.
    pub(super) evidence: Vec<String>,
    /// Files to move to the evidence once the new manifest is committed.
    pub(super) leftovers: Vec<String>,
    /// Rows that no part holds, by stream: each list is written to parts of its own.
    rest: BTreeMap<Name, Vec<Vec<Arc<Chunk>>>>,
    /// Identities of the batches in the journal.
    identities: Identities,
    /// Last segment of the journal.
    last_segment: u64,
}

/// Derives the content of a manifest from the files of a store.
pub(super) fn rebuild(data: &Path, options: &Options) -> Result<ManifestDraft> {
    let fs = &*options.fs;
    let cards = cards(fs, data)?;
    let heads = headers(fs, data)?;
    let now_s = u32::try_from(options.clock.now_us().div_euclid(1_000_000)).unwrap_or(0);
    let known = Birth::read(fs, data).or_else(|| {
        let card = cards.values().next()?;
        Some(Birth {
            store_id: card.store_id.clone(),
            created_s: card.created_s,
        })
    });
    let in_journal = heads.first().map(|head| head.store_id.clone());
    let is_known = known.is_some();
    let birth = known.unwrap_or_else(|| Birth {
        store_id: in_journal.unwrap_or_else(|| format!("{:032x}", rand::random::<u128>())),
        created_s: now_s,
    });
    let mut rebuilder = Rebuilder {
        fs,
        data,
        options,
        draft: ManifestDraft {
            last_segment: heads.iter().map(|h| h.segment).max().unwrap_or(0),
            manifest: Manifest::new(birth.store_id, birth.created_s),
            findings: Vec::new(),
            evidence: Vec::new(),
            leftovers: Vec::new(),
            rest: BTreeMap::new(),
            identities: Identities::default(),
        },
        end_seq: heads.iter().map(|h| h.first_seq).max().unwrap_or(0),
        kinds: BTreeMap::new(),
        recent: HashSet::new(),
    };
    if !is_known {
        rebuilder.add_finding("neither STORE nor a detached partition records when the store was created; the `_id`s of its events change");
    }
    let salvage = salvage(fs, data, &rebuilder.draft.manifest.store_id, 0, 0)?;
    rebuilder.note_manifests()?;
    rebuilder.note_kinds(&salvage);
    rebuilder.take_parts(
        salvage.groups.first().map_or(u64::MAX, |g| g.first_seq),
        &cards,
    )?;
    rebuilder.take_detached(cards);
    rebuilder.take_identities()?;
    rebuilder.take_journal(&salvage)?;
    rebuilder.leave_rollups()?;
    let epochs = heads
        .iter()
        .filter_map(|h| u32::try_from(h.writer_epoch).ok());
    rebuilder.number(&salvage, epochs.max().unwrap_or(0))?;
    Ok(rebuilder.draft)
}

/// Returns the readable cards of detached partitions by their folders.
fn cards(fs: &dyn Fs, data: &Path) -> Result<BTreeMap<String, Card>> {
    let mut cards = BTreeMap::new();
    for path in files(fs, &data.join(detached::DIR))? {
        let folder = path.parent().and_then(|p| p.strip_prefix(data).ok());
        let folder = folder
            .unwrap_or(Path::new(""))
            .to_string_lossy()
            .into_owned();
        if path != data.join(detached::card_path(&folder)) {
            continue;
        }
        let bytes = fs.read(&path).at("read", &path)?;
        if let Ok(card) = Card::decode(&path, &bytes) {
            cards.insert(folder, card);
        }
    }
    Ok(cards)
}

/// Returns every file below a folder, sorted by path; none when the folder does not exist.
fn files(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(next) = folders.pop() {
        if !fs.is_dir(&next) {
            continue;
        }
        for name in fs.list(&next).at("list", &next)? {
            let path = next.join(name);
            if fs.is_dir(&path) {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

struct Rebuilder<'a> {
    fs: &'a dyn Fs,
    data: &'a Path,
    options: &'a Options,
    draft: ManifestDraft,
    /// Exclusive end of the sequence numbers found in any file.
    end_seq: u64,
    /// Kinds of the streams, as journal records name them.
    kinds: BTreeMap<Name, StreamKind>,
    /// Sequence numbers in parts, from the first one of the journal on.
    recent: HashSet<u64>,
}

impl Rebuilder<'_> {
    fn add_finding(&mut self, what: impl Into<String>) {
        self.draft.findings.push(what.into());
    }

    fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(self.data).unwrap_or(path);
        path.to_string_lossy().into_owned()
    }

    /// Keeps the damaged manifests as evidence; the new one gets a higher version.
    fn note_manifests(&mut self) -> Result<()> {
        for place in [manifest::DIR, manifest::COPY_DIR] {
            for path in files(self.fs, &self.data.join(place))? {
                let path = self.relative(&path);
                self.draft.evidence.push(path);
            }
        }
        let newest = manifest::newest_version(self.fs, self.data)?;
        self.draft.manifest.version = newest.unwrap_or(FILE_GAP) + 1;
        self.add_finding(format!(
            "{}: no version is intact, neither as manifest nor as copy; it is rebuilt from the store's files without their checksums, which are lost with it",
            manifest::DIR
        ));
        Ok(())
    }

    fn take_identities(&mut self) -> Result<()> {
        for path in files(self.fs, &self.data.join("identities"))? {
            let full = path.clone();
            let path = self.relative(&path);
            let read = self.fs.read(&full).at("read", &full);
            let read = read.and_then(|bytes| {
                let file = FileRef::of(path.clone(), &bytes);
                identity::decode(self.data, &file, &bytes).map(|_| file)
            });
            match read {
                Ok(file) => self.draft.manifest.identities.push(file),
                Err(error @ Error::FormatTooNew { .. }) => return Err(error),
                Err(error) => {
                    self.add_finding(format!("{path}: {}; its batch identities are lost: a batch that is sent again is stored a second time", error.without_advice()));
                    self.draft.evidence.push(path.clone());
                    self.draft.leftovers.push(path);
                }
            }
        }
        Ok(())
    }

    /// Discards the tiles: without the manifest nothing proves which events they count.
    fn leave_rollups(&mut self) -> Result<()> {
        let tiles = files(self.fs, &self.data.join("rollups"))?;
        if !tiles.is_empty() {
            self.add_finding(format!(
                "rollups: {} files discarded; the next start recounts the rollups from the raw events, their counts of dropped events are lost",
                tiles.len()
            ));
        }
        for path in tiles {
            let path = self.relative(&path);
            self.draft.leftovers.push(path);
        }
        Ok(())
    }

    /// Sets sequence numbers, file numbers and an epoch that were never assigned. `epoch` is the
    /// highest one in the journal.
    fn number(&mut self, salvage: &Salvage, mut epoch: u32) -> Result<()> {
        let end_seq = self.end_seq.max(salvage.next_seq());
        let mut number = 0;
        for folder in ["streams", "rollups", "identities", detached::DIR] {
            for path in files(self.fs, &self.data.join(folder))? {
                if let Some(id) = FileId::of_path(&path.to_string_lossy()) {
                    epoch = epoch.max(id.epoch);
                    number = number.max(id.number);
                }
            }
        }
        let manifest = &mut self.draft.manifest;
        manifest.next_file = number + FILE_GAP;
        manifest.writer_epoch = epoch + 1;
        manifest.sealed_seq = end_seq;
        manifest.next_seq = end_seq + GAP;
        manifest.clean = false;
        manifest.sealed_at_us = self.options.clock.now_us();
        self.add_finding(format!("sequence numbers continue at {}", end_seq + GAP));
        Ok(())
    }
}
