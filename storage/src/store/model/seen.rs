//! The content of a snapshot, checked for consistency between parts, tiles, memtable and
//! manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::listing::{LEVELS, Row, listed, rows};
use super::motley;
use crate::detached::{Card, card_path};
use crate::file::FileRef;
use crate::manifest::{self, DroppedPartition, StreamMeta};
use crate::model::{Name, QUARANTINE};
use crate::part::read_part;
use crate::read_only_store::ReadOnlyStore;
use crate::recover::recover;
use crate::resolutions::Settled;
use crate::sim::SimFs;
use crate::snapshot::Snapshot;

pub(super) const STREAM: &str = "events";
/// Width of a partition, microseconds.
pub(super) const DAY_US: i64 = 24 * 3600 * 1_000_000;

/// Payloads of events by sequence number.
pub(super) type Events = BTreeMap<u64, i64>;

/// Visible content of one store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Every event of tiles and memtable, including those dropped since.
    pub(super) events: Events,
    /// Sequence numbers of quarantined items.
    pub(super) bad: BTreeSet<u64>,
    /// Quarantined items that are resolved.
    pub(super) settled: Settled,
    pub(super) positions: BTreeMap<String, u64>,
    /// Dropped partitions, with the first sequence number from which each is complete.
    pub(super) dropped: BTreeMap<i64, u64>,
    /// Detached partitions, with the first sequence number from which each is complete.
    pub(super) detached: BTreeMap<i64, u64>,
    /// Number of erased events on record.
    pub(super) erased: u64,
}

/// The rows of a part, and all of their columns.
type PartRows = (Vec<Row>, Vec<RecordBatch>);

/// Cache of rows by file and checksum.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(BTreeMap<(String, u32), Arc<PartRows>>);

/// Returns the day of an event, from 1970.
pub(super) fn day(payload: i64) -> i64 {
    payload.div_euclid(DAY_US)
}

/// Reads and checks the content of a snapshot.
pub(super) fn read_content(
    snapshot: &Snapshot,
    positions: impl IntoIterator<Item = (String, u64)>,
    known: &mut Known,
) -> Seen {
    let manifest = snapshot.manifest();
    manifest.check().expect("the manifest's invariants hold");
    let sealed_seq = manifest.sealed_seq;
    let (mut parts, memory) = events(snapshot, STREAM, known);
    assert!(memory.keys().all(|seq| *seq >= sealed_seq), "in memory too");
    let tiles = tiles(snapshot);
    assert!(tiles.keys().all(|seq| *seq < sealed_seq), "not sealed yet");
    let dropped = dropped(snapshot);
    let gone = |seq: u64, payload| {
        dropped
            .get(&day(payload))
            .is_some_and(|d| seq < d.complete_from)
    };
    let detached = detached(snapshot, &mut parts, known);
    let mut kept = tiles.clone();
    kept.retain(|seq, payload| !gone(*seq, *payload));
    assert_eq!(
        kept, parts,
        "tiles less what was dropped, and parts, live and detached"
    );
    for (at, dropped) in &dropped {
        let count = tiles
            .iter()
            .filter(|(s, p)| day(**p) == *at && gone(**s, **p));
        assert_eq!(count.count() as u64, dropped.events, "{dropped:?}");
    }
    for file in &manifest.identities {
        snapshot.read(file).expect("a checkpoint is there");
    }
    let streams = || manifest.streams.values();
    let (mut bad, bad_memory) = events(snapshot, QUARANTINE, known);
    bad.extend(bad_memory);
    Seen {
        events: tiles.into_iter().chain(memory).collect(),
        bad: bad.into_keys().collect(),
        settled: snapshot.settled().clone(),
        positions: positions.into_iter().collect(),
        dropped: dropped
            .into_iter()
            .map(|(day, d)| (day, d.complete_from))
            .collect(),
        detached,
        erased: streams().map(StreamMeta::erased_events).sum(),
    }
}

/// Reads the content of a reader in another process.
pub(super) fn by_reader(reader: &ReadOnlyStore, known: &mut Known) -> Seen {
    let positions = reader.positions().into_iter().map(|(p, at)| (p, at.to));
    read_content(&reader.snapshot(), positions, known)
}

/// Reads a store that no process has open; `None` when there is none.
pub(super) fn at_rest(fs: &SimFs, data: &Path, known: &mut Known) -> Option<Seen> {
    let committed = manifest::read_newest(fs, data).expect("whole or not there")?;
    let found = recover(fs, data, &committed.manifest).expect("whole");
    assert_eq!(found.replay.torn_bytes, 0);
    let positions = found.identities.positions();
    let snapshot = Snapshot {
        data: data.into(),
        fs: Arc::new(fs.clone()),
        depot: None,
        manifest: committed.manifest,
        streams: found.streams.into(),
        chunks: found.memtable.chunks(),
        next_seq: found.next_seq,
        settled: Arc::clone(found.identities.settled()),
        derived: Arc::default(),
        pin: Arc::new(()),
    };
    let positions = positions.into_iter().map(|(p, at)| (p, at.to));
    Some(read_content(&snapshot, positions, known))
}

fn dropped(snapshot: &Snapshot) -> BTreeMap<i64, DroppedPartition> {
    let name = Name::new(STREAM).expect("a name");
    let committed = snapshot.manifest().streams.get(&name);
    let live = snapshot.streams().get(&name);
    let Some(committed) = committed else {
        return BTreeMap::new();
    };
    assert_eq!(
        live.map(|l| &l.dropped),
        Some(&committed.dropped),
        "live and committed"
    );
    let by_day = committed.dropped.iter();
    by_day.map(|d| (day(d.partition_us), *d)).collect()
}

/// Returns the detached partitions and adds their events to `parts`, those of the live parts.
/// Live events of the same day arrived later.
fn detached(snapshot: &Snapshot, parts: &mut Events, known: &mut Known) -> BTreeMap<i64, u64> {
    let live = parts.clone();
    let mut days = BTreeMap::new();
    for partition in &snapshot.manifest().detached {
        let (at, from) = (day(partition.partition_us), partition.complete_from);
        let early = live.iter().find(|(s, p)| day(**p) == at && **s < from);
        assert_eq!(early, None, "live beside {}", partition.folder);
        let before = days.insert(at, from);
        assert_eq!(before, None, "{} is there twice", partition.folder);
        for file in partition.parts.iter().map(|p| &p.file) {
            for (seq, payload) in &known.part(snapshot, file).0 {
                assert!(
                    day(*payload) == at && *seq < from,
                    "{seq} in {}",
                    partition.folder
                );
                let before = parts.insert(*seq, *payload);
                assert_eq!(before, None, "sequence {seq} is there twice");
            }
        }
        // The card is removed as soon as the partition is attached; readers do not need it.
        let newest = manifest::newest_version(&*snapshot.fs, &snapshot.data).expect("listed");
        if newest == Some(snapshot.manifest.version) {
            let card = snapshot.data.join(card_path(&partition.folder));
            let bytes = snapshot.fs.read(&card).expect("a card is there");
            let card = Card::decode(&card, &bytes).expect("a card");
            assert!(card.is_of(snapshot.manifest(), partition), "{card:?}");
        }
    }
    days
}

/// Returns the events that the tiles count, which are the same at every level except below its
/// floor.
pub(super) fn tiles(snapshot: &Snapshot) -> Events {
    let manifest = snapshot.manifest();
    let mut levels = LEVELS.map(|_| Events::new());
    for tile in &manifest.tiles {
        for file in &tile.files {
            let bytes = snapshot.read(&file.file).expect("a tile is there");
            for section in &file.sections {
                let nth = LEVELS.iter().position(|l| *l == section.level);
                let all = &mut levels[nth.expect("a level")];
                for (seq, payload) in listed(&bytes, section) {
                    let before = all.insert(seq, payload);
                    assert_eq!(before, None, "sequence {seq} was counted twice");
                    let range = tile.first_seq..tile.cutoff;
                    assert!(range.contains(&seq), "{seq} in {tile:?}");
                }
            }
        }
    }
    let [fine, coarse] = levels;
    let mut above = coarse.clone();
    if let Some(rollup) = manifest.rollups.first() {
        let floor_us = rollup.floor_us(LEVELS[0]);
        above.retain(|_, payload| day(*payload) * DAY_US >= floor_us);
    }
    assert_eq!(
        fine, above,
        "the fine level, and the coarse one above the floor"
    );
    coarse
}

/// Returns the events in parts and those in the memtable.
fn events(snapshot: &Snapshot, stream: &str, known: &mut Known) -> (Events, Events) {
    let name = Name::new(stream).expect("a name");
    let (mut parts, mut memory) = (Events::new(), Events::new());
    let add = |all: &mut Events, rows: &[Row]| {
        for (seq, payload) in rows {
            let before = all.insert(*seq, *payload);
            assert_eq!(before, None, "sequence {seq} is there twice");
        }
    };
    let division = snapshot.streams().get(&name);
    let division = division.and_then(|meta| meta.divided_by.as_ref());
    let mut came_by_it = |events: &RecordBatch| {
        if let Some(division) = division {
            let with = division.with(events);
            assert_eq!(with.as_ref(), Some(division), "the division of {stream}");
        }
    };
    for part in snapshot.manifest().parts_of(&name) {
        let (rows, batches) = &*known.part(snapshot, &part.file);
        add(&mut parts, rows);
        batches.iter().for_each(&mut came_by_it);
    }
    for chunk in snapshot.chunks(stream) {
        motley::check(&chunk.events);
        came_by_it(&chunk.events);
        add(&mut memory, &rows(&chunk.events));
    }
    (parts, memory)
}

impl Known {
    /// Returns a part's rows. The file is read each time and compared with its checksum, which
    /// determines its content.
    fn part(&mut self, snapshot: &Snapshot, file: &FileRef) -> Arc<PartRows> {
        let bytes = snapshot.read(file).expect("a part is there");
        let read = || {
            let batches = read_part(bytes, None).expect("a part");
            batches.iter().for_each(motley::check);
            Arc::new((batches.iter().flat_map(rows).collect(), batches))
        };
        let key = (file.path.clone(), file.crc);
        Arc::clone(self.0.entry(key).or_insert_with(read))
    }
}
