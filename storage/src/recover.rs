//! Recovery: rebuilds the acknowledged state from a manifest and the journal's tail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::Fs;
use crate::error::{Error, Result};
use crate::identity::Identities;
use crate::journal::{self, Replay};
use crate::manifest::{Manifest, StreamMeta};
use crate::memtable::{InterleavedColumn, Memtable};
use crate::model::{Ack, Name, QUARANTINE, StreamKind};
use crate::record::{LAYOUT, Record, Shapes};
use crate::schema_evolution;
use crate::seeded::{self, Bug};

/// The state that the last writer had reached.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) memtable: Memtable,
    pub(crate) streams: BTreeMap<Name, StreamMeta>,
    pub(crate) identities: Identities,
    pub(crate) next_seq: u64,
    pub(crate) replay: Replay,
    /// Number of events and quarantined items found in the journal.
    pub(crate) items: u64,
}

/// Replays the journal over a manifest; writes nothing to the disk.
pub(crate) fn recover(fs: &dyn Fs, data: &Path, manifest: &Manifest) -> Result<Recovered> {
    let mut identities = Identities::default();
    if !seeded::is(Bug::DedupReset) {
        for file in &manifest.identities {
            identities.load(fs, data, file)?;
        }
    }
    let mut memtable = Memtable::default();
    let mut streams = manifest.streams.clone();
    let mut items = 0;
    let mut gathered = InterleavedColumn::default();
    let mut shapes = Shapes::default();
    let replay = journal::replay(
        fs,
        data,
        &manifest.store_id,
        manifest.journal_floor,
        |group| {
            let mut seq = group.first_seq;
            if seq + u64::from(group.items) < manifest.sealed_seq {
                return Ok(());
            }
            for payload in &group.records {
                let record = Record::decode_after(payload, &mut shapes);
                let record = record.map_err(|what| unread(data, payload, seq, &what))?;
                let first_seq = seq;
                seq += record.items();
                // Records below were sealed, and their identities are in a checkpoint.
                if first_seq >= manifest.sealed_seq {
                    items += record.items();
                    let into = &mut Intake {
                        memtable: &mut memtable,
                        gathered: &mut gathered,
                        streams: &mut streams,
                        identities: &mut identities,
                    };
                    apply(into, &record, first_seq)?;
                }
            }
            Ok(())
        },
    )?;
    gathered.append_to(&mut memtable)?;
    // The batch that creates a stream is a journal record, so a segment must exist.
    if replay.last.segment == 0 && !manifest.streams.is_empty() {
        return Err(Error::Corrupt {
            path: journal::segment_path(data, manifest.journal_floor.max(1)),
            offset: 0,
            what: "the segment is missing".into(),
        });
    }
    let next_seq = replay.next_seq.max(manifest.next_seq);
    Ok(Recovered {
        memtable,
        streams,
        identities,
        next_seq,
        replay,
        items,
    })
}

/// Returns the error of a record that cannot be applied. Of a record from a newer program only
/// the layout is known.
fn unread(data: &Path, payload: &[u8], seq: u64, what: &str) -> Error {
    let path = data.join(journal::DIR);
    match payload.first() {
        Some(layout) if *layout > LAYOUT => Error::FormatTooNew {
            path,
            found: u32::from(*layout),
            known: u32::from(LAYOUT),
        },
        _ => Error::Corrupt {
            path,
            offset: 0,
            what: format!("the record at sequence {seq}: {what}"),
        },
    }
}

/// The state that a record is applied to.
#[derive(Debug)]
pub(crate) struct Intake<'a> {
    pub(crate) memtable: &'a mut Memtable,
    /// Rows wait here until they are appended to the memtable.
    pub(crate) gathered: &'a mut InterleavedColumn,
    pub(crate) streams: &'a mut BTreeMap<Name, StreamMeta>,
    pub(crate) identities: &'a mut Identities,
}

/// Applies a journal record: live writing and recovery both use this function.
pub(crate) fn apply(into: &mut Intake<'_>, record: &Record, first_seq: u64) -> Result<Ack> {
    let Intake {
        memtable,
        gathered,
        streams,
        identities,
    } = into;
    let (event_seqs, quarantine_seqs) = record.sequence(first_seq);
    let items = record.items();
    // A record without events adds no columns.
    if record.events.num_rows() > 0
        && let Some(meta) = streams.get_mut(&record.stream)
        // The integers in a record of documents may change the type of their column, so it is
        // always checked.
        && (meta.kind == StreamKind::Documents
            || !gathered.has_like(&record.stream, &record.events))
        && schema_evolution::reconcile(meta, record, usize::MAX)?.is_some()
    {
        return Err(Error::Corrupt {
            path: PathBuf::from(journal::DIR),
            offset: 0,
            what: format!(
                "the record at sequence {first_seq}: a column of {} has another type than the stream's",
                record.stream
            ),
        });
    }
    memtable.count_record();
    let ack = Ack {
        accepted: event_seqs.len() as u64,
        quarantined: quarantine_seqs.len() as u64,
        first_seq: (items > 0).then_some(first_seq),
        last_seq: (items > 0).then(|| first_seq + items - 1),
        duplicate: false,
    };
    if !event_seqs.is_empty() {
        let (stream, rows) = (&record.stream, &record.events);
        gathered.add(memtable, stream, rows, event_seqs, record.received_us)?;
    }
    if !quarantine_seqs.is_empty() {
        let quarantine = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
        let rows = &record.quarantine;
        gathered.add(
            memtable,
            &quarantine,
            rows,
            quarantine_seqs,
            record.received_us,
        )?;
    }
    if let Some(identity) = &record.identity {
        identities.remember(identity.clone(), &ack, record.received_us);
    }
    Ok(ack)
}

/// The streams of a snapshot, shared.
pub(crate) type Streams = Arc<BTreeMap<Name, StreamMeta>>;
