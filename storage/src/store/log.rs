//! The log thread: groups requests, decides about their batches (`admit`), writes the group to the
//! journal, makes it visible and replies. `j` writes are acknowledged by the sync thread (`sync`).

mod admit;
mod request;
mod sync;

pub(super) use admit::{AdmittedGroup, Decision};
pub(super) use request::{Command, Reply, Request};
pub(super) use sync::{Waiter, sync_loop};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::{Arrived, Shared, State, wait_for};
use crate::apply::{RecordTarget, apply};
use crate::concern::Durability;
use crate::error::{Error, Kind, Result};
use crate::journal::Journal;
use crate::memtable::{Chunk, RowBuffer};
use crate::model::Ack;
use crate::record::Record;
use crate::seeded::{self, Bug};
use crate::shared_journal::JournalPosition;
use admit::GroupEntry;

/// Bytes and batches at which a group is closed: one write of a few megabytes.
pub(super) const GROUP_BYTES_MAX: usize = 8 << 20;
pub(super) const GROUP_BATCHES_MAX: usize = 1024;
/// Interval at which a gathering group checks for the end of a sync: short beside the fastest
/// sync.
const GATHER: Duration = Duration::from_micros(50);
/// Multiple of its limit up to which the memtable may grow while a seal is running.
const MEMTABLE_SLACK: usize = 2;

/// Runs the log thread.
pub(super) fn run_log(
    shared: &Arc<Shared>,
    journal: Journal,
    inbox: &Receiver<Command>,
    waiters: &Sender<Vec<Waiter>>,
) {
    let run = AssertUnwindSafe(|| log_loop(shared, journal, inbox, waiters));
    if catch_unwind(run).is_err() {
        shared.thread_died("log");
        // A bounded queue keeps its contents when its receiver is gone, and their clients would
        // wait for ever. Dropping a request answers it.
        inbox.iter().for_each(drop);
    }
}

pub(super) fn bytes_of(requests: &[Request]) -> usize {
    requests.iter().map(|r| r.payload.len()).sum()
}

fn log_loop(
    shared: &Shared,
    mut journal: Journal,
    inbox: &Receiver<Command>,
    waiters: &Sender<Vec<Waiter>>,
) {
    let mut next = inbox.recv().ok();
    while let Some(command) = next {
        let mut after = None;
        match command {
            Command::Write(mut group) => {
                after = gather(shared, &mut group, inbox, waiters);
                match check_reserve(shared).and_then(|()| wait_for_memtable(shared)) {
                    Ok(()) => write_group(shared, &mut journal, group, waiters),
                    Err(error) => refuse_all(shared, group, &error),
                }
            }
            Command::Cut(done) => {
                cut_now(shared, &mut journal);
                // Nobody waits any more if the caller was stopped.
                let _ignored = done.send(());
            }
        }
        next = after.or_else(|| inbox.recv().ok());
    }
    // The store is closing: after its last seal no segment before the new one is needed.
    cut_now(shared, &mut journal);
}

/// Begins a new segment unless the present one is empty. Without disk space for another segment
/// this one stays, and the next start reads it.
fn cut_now(shared: &Shared, journal: &mut Journal) {
    let next_seq = shared.state.lock().next_seq;
    match cut_segment(shared, journal, true, next_seq) {
        Ok(()) | Err(Error::DiskFull { .. } | Error::Overloaded { .. }) => {}
        Err(error) => shared.poison(&error),
    }
}

/// Adds the requests that have arrived meanwhile to a group. Returns a command that arrived after
/// them and is none.
///
/// A `j` write is acknowledged by the next sync to start. So while a sync runs, a group of `j`
/// writes stays open at no cost to any client: more writes join, and one write to the journal
/// serves them all.
fn gather(
    shared: &Shared,
    group: &mut Vec<Request>,
    inbox: &Receiver<Command>,
    waiters: &Sender<Vec<Waiter>>,
) -> Option<Command> {
    let syncer = &shared.syncer;
    let syncing = || syncer.poisoned().is_none() && (!waiters.is_empty() || syncer.is_syncing());
    let only_j = |requests: &[Request]| requests.iter().all(|r| r.durability == Durability::Synced);
    let (mut bytes, mut patient) = (bytes_of(group), only_j(group));
    while bytes < GROUP_BYTES_MAX && group.len() < GROUP_BATCHES_MAX {
        let next = match inbox.try_recv() {
            Ok(next) => next,
            Err(_) if patient && syncing() => match inbox.recv_timeout(GATHER) {
                Ok(next) => next,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            },
            Err(_) => break,
        };
        let Command::Write(next) = next else {
            return Some(next);
        };
        bytes += bytes_of(&next);
        patient &= only_j(&next);
        group.extend(next);
    }
    None
}

/// Refuses all writes while the reserve is released (`reserve.rs`).
pub(super) fn check_reserve(shared: &Shared) -> Result<()> {
    if seeded::is(Bug::ReserveTaken)
        || !shared.reserve.is_given_up()
        || shared.reserve.restore(shared.fs())
    {
        return Ok(());
    }
    Err(Error::DiskFull {
        path: shared.data.clone(),
    })
}

/// Applies back-pressure: while a seal is running and the memtable has grown to its slack,
/// clients wait.
///
/// # Errors
/// When the memtable is that full because it cannot be sealed. Clients get the error at once
/// instead of waiting until disk space is freed. Writes resume by themselves once a seal
/// succeeds.
pub(super) fn wait_for_memtable(shared: &Shared) -> Result<()> {
    let limit = shared.options.config.memtable_bytes_max;
    let mut state = shared.state.lock();
    if state.memtable.is_full(limit) {
        shared.sealing.notify_all();
    }
    while state.memtable.bytes() >= limit.saturating_mul(MEMTABLE_SLACK) && !state.closing {
        match &state.seal_error {
            Some((Kind::DiskFull, _)) => {
                return Err(Error::DiskFull {
                    path: shared.data.clone(),
                });
            }
            Some((_, why)) => {
                return Err(Error::Overloaded {
                    what: format!("the memtable is full and cannot be sealed: {why}"),
                });
            }
            None => {}
        }
        wait_for(&shared.sealing, &mut state, 100_000);
        shared.sealing.notify_all();
        if shared.syncer.poisoned().is_some() {
            break;
        }
    }
    Ok(())
}

/// Refuses every batch of a group with the same error.
pub(super) fn refuse_all(shared: &Shared, group: impl IntoIterator<Item = Request>, error: &Error) {
    for request in group {
        let copy = match error {
            Error::DiskFull { path } => Error::DiskFull { path: path.clone() },
            Error::Overloaded { what } => Error::Overloaded { what: what.clone() },
            Error::Unknown { what } => Error::Unknown { what: what.clone() },
            Error::Closed => Error::Closed,
            other => Error::Unknown {
                what: other.to_string(),
            },
        };
        refuse(shared, request, copy);
    }
}

fn write_group(
    shared: &Shared,
    journal: &mut Journal,
    group: Vec<Request>,
    waiters: &Sender<Vec<Waiter>>,
) {
    let (first_seq, rotate) = {
        let mut state = shared.state.lock();
        (state.next_seq, std::mem::take(&mut state.rotate))
    };
    let AdmittedGroup {
        mut entries,
        next_seq,
        ..
    } = AdmittedGroup::of(shared, group, first_seq);
    let payloads: Vec<Vec<u8>> = entries
        .iter_mut()
        .filter(|e| matches!(e.decision, Decision::First(_)))
        .map(|e| e.request.take_payload())
        .collect();
    if !payloads.is_empty() {
        let written = cut_segment(shared, journal, rotate, first_seq)
            .and_then(|()| journal.append(first_seq, next_seq - first_seq, &payloads));
        shared.refused_disk_full.store(false, Ordering::SeqCst);
        if let Err(error) = written {
            // After either error nothing of the group is in the journal.
            if matches!(error, Error::DiskFull { .. } | Error::Overloaded { .. }) {
                let is_full = matches!(error, Error::DiskFull { .. });
                shared.refused_disk_full.store(is_full, Ordering::SeqCst);
                shared.state.lock().rotate |= rotate;
            } else {
                shared.poison(&error);
            }
            refuse_all(shared, entries.into_iter().map(|e| e.request), &error);
            return;
        }
    } else if rotate {
        shared.state.lock().rotate = true;
    }
    // Only the one writer may acknowledge its writes (the first invariant of `lock.rs`).
    if let Err(error) = shared.check_lock() {
        refuse_all(shared, entries.into_iter().map(|e| e.request), &error);
        return;
    }
    publish(shared, entries, (next_seq, None), Some(waiters));
}

fn cut_segment(shared: &Shared, journal: &mut Journal, wanted: bool, next_seq: u64) -> Result<()> {
    if journal.is_full() || (wanted && !journal.is_empty()) {
        shared.check_lock()?;
        journal.rotate(next_seq)?;
        shared
            .state
            .lock()
            .segments
            .push((journal.segment(), next_seq));
    }
    Ok(())
}

/// Makes a written group visible in one change of the state, then replies. `end` is the state's
/// next sequence number and its position in a shared journal. Without `waiters` the group is
/// durable already.
pub(super) fn publish(
    shared: &Shared,
    entries: Vec<GroupEntry>,
    end: (u64, Option<JournalPosition>),
    waiters: Option<&Sender<Vec<Waiter>>>,
) {
    let mut answers = Vec::with_capacity(entries.len());
    {
        let mut state = shared.state.lock();
        let mut rows = RowBuffer::default();
        for GroupEntry { request, decision } in entries {
            let record = &request.record;
            let outcome = match decision {
                Decision::First(seq) => state.apply(&mut rows, record, seq, request.counts),
                Decision::Duplicate(ack) if !request.counts => Ok(ack),
                Decision::Duplicate(ack) => {
                    let counters = state.counters_of(&record.stream);
                    counters.received += record.items();
                    counters.duplicate += record.items();
                    Ok(ack)
                }
                // It is counted when its error is sent.
                Decision::Refused(error) => Err(error),
            };
            answers.push((request, outcome));
        }
        (state.next_seq, state.position) = end;
        if let Err(error) = rows.append_to(&mut state.memtable) {
            // The group is in the journal but cannot be shown: only a restart can tell what is
            // there.
            shared.poison(&error);
        }
    }
    let mut waiting = Vec::new();
    for (request, outcome) in answers {
        match outcome {
            Err(error) => refuse(shared, request, error),
            Ok(ack) if waiters.is_some() && request.durability == Durability::Synced => {
                let until = ack.last_seq.map_or(0, |last| last + 1);
                waiting.push(Waiter {
                    ack,
                    until,
                    reply: request.reply,
                });
            }
            Ok(ack) => request.reply.send(Ok(ack)),
        }
    }
    if let Some(waiters) = waiters
        && !waiting.is_empty()
    {
        // The waiters are sent together, so that one sync acknowledges them all. The sync thread
        // outlives the log thread; without it, dropping the waiters would answer them.
        let _ignored = waiters.send(waiting);
    }
}

pub(super) fn refuse(shared: &Shared, request: Request, error: Error) {
    let items = request.record.items();
    let stream = &request.record.stream;
    if request.counts {
        shared.state.lock().count_refused(stream, items);
    }
    request.reply.send(Err(error));
}

impl State {
    /// Applies the record of a first copy: its rows, its identity and, if it came to this process,
    /// its counts.
    fn apply(
        &mut self,
        rows: &mut RowBuffer,
        record: &Record,
        first_seq: u64,
        counts: bool,
    ) -> Result<Ack> {
        let target = &mut RecordTarget {
            memtable: &mut self.memtable,
            rows,
            streams: Arc::make_mut(&mut self.streams),
            identities: &mut self.identities,
        };
        let ack = apply(target, record, first_seq)?;
        if record.items() == 0 && self.empty_from.is_none() {
            self.empty_from = self.segments.last().map(|(segment, _)| *segment);
        }
        if counts {
            let counters = self.counters_of(&record.stream);
            counters.received += ack.accepted + ack.quarantined;
            counters.stored += ack.accepted;
            counters.quarantined += ack.quarantined;
        }
        if !self.followers.is_empty() && ack.accepted > 0 {
            let (seqs, _) = record.sequence(first_seq);
            self.followers.send(&Arrived {
                stream: record.stream.clone(),
                events: Chunk::new(&record.events, seqs)?.events,
            });
        }
        Ok(ack)
    }
}
