//! Recovery: rebuilds the acknowledged state from a manifest and the journal's tail.

use std::collections::BTreeMap;
use std::path::Path;

use crate::apply::{RecordTarget, apply};
use crate::env::Fs;
use crate::error::{Error, Result};
use crate::identity::Identities;
use crate::journal::{self, Group, Replay};
use crate::manifest::{KafkaJournal, Manifest, StreamMeta};
use crate::memtable::{Memtable, RowBuffer};
use crate::model::Name;
use crate::record::{LAYOUT, Record, Shapes};
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

/// Replays the journal over a manifest; writes nothing to the disk. Of a store with a shared
/// journal this is what is sealed.
pub(crate) fn recover(fs: &dyn Fs, data: &Path, manifest: &Manifest) -> Result<Recovered> {
    let mut identities = identities(fs, data, manifest)?;
    if let Some(journal) = &manifest.journal {
        return Ok(sealed(manifest, identities, journal));
    }
    let mut memtable = Memtable::default();
    let mut streams = manifest.streams.clone();
    let mut items = 0;
    let mut rows = RowBuffer::default();
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
                // Records below were sealed, and their identities are in a checkpoint. A record
                // without items has no number of its own: the checkpoint may have it too.
                let is_sealed = match &record.identity {
                    Some(identity) if record.items() == 0 && seq == manifest.sealed_seq => {
                        identities.has_read(identity, record.received_us)
                    }
                    _ => first_seq < manifest.sealed_seq,
                };
                if !is_sealed {
                    items += record.items();
                    let target = &mut RecordTarget {
                        memtable: &mut memtable,
                        rows: &mut rows,
                        streams: &mut streams,
                        identities: &mut identities,
                    };
                    apply(target, &record, first_seq)?;
                }
            }
            check_count(data, &group, seq)
        },
    )?;
    rows.append_to(&mut memtable)?;
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

/// Returns the state at the position up to which a shared journal is sealed.
fn sealed(manifest: &Manifest, identities: Identities, journal: &KafkaJournal) -> Recovered {
    Recovered {
        memtable: Memtable::default(),
        streams: manifest.streams.clone(),
        identities,
        next_seq: journal.position.next_seq,
        replay: Replay::default(),
        items: 0,
    }
}

/// Reads the checkpoints of identities.
fn identities(fs: &dyn Fs, data: &Path, manifest: &Manifest) -> Result<Identities> {
    let mut identities = Identities::default();
    if !seeded::is(Bug::DedupReset) {
        for file in &manifest.identities {
            identities.load(fs, data, file)?;
        }
    }
    Ok(identities)
}

/// Checks that the head of a group counts as many items as its records have, which end at
/// `end_seq`. Otherwise the next group would use numbers again.
fn check_count(data: &Path, group: &Group, end_seq: u64) -> Result<()> {
    if group.end_seq() == Some(end_seq) {
        return Ok(());
    }
    let (first_seq, items) = (group.first_seq, group.items);
    Err(Error::Corrupt {
        path: data.join(journal::DIR),
        offset: 0,
        what: format!(
            "the group at sequence {first_seq} counts {items} items, but its records have {}",
            end_seq - first_seq
        ),
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
