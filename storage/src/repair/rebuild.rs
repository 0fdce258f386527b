//! Rebuilds the manifest from the files of the store when neither copy of it is whole.
//!
//! # Invariants
//! 1. Every readable event is taken once. Of files that hold the same sequence numbers the one
//!    with the highest file number counts (the result of a merge has a higher one than its
//!    inputs). Journal events that are in no part are written to new parts.
//! 2. No value that affects the result of a query is guessed. The checksums of the files were in
//!    the manifest: a part is accepted when it can be read in full and its rows lie in its
//!    partition. Rollups are not rebuilt here; they are recomputed from the raw events at the
//!    next start, and their old files are kept as evidence.
//! 3. Sequence numbers continue [`GAP`] past the highest number found in any file.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow::compute::{
    SortOptions, concat_batches, filter_record_batch, sort_to_indices, take_record_batch,
};
use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;

use super::{GAP, SEGMENTS};
use crate::birth::Birth;
use crate::check::has_own_columns;
use crate::detached::{self, Card};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::{FileRef, create_dir_durably};
use crate::identity::{self, Identities};
use crate::journal::{self, Salvage, salvage};
use crate::manifest::{self, DetachedPartition, Manifest, PartMeta, PartitionWidth, StreamMeta};
use crate::memtable::{Chunk, column};
use crate::model::{
    Ack, Column, ColumnType, ID, Name, QUARANTINE, REST, SEQ, StreamKind, TIME, TIME_SOURCE,
    access_fields,
};
use crate::part::{self, Bounds};
use crate::reader_registry::file_number;
use crate::record::Record;
use crate::schema_evolution;
use crate::store::Options;

/// Upper bound of the file numbers that were assigned and of which no file is left.
const FILE_GAP: u64 = 1 << 20;
const WIDTHS: [PartitionWidth; 3] = [
    PartitionWidth::Hour,
    PartitionWidth::Day,
    PartitionWidth::Month,
];

/// A store as far as it could be recovered without a manifest. Nothing is written yet.
pub(super) struct Rebuilt {
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
    /// Last segment of the journal, and the highest epoch in any segment's header.
    last_segment: u64,
    writer_epoch: u64,
}

/// Derives the content of a manifest from the files of a store.
pub(super) fn rebuild(data: &Path, options: &Options) -> Result<Rebuilt> {
    let fs = &*options.fs;
    let cards = cards(fs, data)?;
    let heads = journal::headers(fs, data)?;
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
        found: Rebuilt {
            last_segment: heads.iter().map(|h| h.segment).max().unwrap_or(0),
            writer_epoch: heads.iter().map(|h| h.writer_epoch).max().unwrap_or(0),
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
        rebuilder.add_finding("neither STORE nor a detached partition says when the store was created: `_id`s of the events change");
    }
    let salvage = salvage(fs, data, &rebuilder.found.manifest.store_id, 0, 0)?;
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
    rebuilder.number(&salvage);
    Ok(rebuilder.found)
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

/// A readable part file; its stream and partition follow from its path.
struct PartFile {
    id: u64,
    path: String,
    bytes: Bytes,
    rows: Vec<RecordBatch>,
}

/// Parts by stream and partition folder.
type Places = BTreeMap<(Name, String), Vec<(u64, String)>>;

struct Rebuilder<'a> {
    fs: &'a dyn Fs,
    data: &'a Path,
    options: &'a Options,
    found: Rebuilt,
    /// Exclusive end of the sequence numbers found in any file.
    end_seq: u64,
    /// Kinds of the streams, as journal records name them.
    kinds: BTreeMap<Name, StreamKind>,
    /// Sequence numbers in parts, from the first one of the journal on.
    recent: HashSet<u64>,
}

impl Rebuilder<'_> {
    fn add_finding(&mut self, what: impl Into<String>) {
        self.found.findings.push(what.into());
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
                self.found.evidence.push(path);
            }
        }
        let newest = manifest::newest_version(self.fs, self.data)?;
        self.found.manifest.version = newest.unwrap_or(FILE_GAP) + 1;
        self.add_finding(format!(
            "{}: no version is whole in either of its places; it is made again from the files, whose checksums went with it",
            manifest::DIR
        ));
        Ok(())
    }

    fn note_kinds(&mut self, salvage: &Salvage) {
        let records = salvage.groups.iter().flat_map(|g| &g.records);
        for record in records.filter_map(|r| Record::decode(r).ok()) {
            if record.events.num_rows() > 0 {
                self.kinds.insert(record.stream.clone(), record.kind);
            }
        }
    }

    /// Takes every part that can be read. `from` is the first sequence number of the journal.
    fn take_parts(&mut self, from: u64, cards: &BTreeMap<String, Card>) -> Result<()> {
        let mut places = Places::new();
        for path in files(self.fs, &self.data.join("streams"))? {
            let path = self.relative(&path);
            let words: Vec<&str> = path.split('/').collect();
            let ["streams", stream, folder, file] = words[..] else {
                continue;
            };
            let id = file.strip_suffix(".parquet");
            let id = id.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let (Ok(stream), Some(id)) = (Name::new(stream), id) {
                let place = (stream, folder.to_owned());
                places.entry(place).or_default().push((id, path));
            }
        }
        self.take_streams(&places, cards);
        for ((stream, folder), mut parts) in places {
            parts.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
            let mut held: HashSet<u64> = HashSet::new();
            for (id, path) in parts {
                if let Some(part) = self.read_part(id, path) {
                    self.take_part(&stream, &folder, part, &mut held)?;
                }
            }
            self.end_seq = held.iter().fold(self.end_seq, |end, seq| end.max(seq + 1));
            self.recent
                .extend(held.into_iter().filter(|seq| *seq >= from));
        }
        Ok(())
    }

    /// Adds the streams of parts, with every column that one of their parts has.
    fn take_streams(&mut self, places: &Places, cards: &BTreeMap<String, Card>) {
        let mut streams: BTreeMap<Name, (Option<PartitionWidth>, Vec<Column>)> = BTreeMap::new();
        for ((stream, folder), parts) in places {
            let (width, columns) = streams.entry(stream.clone()).or_default();
            *width = width.or_else(|| width_of(folder));
            for (_, path) in parts {
                // A part that cannot be read is reported when its rows are read.
                let read = self.fs.read(&self.data.join(path)).map(Bytes::from);
                if let Some(schema) = read.ok().and_then(schema_of) {
                    add_columns(columns, &schema);
                }
            }
        }
        for card in cards.values() {
            let (width, columns) = streams.entry(card.stream.clone()).or_default();
            *width = Some(card.width);
            for known in &card.columns {
                if !columns.iter().any(|c| c.name == known.name) {
                    columns.push(known.clone());
                }
            }
            self.kinds.insert(card.stream.clone(), card.kind);
        }
        for (stream, (width, columns)) in streams {
            let kind = self.kind_of(&stream, &columns);
            let mut meta = self.new_stream(&stream, kind);
            meta.partition = width.unwrap_or(meta.partition);
            for column in columns {
                if !meta.columns.iter().any(|c| c.name == column.name) {
                    meta.columns.push(column);
                }
            }
            self.add_finding(format!(
                "stream {stream}: taken for one of {}; the times of its columns and what was dropped of it went with the manifest",
                match kind {
                    StreamKind::Access => "an access log",
                    StreamKind::Documents => "documents",
                    StreamKind::Quarantine => "quarantined items",
                }
            ));
            self.found.manifest.streams.insert(stream, meta);
        }
    }

    fn new_stream(&self, stream: &Name, kind: StreamKind) -> StreamMeta {
        let now_us = self.options.clock.now_us();
        self.options.config.stream_meta(stream, kind, now_us)
    }

    /// Returns the kind of a stream: from the journal or a card if they name it, else by its
    /// columns.
    fn kind_of(&self, stream: &Name, columns: &[Column]) -> StreamKind {
        if stream.as_str() == QUARANTINE {
            return StreamKind::Quarantine;
        }
        if let Some(kind) = self.kinds.get(stream) {
            return *kind;
        }
        let fields = access_fields();
        let of_access = |c: &Column| {
            let own = [TIME, ID, TIME_SOURCE, REST].contains(&&*c.name);
            let same = |f: &Column| f.name == c.name && f.column_type == c.column_type;
            own || fields.iter().any(same)
        };
        let has = |name: &str| columns.iter().any(|c| &*c.name == name);
        match columns.iter().all(of_access) && has("host") && has("status") {
            true => StreamKind::Access,
            false => StreamKind::Documents,
        }
    }

    fn read_part(&mut self, id: u64, path: String) -> Option<PartFile> {
        let full = self.data.join(&path);
        let read = self.fs.read(&full).at("read", &full);
        let read = read.map(Bytes::from).map_err(|e| e.to_string());
        match read.and_then(|bytes| Ok((readable(&bytes)?, bytes))) {
            Ok((rows, bytes)) => Some(PartFile {
                id,
                path,
                bytes,
                rows,
            }),
            Err(what) => {
                self.add_finding(format!("{path}: {what}; its events are gone"));
                self.found.evidence.push(path.clone());
                self.found.leftovers.push(path);
                None
            }
        }
    }

    /// Takes a part, or those of its rows that no other part holds.
    fn take_part(
        &mut self,
        stream: &Name,
        folder: &str,
        part: PartFile,
        held: &mut HashSet<u64>,
    ) -> Result<()> {
        let meta = self.found.manifest.streams[stream].clone();
        let Some(rows) = in_sequence(&part.rows)? else {
            return Ok(());
        };
        let seqs = column::<UInt64Array>(&rows, SEQ).values().to_vec();
        let fresh: Vec<bool> = seqs.iter().map(|seq| held.insert(*seq)).collect();
        let count = fresh.iter().filter(|new| **new).count();
        if count == 0 {
            self.add_finding(format!("{}: another part holds all its events", part.path));
            self.found.leftovers.push(part.path);
            return Ok(());
        }
        let whole = Arc::new(Chunk::new(&without_seq(&rows)?, seqs)?);
        let partition_us = part::partition_start(meta.partition, whole.time.0);
        let one_place = partition_us == part::partition_start(meta.partition, whole.time.1)
            && part::partition_folder(meta.partition, partition_us) == folder;
        let order: Vec<u64> = part
            .rows
            .iter()
            .flat_map(|batch| column::<UInt64Array>(batch, SEQ).values().to_vec())
            .collect();
        if one_place && count == order.len() && part::order_of(&meta, &whole)? == order {
            let bounds = Bounds::of(&part.rows, &meta.order_by);
            let file = FileRef::of(part.path, &part.bytes);
            let part = bounds.part(part.id, stream, partition_us, file);
            self.found.manifest.parts.push(part);
            return Ok(());
        }
        self.add_finding(format!(
            "{}: {count} of its {} events are written into a new part, since another holds the others or its order is not the stream's",
            part.path,
            order.len()
        ));
        let rest = filter_record_batch(&whole.events, &BooleanArray::from(fresh))?;
        let seqs = column::<UInt64Array>(&rest, SEQ).values().to_vec();
        let chunk = Arc::new(Chunk::new(&without_seq(&rest)?, seqs)?);
        self.found
            .rest
            .entry(stream.clone())
            .or_default()
            .push(vec![chunk]);
        self.found.leftovers.push(part.path);
        Ok(())
    }

    /// Keeps detached partitions detached when none of their files is among the live ones.
    fn take_detached(&mut self, cards: BTreeMap<String, Card>) {
        for (folder, card) in cards {
            let twin = |p: &PartMeta| detached::place(&p.file.path);
            let live: HashSet<String> = self.found.manifest.parts.iter().map(twin).collect();
            let mut parts = card.parts;
            for part in &mut parts {
                part.file.path = format!("{folder}/{}", part.file.path);
            }
            let whole = |p: &PartMeta| p.file.verify(self.fs, self.data).is_ok();
            // A part that was attached again has another file number and is the same otherwise.
            let same = |a: &PartMeta, b: &PartMeta| {
                (&a.stream, a.partition_us, a.seq, a.rows, a.time)
                    == (&b.stream, b.partition_us, b.seq, b.rows, b.time)
            };
            let known = &self.found.manifest.parts;
            let apart = |p: &PartMeta| {
                !live.contains(&p.file.path) && !known.iter().any(|live| same(live, p))
            };
            let ours = card.store_id == self.found.manifest.store_id && !parts.is_empty();
            if !(ours && parts.iter().all(whole) && parts.iter().all(apart)) {
                self.add_finding(format!(
                    "{folder}: it is left as it lies, and belongs to no stream any more"
                ));
                continue;
            }
            let last = parts.iter().map(|p| p.seq.1).max().unwrap_or(0);
            self.end_seq = self.end_seq.max(last + 1);
            self.found.manifest.detached.push(DetachedPartition {
                stream: card.stream,
                partition_us: card.partition_us,
                complete_from: last + 1,
                folder,
                parts,
            });
        }
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
                Ok(file) => self.found.manifest.identities.push(file),
                Err(error @ Error::FormatTooNew { .. }) => return Err(error),
                Err(error) => {
                    self.add_finding(format!("{path}: {}; batches that it knew and that are sent again will be taken again", error.without_advice()));
                    self.found.evidence.push(path.clone());
                    self.found.leftovers.push(path);
                }
            }
        }
        Ok(())
    }

    /// Takes the journal's events that no part holds.
    fn take_journal(&mut self, salvage: &Salvage) -> Result<()> {
        let mut chunks: BTreeMap<Name, Vec<Arc<Chunk>>> = BTreeMap::new();
        let mut items = 0;
        for group in &salvage.groups {
            let mut seq = group.first_seq;
            for payload in &group.records {
                let Ok(record) = Record::decode(payload) else {
                    self.add_finding(format!(
                        "{}: a record at sequence {seq} cannot be read",
                        journal::DIR
                    ));
                    break;
                };
                let first_seq = seq;
                seq += record.items();
                items += self.take_record(record, first_seq, &mut chunks)?;
            }
        }
        for (stream, chunks) in chunks {
            self.found.rest.entry(stream).or_default().push(chunks);
        }
        for hole in &salvage.holes {
            self.add_finding(format!(
                "{}: no record could be had from bytes {}..{}",
                journal::relative_path(hole.segment),
                hole.bytes.0,
                hole.bytes.1
            ));
        }
        let segments = salvage.segments.iter().map(|s| journal::relative_path(*s));
        let segments: Vec<String> = segments.collect();
        self.found.last_segment = salvage
            .segments
            .iter()
            .fold(self.found.last_segment, |a, b| a.max(*b));
        self.found.evidence.extend(segments.iter().cloned());
        self.found.leftovers.extend(segments);
        self.add_finding(format!(
            "{}: {items} items that no part holds were had of {} groups and go into new parts",
            journal::DIR,
            salvage.groups.len()
        ));
        Ok(())
    }

    fn take_record(
        &mut self,
        mut record: Record,
        first_seq: u64,
        chunks: &mut BTreeMap<Name, Vec<Arc<Chunk>>>,
    ) -> Result<u64> {
        let stream = record.stream.clone();
        let (event_seqs, bad_seqs) = record.sequence(first_seq);
        let items = record.items();
        let ack = Ack {
            accepted: event_seqs.len() as u64,
            quarantined: bad_seqs.len() as u64,
            first_seq: (items > 0).then_some(first_seq),
            last_seq: (items > 0).then(|| first_seq + items - 1),
            duplicate: false,
        };
        if record.events.num_rows() > 0 {
            let meta = self.stream(&stream, record.kind);
            if let Some(fitted) = schema_evolution::reconcile(meta, &record, usize::MAX)? {
                record.events = fitted;
            }
        }
        let quarantine = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
        let mut taken = 0;
        for (name, rows, seqs) in [
            (stream, &record.events, event_seqs),
            (quarantine, &record.quarantine, bad_seqs),
        ] {
            let fresh: Vec<bool> = seqs.iter().map(|seq| !self.recent.contains(seq)).collect();
            let seqs: Vec<u64> = seqs
                .into_iter()
                .filter(|seq| !self.recent.contains(seq))
                .collect();
            if seqs.is_empty() {
                continue;
            }
            if name.as_str() == QUARANTINE {
                self.stream(&name, StreamKind::Quarantine);
            }
            taken += seqs.len() as u64;
            let rows = filter_record_batch(rows, &BooleanArray::from(fresh))?;
            let chunk = Arc::new(Chunk::new(&rows, seqs)?);
            chunks.entry(name).or_default().push(chunk);
        }
        if let Some(identity) = record.identity {
            self.found
                .identities
                .remember(identity, &ack, record.received_us);
        }
        Ok(taken)
    }

    fn stream(&mut self, name: &Name, kind: StreamKind) -> &mut StreamMeta {
        if !self.found.manifest.streams.contains_key(name) {
            let meta = self.new_stream(name, kind);
            self.found.manifest.streams.insert(name.clone(), meta);
        }
        let known = self.found.manifest.streams.get_mut(name);
        known.expect("BUG: it was made above")
    }

    /// Discards the tiles: without the manifest nothing proves which events they count.
    fn leave_rollups(&mut self) -> Result<()> {
        let tiles = files(self.fs, &self.data.join("rollups"))?;
        if !tiles.is_empty() {
            self.add_finding(format!(
                "rollups: {} files; they begin anew from the raw events at the next start, and what they had counted of events that were dropped is gone",
                tiles.len()
            ));
        }
        for path in tiles {
            let path = self.relative(&path);
            self.found.leftovers.push(path);
        }
        Ok(())
    }

    /// Sets sequence and file numbers that were never assigned.
    fn number(&mut self, salvage: &Salvage) {
        let end_seq = self.end_seq.max(salvage.next_seq());
        let known = &self.found;
        let manifest = &known.manifest;
        let named = manifest.files().chain(manifest.detached_files());
        let named = named.map(|f| f.path.as_str());
        let named = named.chain(known.leftovers.iter().map(String::as_str));
        let files = named.filter(|path| !path.starts_with(journal::DIR));
        let next_file = files.map(file_number).max().unwrap_or(0) + FILE_GAP;
        let manifest = &mut self.found.manifest;
        manifest.next_file = next_file;
        manifest.sealed_seq = end_seq;
        manifest.next_seq = end_seq + GAP;
        manifest.clean = false;
        manifest.writer_epoch = self.found.writer_epoch;
        manifest.sealed_at_us = self.options.clock.now_us();
        self.add_finding(format!("sequence numbers go on from {}", end_seq + GAP));
    }
}

impl Rebuilt {
    /// Writes the rows that no part holds and the identities of the journal's batches. Afterwards
    /// every number below `sealed_seq` is in a part or lost. Returns the segment after which the
    /// journal continues.
    pub(super) fn write(&mut self, fs: &dyn Fs, data: &Path) -> Result<u64> {
        for (stream, lists) in std::mem::take(&mut self.rest) {
            let meta = self.manifest.streams[&stream].clone();
            for chunks in lists {
                for image in part::build(&meta, &chunks)? {
                    let folder = part::partition_folder(meta.partition, image.partition_us);
                    let folder = format!("streams/{stream}/{folder}");
                    let (id, path) = self.new_file(fs, data, &folder, "parquet");
                    create_dir_durably(fs, data, &data.join(&folder))?;
                    let file = FileRef::write_new(fs, data, path, &image.bytes)?;
                    let part = image.bounds.part(id, &stream, image.partition_us, file);
                    self.manifest.parts.push(part);
                    fs.sync_dir(&data.join(&folder))
                        .at("sync", &data.join(&folder))?;
                }
            }
        }
        let fresh = self.identities.take_fresh();
        if !fresh.is_empty() {
            let dir = data.join("identities");
            create_dir_durably(fs, data, &dir)?;
            let (_, path) = self.new_file(fs, data, "identities", "json.zst");
            let file = FileRef::write_new(fs, data, path, &identity::encode(&fresh))?;
            self.manifest.identities.push(file);
            fs.sync_dir(&dir).at("sync", &dir)?;
        }
        self.manifest.parts.sort_by_key(|p| p.id);
        let manifest = &mut self.manifest;
        for (name, meta) in &mut manifest.streams {
            let live = manifest.parts.iter().filter(|p| &p.stream == name);
            let detached = manifest.detached.iter().filter(|d| &d.stream == name);
            meta.sealed_events = live.map(|p| p.rows).sum::<u64>()
                + detached.map(DetachedPartition::rows).sum::<u64>();
        }
        Ok(self.last_segment + SEGMENTS)
    }

    /// Returns a new file number and a path that does not exist yet: an interrupted attempt may
    /// have left files.
    fn new_file(&mut self, fs: &dyn Fs, data: &Path, folder: &str, ending: &str) -> (u64, String) {
        loop {
            let id = self.manifest.next_file;
            self.manifest.next_file += 1;
            let path = format!("{folder}/{id:016x}.{ending}");
            if !fs.exists(&data.join(&path)) {
                return (id, path);
            }
        }
    }
}

fn schema_of(bytes: Bytes) -> Option<SchemaRef> {
    let read = catch_unwind(AssertUnwindSafe(|| part::read_schema(bytes)));
    read.ok()?.ok()
}

/// Reads the rows of a part that can be read in full.
fn readable(bytes: &Bytes) -> Result<Vec<RecordBatch>, String> {
    // The bytes have no checksum, so the Parquet reader may get anything and may panic.
    let read = catch_unwind(AssertUnwindSafe(|| part::read_part(bytes.clone(), None)));
    let rows = read.map_err(|_| "it cannot be read".to_owned())?;
    let rows = rows.map_err(|e| e.to_string())?;
    let sound = |batch: &RecordBatch| {
        has_own_columns(batch)
            && column::<UInt64Array>(batch, SEQ).null_count() == 0
            && column::<TimestampMicrosecondArray>(batch, TIME).null_count() == 0
    };
    match rows.iter().all(sound) {
        true => Ok(rows),
        false => Err(format!("it has no {TIME} and {SEQ} for each event")),
    }
}

/// Returns the rows of a part in the order of their sequence numbers; `None` for an empty part.
fn in_sequence(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    let Some(first) = batches.first() else {
        return Ok(None);
    };
    let all = concat_batches(&first.schema(), batches)?;
    if all.num_rows() == 0 {
        return Ok(None);
    }
    let seqs = all.column_by_name(SEQ).expect("BUG: it was looked for");
    let order = sort_to_indices(seqs, Some(SortOptions::default()), None)?;
    Ok(Some(take_record_batch(&all, &order)?))
}

fn without_seq(rows: &RecordBatch) -> Result<RecordBatch> {
    let kept: Vec<usize> = (0..rows.num_columns())
        .filter(|i| rows.schema_ref().field(*i).name() != SEQ)
        .collect();
    Ok(rows.project(&kept)?)
}

fn width_of(folder: &str) -> Option<PartitionWidth> {
    let of = |width: &PartitionWidth| {
        let name = part::partition_folder(*width, 0);
        name.split_once('=').map(|(word, _)| word.to_owned())
    };
    let word = folder.split_once('=')?.0;
    WIDTHS.into_iter().find(|w| of(w).as_deref() == Some(word))
}

/// Adds the columns of a part. An integer column that also occurs as float becomes float. Other
/// integer columns are marked `wide`, since it is not known whether a float would lose digits.
fn add_columns(columns: &mut Vec<Column>, schema: &Schema) {
    for field in schema.fields() {
        let Some(found) = ColumnType::of(field.data_type()) else {
            continue;
        };
        if field.name() == SEQ {
            continue;
        }
        match columns.iter_mut().find(|c| &*c.name == field.name()) {
            Some(known) if known.column_type != found => {
                known.column_type = ColumnType::Float64;
                known.wide = false;
            }
            Some(_) => {}
            None => {
                let mut column = Column::new(field.name(), found);
                column.wide = found == ColumnType::Int64;
                columns.push(column);
            }
        }
    }
}
