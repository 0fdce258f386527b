//! The writer of a store whose journal is shared (`shared_journal.rs`): it appends groups, reads
//! them back in the order of the journal, and decides then.
//!
//! Two threads replace the log thread and the sync thread of a store of its own. The *append
//! thread* (`append`) groups requests and appends them. The *tail thread* reads the journal,
//! decides about every message that counts, makes it visible and replies.
//!
//! # Invariants
//! 1. Everything is decided here, by [`Tail::follow`], whoever appended it: at the start, when the
//!    messages of earlier writers are read up to the fence of this one, and afterwards.
//! 2. A request is answered once: with its decision when its message is read back; as refused when
//!    a later message of this writer, or the fence of another, shows that its message never
//!    counts; else as unknown, after a while or when the store closes.
//! 3. The state's position and what it shows change together, so that a seal commits both.

mod append;
mod begin;
mod pendings;

pub(super) use append::append_loop;

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Condvar, Mutex};

use super::log::{AdmittedGroup, Decision, Request, publish, refuse_all};
use super::{JournalStatus, Shared};
use crate::error::{Error, Result};
use crate::record::{Record, Shapes};
use crate::shared_journal::{
    Fence, JournalMessage, JournalPosition, MessageHead, Payload, RULES, SharedJournal, checksum,
};
use pendings::{LostMessage, Pendings};

/// Time for which one read of the journal waits, and the pause after one that failed.
const READ_WAIT: Duration = Duration::from_millis(100);
const READ_PAUSE: Duration = Duration::from_millis(50);

/// The journal of a writer, and what it has appended and not read back.
#[derive(Debug)]
pub(super) struct Tail {
    journal: Arc<dyn SharedJournal>,
    store_id: String,
    epoch: u32,
    /// Distinguishes its fence from one of another start with this epoch.
    nonce: u128,
    /// A callback of the journal's client sends these: it must not own what owns the client.
    losses: (Sender<LostMessage>, Receiver<LostMessage>),
    pending: Mutex<Pendings>,
    /// True once a message of somebody else was seen.
    has_others: AtomicBool,
    /// Tells that a group was read back, or failed.
    changed: Condvar,
}

/// Effect of a message on this writer.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    None,
    /// Its own fence: from here on its messages count.
    Begun,
}

impl Tail {
    pub(super) fn status(&self, shared: &Shared) -> JournalStatus {
        let sealed = {
            let state = shared.state.lock();
            let journal = state.committed.manifest.journal.as_ref();
            journal.map_or(0, |journal| journal.position.next_offset)
        };
        let position = self.position(shared);
        let pending = self.pending.lock();
        JournalStatus {
            position,
            sealed_offset: sealed,
            bytes_under_way: pending.bytes,
            error: pending.failed.as_ref().map(|(_, why)| why.clone()),
        }
    }

    fn head(&self, number: u64) -> MessageHead<'_> {
        MessageHead {
            epoch: self.epoch,
            number,
            store_id: &self.store_id,
        }
    }

    fn name(&self) -> PathBuf {
        let place = self.journal.place();
        PathBuf::from(format!("kafka:{}/{}", place.topic, place.partition))
    }

    fn corrupt(&self, offset: u64, what: &str) -> Error {
        Error::Corrupt {
            path: self.name(),
            offset,
            what: what.to_owned(),
        }
    }

    fn io(&self, op: &'static str, source: std::io::Error) -> Error {
        Error::Io {
            op,
            path: self.name(),
            source,
        }
    }

    fn position(&self, shared: &Shared) -> JournalPosition {
        let position = shared.state.lock().position;
        position.expect("BUG: a store with a shared journal has a position")
    }

    fn read(&self, shared: &Shared) -> Result<Vec<(u64, Bytes)>> {
        let next = self.position(shared).next_offset;
        self.journal.read(next, READ_WAIT).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                return self.corrupt(next, "there are no messages any more, and these were not read yet; the topic has lost messages");
            }
            self.io("read", error)
        })
    }

    /// Decides about a message and makes it visible.
    ///
    /// # Errors
    /// After any error this writer must stop.
    fn follow(
        &self,
        shared: &Shared,
        offset: u64,
        bytes: &Bytes,
        shapes: &mut Shapes,
    ) -> Result<Effect> {
        let message = JournalMessage::decode(bytes, &self.store_id);
        let before = self.position(shared);
        let Some(message) = message.map_err(|what| self.corrupt(offset, &what))? else {
            self.pass_over(offset);
            self.advance(shared, before.behind(offset, checksum(bytes)));
            return Ok(Effect::None);
        };
        let Some(taken) = before.takes(&message) else {
            self.advance(shared, before.behind(offset, message.crc));
            self.miss(&before, &message);
            return Ok(Effect::None);
        };
        let behind = taken.behind(offset, message.crc);
        match message.payload {
            Payload::Fence(fence) => {
                self.pass_fence(shared, message.epoch, &fence)?;
                self.advance(shared, behind);
                Ok(match message.epoch == self.epoch {
                    true => Effect::Begun,
                    false => Effect::None,
                })
            }
            Payload::Resumption => {
                let (void, _) = self.read_back(message.number);
                self.advance(shared, behind);
                refuse_all(shared, void, &not_taken());
                Ok(Effect::None)
            }
            Payload::Group(records) => {
                let is_own = message.epoch == self.epoch;
                let (void, own) = match is_own {
                    true => self.read_back(message.number),
                    false => (Vec::new(), None),
                };
                let group = match own {
                    Some(group) => group,
                    None => self.decoded(&records, offset, shapes)?,
                };
                self.decide(shared, group, behind)?;
                refuse_all(shared, void, &not_taken());
                Ok(Effect::None)
            }
        }
    }

    /// Notes that one of its messages does not count since one before it is missing: numbers must
    /// be resumed.
    fn miss(&self, before: &JournalPosition, message: &JournalMessage) {
        if (message.epoch, before.epoch) == (self.epoch, self.epoch)
            && message.number > before.number
        {
            let why = "a message before it is missing".to_owned();
            self.pending.lock().fail(message.number, why);
        }
    }

    /// Takes the requests of a message of this writer, and those before it that never count.
    fn read_back(&self, number: u64) -> (Vec<Request>, Option<Vec<Request>>) {
        let mut pending = self.pending.lock();
        let void = pending.take_before(number);
        let own = pending.take(number);
        if pending
            .failed
            .as_ref()
            .is_some_and(|(failed, _)| number >= *failed)
        {
            pending.failed = None;
        }
        drop(pending);
        self.changed.notify_all();
        (void, own)
    }

    fn decoded(&self, records: &[Bytes], offset: u64, shapes: &mut Shapes) -> Result<Vec<Request>> {
        let decode = |bytes: &Bytes| Record::decode_after(bytes, shapes).map(Request::of_another);
        let group: Result<Vec<Request>, String> = records.iter().map(decode).collect();
        group.map_err(|what| self.corrupt(offset, &what))
    }

    fn decide(&self, shared: &Shared, group: Vec<Request>, behind: JournalPosition) -> Result<()> {
        let admitted = AdmittedGroup::of(shared, group, behind.next_seq);
        let unsure = admitted.entries.iter().find_map(|e| match &e.decision {
            Decision::Refused(Error::Unknown { what }) => Some(what.clone()),
            _ => None,
        });
        if let Some(what) = unsure {
            return Err(Error::Unknown { what });
        }
        // Only the one writer may acknowledge its writes (the first invariant of `lock.rs`).
        shared.check_lock()?;
        let next_seq = admitted.next_seq;
        let behind = JournalPosition { next_seq, ..behind };
        shared.syncer.is_durable_to(next_seq);
        publish(shared, admitted.entries, (next_seq, Some(behind)), None);
        shared.syncer.check()
    }

    /// Tells once that others write to the partition.
    fn pass_over(&self, offset: u64) {
        if !self.has_others.swap(true, Ordering::Relaxed) {
            let journal = self.name();
            tracing::warn!(journal = %journal.display(), offset, "the message is not one of this store and is passed over; leave the partition to this store alone");
        }
    }

    fn advance(&self, shared: &Shared, to: JournalPosition) {
        shared.state.lock().position = Some(to);
    }

    fn pass_fence(&self, shared: &Shared, epoch: u32, fence: &Fence) -> Result<()> {
        if fence.rules > RULES {
            return Err(Error::FormatTooNew {
                path: self.name(),
                found: fence.rules,
                known: RULES,
            });
        }
        if epoch == self.epoch && fence.nonce != self.nonce {
            return Err(Error::Unknown {
                what: format!(
                    "{}: another start, on {}, has this epoch, as after CURRENT was restored from a copy; start again, each start takes the next epoch",
                    self.name().display(),
                    fence.host
                ),
            });
        }
        if epoch <= self.epoch {
            return Ok(());
        }
        // Messages of this writer that it has not seen are behind the fence, if anywhere.
        let void = self.pending.lock().take_before(u64::MAX);
        refuse_all(shared, void, &not_taken());
        Err(Error::Unknown {
            what: format!(
                "{}: a writer on {} has taken over with epoch {epoch}; this one stops",
                self.name().display(),
                fence.host
            ),
        })
    }

    /// Notes the messages that are not known to be in the journal. They may come, and their
    /// requests wait until that is certain, or for too long.
    fn note_losses(&self, shared: &Shared) {
        for LostMessage { number, why } in self.losses.1.try_iter() {
            let mut pending = self.pending.lock();
            // One that was read back meanwhile, or a later one, is in the journal.
            if pending.groups.contains_key(&number) {
                pending.fail(number, why);
            }
        }
        loop {
            let mut pending = self.pending.lock();
            let Some(due) = pending.take_due() else {
                return;
            };
            let why = pending.failed.as_ref().map(|(_, why)| why.clone());
            drop(pending);
            self.changed.notify_all();
            let why = why.unwrap_or_else(|| "it cannot be read back".into());
            let what = format!("{}: {why}", self.name().display());
            refuse_all(shared, due, &Error::Unknown { what });
        }
    }
}

/// The answer to a batch whose message never counts.
fn not_taken() -> Error {
    Error::Overloaded {
        what: "the shared journal did not take the batch".into(),
    }
}

/// Runs the tail thread.
pub(super) fn run_tail(shared: &Arc<Shared>, tail: &Tail) {
    let run = AssertUnwindSafe(|| tail_loop(shared, tail));
    match catch_unwind(run) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => shared.poison(&error),
        Err(_) => shared.thread_died("tail"),
    }
    // Dropping a request answers it.
    let mut pending = tail.pending.lock();
    let left = pending.take_before(u64::MAX);
    pending.is_closed = true;
    drop(pending);
    tail.changed.notify_all();
    drop(left);
}

fn tail_loop(shared: &Arc<Shared>, tail: &Tail) -> Result<()> {
    let mut shapes = Shapes::default();
    let mut fails = false;
    loop {
        {
            let pending = tail.pending.lock();
            if pending.is_closed && pending.groups.is_empty() {
                return Ok(());
            }
        }
        shared.syncer.check()?;
        tail.note_losses(shared);
        match tail.read(shared) {
            Ok(messages) => {
                if std::mem::take(&mut fails) {
                    tracing::info!("the shared journal can be read again");
                }
                for (offset, bytes) in messages {
                    tail.follow(shared, offset, &bytes, &mut shapes)?;
                }
            }
            Err(error @ Error::Corrupt { .. }) => return Err(error),
            Err(error) => {
                if !std::mem::replace(&mut fails, true) {
                    tracing::warn!(%error, "could not read the shared journal; trying again");
                }
                std::thread::sleep(READ_PAUSE);
            }
        }
    }
}
