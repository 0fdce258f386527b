//! Manifest edits, one at a time, and the deletion of the files that they no longer name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::creation::NewStream;
use super::{Pin, Shared, State};
use crate::error::{Error, Result};
use crate::manifest::{self, CommitPlace, Committed, Manifest, Pending, StreamMeta};
use crate::model::{Name, QUARANTINE, StreamKind};
use crate::reader_registry::{self, Hold};
use crate::record::Record;
use crate::rollup_hook::RollupMeta;
use crate::seeded::{self, Bug};
use crate::shared_journal::JournalPosition;
use crate::snapshot::Streams;

/// The view that an edit has of the state.
///
/// Other threads go on during the edit and may add columns, segments and batches. A seal adds
/// only the columns of its own events, and drops no segment from the last one in the view on.
#[derive(Debug)]
pub(super) struct View {
    pub(super) streams: Streams,
    /// As [`State::segments`].
    pub(super) segments: Vec<(u64, u64)>,
    /// As [`State::empty_from`].
    pub(super) empty_from: Option<u64>,
    pub(super) memtable_is_empty: bool,
    /// As [`State::position`], if everything before it is sealed.
    pub(super) sealed_to: Option<JournalPosition>,
    next_seq: u64,
}

impl View {
    fn of(state: &State) -> Self {
        Self {
            streams: Arc::clone(&state.streams),
            segments: state.segments.clone(),
            empty_from: state.empty_from,
            memtable_is_empty: state.memtable.is_empty(),
            sealed_to: state.sealed_to(),
            next_seq: state.next_seq,
        }
    }
}

impl Shared {
    /// Commits one manifest edit. `change` gets the manifest to change, and is the only thing
    /// that happens between reading the current version and writing the next.
    pub(super) fn edit(&self, change: impl FnOnce(&mut Manifest)) -> Result<()> {
        self.edit_and(|manifest, _| change(manifest), |_| ())
    }

    /// Commits an edit as [`Shared::edit`] does. `change` also gets a view of the state before
    /// the edit, and `also` changes the state at the moment in which the new version becomes
    /// visible.
    pub(super) fn edit_and(
        &self,
        change: impl FnOnce(&mut Manifest, &View),
        also: impl FnOnce(&mut State),
    ) -> Result<()> {
        self.edit_with(change, also, |next, commit| commit(next))
    }

    /// Commits an edit that frees disk space, as [`Shared::edit_and`] does: on a full disk it
    /// uses the reserve.
    pub(super) fn edit_freeing_space(
        &self,
        change: impl FnOnce(&mut Manifest, &View),
        also: impl FnOnce(&mut State),
    ) -> Result<()> {
        self.edit_with(change, also, |next, commit| {
            self.with_reserve(|| commit(next.clone()))
        })
    }

    /// Commits an edit. `make` gets the next version and the function that commits it.
    fn edit_with(
        &self,
        change: impl FnOnce(&mut Manifest, &View),
        also: impl FnOnce(&mut State),
        make: impl FnOnce(Manifest, &dyn Fn(Manifest) -> Result<Committed>) -> Result<Committed>,
    ) -> Result<()> {
        let _one_at_a_time = self.edits.lock();
        self.syncer.check()?;
        self.check_lock()?;
        let current = self.state.lock().committed.clone();
        // The copy is half a megabyte of names, so it is made and changed without the state's
        // lock.
        let mut next = (*current.manifest).clone();
        let view = View::of(&self.state.lock());
        next.next_seq = next.next_seq.max(view.next_seq);
        next.next_file = next.next_file.max(self.next_file.load(Ordering::SeqCst));
        change(&mut next, &view);
        if seeded::is(Bug::JournalDeletedEarly) {
            for pending in next.pending.iter().filter(|p| p.since == next.version + 1) {
                let _ignored = self.fs().remove(&self.data.join(&pending.path));
            }
        }
        let removed = self.unlink_pending(&current.manifest);
        next.pending.retain(|p| !removed.contains(&p.path));
        let place = self.depot.as_ref().map(|owner| owner as &dyn CommitPlace);
        let commit =
            |next| manifest::commit_for(place, self.fs(), &self.data, Some(&current), next);
        let outcome = make(next, &commit);
        if let Err(error @ Error::Unknown { .. }) = &outcome {
            self.poison(error);
        }
        let committed = outcome?;
        // A second writer may have started while the version was written, and may or may not have
        // read it.
        self.check_lock()?;
        let now_us = self.options.clock.elapsed_us();
        self.dropped.lock().follow(&current.manifest, now_us);
        let mut state = self.state.lock();
        let old = std::mem::replace(&mut state.pin, Arc::new(Pin));
        state.old_pins.retain(|(_, pin)| pin.strong_count() > 0);
        state
            .old_pins
            .push((Hold::of(&current.manifest), Arc::downgrade(&old)));
        state.committed = committed;
        also(&mut state);
        drop(state);
        drop(old);
        Ok(())
    }

    /// Returns the holds of readers in this and in other processes; `None` when the registry cannot
    /// be read: then nothing is removed, and the next edit tries again.
    pub(super) fn holds(&self) -> Option<Vec<Hold>> {
        let mut holds = reader_registry::holds(self.fs(), &self.data, self.now_us()).ok()?;
        let state = self.state.lock();
        let live = state.old_pins.iter().filter(|p| p.1.strong_count() > 0);
        holds.extend(live.map(|(hold, _)| *hold));
        Some(holds)
    }

    /// Removes the pending files that no reader's version refers to. Returns their paths.
    fn unlink_pending(&self, current: &Manifest) -> Vec<String> {
        let mut removed = Vec::new();
        if current.pending.is_empty() {
            return removed;
        }
        let Some(holds) = self.holds() else {
            return removed;
        };
        let free = |p: &&Pending| !holds.iter().any(|h| h.needs(p));
        let is_elsewhere = |path: &str| self.depot.is_some() && !self.dropped.lock().is_gone(path);
        for pending in current.pending.iter().filter(free) {
            let path = self.data.join(&pending.path);
            match self.fs().remove(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), error = %e, "could not remove a file; will try again")
                }
                // The manifest names it until it is deleted from the object store, too.
                _ if is_elsewhere(&pending.path) => {}
                _ => removed.push(pending.path.clone()),
            }
        }
        removed
    }

    /// Removes pending files as soon as no reader needs them; the next edit takes them out of the
    /// manifest.
    pub(super) fn remove_unreferenced(&self) {
        let _one_at_a_time = self.edits.lock();
        if self.check_lock().is_ok() {
            let current = Arc::clone(&self.state.lock().committed.manifest);
            self.unlink_pending(&current);
        }
    }

    /// Creates the streams that a batch needs and that are missing.
    pub(super) fn create_missing(&self, record: &Record, next_seq: u64) -> Result<()> {
        let missing = |name: &Name| !self.state.lock().streams.contains_key(name);
        if record.events.num_rows() > 0 && missing(&record.stream) {
            self.create_stream(&record.stream, (record.kind, None), next_seq)?;
        }
        if !record.ranks.is_empty() {
            let quarantine = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
            if missing(&quarantine) {
                self.create_stream(&quarantine, (StreamKind::Quarantine, None), next_seq)?;
            }
        }
        Ok(())
    }

    /// Creates a stream and its rollups in one edit, unless it is there. Its rollups begin at
    /// `next_seq`, or at the end of what is visible if that is later. `divided_by` holds while the
    /// stream has no events: they come after its creation.
    pub(super) fn create_stream(
        &self,
        name: &Name,
        (kind, divided_by): NewStream,
        next_seq: u64,
    ) -> Result<()> {
        let now_us = self.now_us();
        // A backup of an earlier release may have records of a stream that its manifest lacks.
        let has_rows = self.state.lock().memtable.chunks().contains_key(name);
        let divided_by = divided_by.filter(|_| !has_rows);
        let meta = StreamMeta {
            divided_by,
            ..self.options.config.stream_meta(name, kind, now_us)
        };
        let existing = self.state.lock().committed.manifest.rollups.clone();
        let new = self
            .options
            .rollup_hook
            .rollups_for(name, kind, &existing)
            .map_err(|source| Error::Rollup {
                rollup: name.to_string(),
                source,
            })?;
        let columns = meta.clone();
        self.edit_and(
            |manifest, view| {
                // Another thread may have created it since the caller looked.
                if manifest.streams.contains_key(name) {
                    return;
                }
                manifest.streams.insert(name.clone(), meta);
                for rollup in new {
                    manifest.rollups.push(RollupMeta {
                        id: manifest.next_rollup,
                        name: rollup.name,
                        stream: name.clone(),
                        definition: rollup.definition,
                        levels: rollup.levels,
                        first_seq: next_seq.max(view.next_seq),
                        created_us: now_us,
                        floors: BTreeMap::new(),
                        history: None,
                        zone_data: rollup.zone_data,
                    });
                    manifest.next_rollup += 1;
                }
            },
            |state| {
                let streams = Arc::make_mut(&mut state.streams);
                streams.entry(name.clone()).or_insert(columns);
            },
        )
    }
}
