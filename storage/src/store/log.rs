//! The log thread and the sync thread: sequence numbers, journal, visibility, acknowledgement.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};

use super::{Arrived, Counters, Shared, State, wait_for};
use crate::error::{Error, Kind, Result};
use crate::identity;
use crate::journal::Journal;
use crate::memtable::{Chunk, InterleavedColumn};
use crate::model::{Ack, Identity, Name, QUARANTINE, StreamKind, WriteConcern};
use crate::record::Record;
use crate::recover::{Intake, apply};
use crate::resolutions::Ranges;
use crate::schema_evolution;
use crate::seeded::{self, Bug};

/// Bytes and batches at which a group is closed: one write of a few megabytes.
const GROUP_BYTES_MAX: usize = 8 << 20;
const GROUP_BATCHES_MAX: usize = 1024;
/// Free bytes below which a disk still counts as full after it has refused a batch.
pub(super) const GROUP_ROOM: u64 = 1 << 20;
/// Interval at which a gathering group checks for the end of a sync: short beside the fastest
/// sync.
const GATHER: Duration = Duration::from_micros(50);
/// Multiple of its limit up to which the memtable may grow while a seal is running.
const MEMTABLE_SLACK: usize = 2;

/// The reply to a request, sent exactly once. A request dropped without one is answered with an
/// unknown outcome.
pub(super) struct Reply(Option<Box<dyn FnOnce(Result<Ack>) + Send>>);

impl Reply {
    pub(super) fn new(reply: impl FnOnce(Result<Ack>) + Send + 'static) -> Self {
        Self(Some(Box::new(reply)))
    }

    fn send(mut self, outcome: Result<Ack>) {
        if let Some(reply) = self.0.take() {
            reply(outcome);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply(Err(Error::Unknown {
                what: "the store stopped before it could answer".into(),
            }));
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) record: Record,
    pub(super) payload: Vec<u8>,
    pub(super) concern: WriteConcern,
    pub(super) reply: Reply,
}

#[derive(Debug)]
pub(super) enum Command {
    /// Requests that stay together, in one group.
    Write(Vec<Request>),
}

/// A `j` write that waits until all sequence numbers below `until` are synced.
#[derive(Debug)]
pub(super) struct Waiter {
    ack: Ack,
    until: u64,
    reply: Reply,
}

/// A batch in a group, and its outcome.
struct GroupEntry {
    request: Request,
    outcome: Outcome,
}

enum Outcome {
    /// A first copy, with its first sequence number in the group.
    First(u64),
    /// A duplicate; acknowledged like the first copy, once that is visible or synced.
    Duplicate(Ack),
    Refused(Error),
}

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

fn bytes_of(requests: &[Request]) -> usize {
    requests.iter().map(|r| r.payload.len()).sum()
}

fn log_loop(
    shared: &Shared,
    mut journal: Journal,
    inbox: &Receiver<Command>,
    waiters: &Sender<Vec<Waiter>>,
) {
    while let Ok(Command::Write(mut group)) = inbox.recv() {
        gather(shared, &mut group, inbox, waiters);
        match check_reserve(shared).and_then(|()| wait_for_memtable(shared)) {
            Ok(()) => write_group(shared, &mut journal, group, waiters),
            Err(error) => refuse_all(shared, group, &error),
        }
    }
    // The store is closing: after its last seal no segment before the new one is needed.
    let next_seq = shared.state.lock().next_seq;
    match cut_segment(shared, &mut journal, true, next_seq) {
        // Without disk space for another segment this one stays, and the next start reads it.
        Ok(()) | Err(Error::DiskFull { .. } | Error::Overloaded { .. }) => {}
        Err(error) => shared.poison(&error),
    }
}

/// Adds the requests that have arrived meanwhile to a group.
///
/// A `j` write is acknowledged by the next sync to start. So while a sync runs, a group of `j`
/// writes stays open at no cost to any client: more writes join, and one write to the journal
/// serves them all.
fn gather(
    shared: &Shared,
    group: &mut Vec<Request>,
    inbox: &Receiver<Command>,
    waiters: &Sender<Vec<Waiter>>,
) {
    let syncer = &shared.syncer;
    let syncing = || syncer.poisoned().is_none() && (!waiters.is_empty() || syncer.is_syncing());
    let only_j = |requests: &[Request]| requests.iter().all(|r| r.concern.j);
    let (mut bytes, mut patient) = (bytes_of(group), only_j(group));
    while bytes < GROUP_BYTES_MAX && group.len() < GROUP_BATCHES_MAX {
        let next = match inbox.try_recv() {
            Ok(Command::Write(next)) => next,
            Err(_) if patient && syncing() => match inbox.recv_timeout(GATHER) {
                Ok(Command::Write(next)) => next,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            },
            Err(_) => break,
        };
        bytes += bytes_of(&next);
        patient &= only_j(&next);
        group.extend(next);
    }
}

/// Refuses all writes while the reserve is released (`reserve.rs`).
fn check_reserve(shared: &Shared) -> Result<()> {
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
fn wait_for_memtable(shared: &Shared) -> Result<()> {
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
fn refuse_all(shared: &Shared, group: impl IntoIterator<Item = Request>, error: &Error) {
    for request in group {
        let copy = match error {
            Error::DiskFull { path } => Error::DiskFull { path: path.clone() },
            Error::Overloaded { what } => Error::Overloaded { what: what.clone() },
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
    let mut entries = Vec::with_capacity(group.len());
    let (first_seq, rotate) = {
        let mut state = shared.state.lock();
        (state.next_seq, std::mem::take(&mut state.rotate))
    };
    let mut next_seq = first_seq;
    // Batches of this group that have an identity: a copy may be in the same group as its first.
    let mut in_group: Vec<usize> = Vec::new();
    for mut request in group {
        let outcome = decide(shared, &mut request, &entries, &in_group, &mut next_seq);
        if matches!(outcome, Outcome::First(_)) && request.record.identity.is_some() {
            in_group.push(entries.len());
        }
        entries.push(GroupEntry { request, outcome });
    }
    let payloads: Vec<Vec<u8>> = entries
        .iter_mut()
        .filter(|p| matches!(p.outcome, Outcome::First(_)))
        .map(|p| std::mem::take(&mut p.request.payload))
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
            refuse_all(shared, entries.into_iter().map(|p| p.request), &error);
            return;
        }
    } else if rotate {
        shared.state.lock().rotate = true;
    }
    // Only the one writer may acknowledge its writes (the first invariant of `lock.rs`).
    if let Err(error) = shared.check_lock() {
        refuse_all(shared, entries.into_iter().map(|p| p.request), &error);
        return;
    }
    publish(shared, entries, next_seq, waiters);
}

/// Decides the outcome of a batch: in journal order, once.
fn decide(
    shared: &Shared,
    request: &mut Request,
    entries: &[GroupEntry],
    in_group: &[usize],
    next_seq: &mut u64,
) -> Outcome {
    match earlier_answer(shared, &request.record, entries, in_group) {
        Err(error) => return Outcome::Refused(error),
        Ok(Some(ack)) => return Outcome::Duplicate(ack),
        Ok(None) => {}
    }
    if let Err(error) = prepare(shared, request, *next_seq) {
        return Outcome::Refused(error);
    }
    let first_seq = *next_seq;
    *next_seq += request.record.items();
    Outcome::First(first_seq)
}

/// Returns the answer to an earlier copy of a batch. Batches before it in its group count as well
/// as those that the state remembers: a source may send its ranges one after the other without
/// waiting.
fn earlier_answer(
    shared: &Shared,
    record: &Record,
    entries: &[GroupEntry],
    in_group: &[usize],
) -> Result<Option<Ack>> {
    let Some(identity) = &record.identity else {
        return Ok(None);
    };
    if let Identity::Settles { items, .. } = identity {
        return settled_before(shared, items, entries, in_group);
    }
    let mut pending_to = None;
    for earlier in in_group.iter().rev().map(|i| &entries[*i]) {
        let Outcome::First(seq) = earlier.outcome else {
            unreachable!("BUG: only first copies are listed")
        };
        match (earlier.request.record.identity.as_ref(), identity) {
            (Some(same), _) if same == identity => {
                return Ok(Some(ack_of(&earlier.request.record, seq, true)));
            }
            (Some(other), _) if other.same_batch(identity) => {
                return Err(identity::reused(identity));
            }
            (
                Some(Identity::Range {
                    producer: a, to, ..
                }),
                Identity::Range { producer: b, .. },
            ) if a == b => pending_to = pending_to.or(Some(*to)),
            _ => {}
        }
    }
    let state = shared.state.lock();
    state
        .identities
        .known(identity, record.received_us, pending_to)
}

/// Returns the earlier answer, as [`earlier_answer`] does, for a batch that settles items of the
/// quarantine.
fn settled_before(
    shared: &Shared,
    items: &Ranges,
    entries: &[GroupEntry],
    in_group: &[usize],
) -> Result<Option<Ack>> {
    let earlier = in_group
        .iter()
        .map(|i| &entries[*i].request.record.identity);
    let taken = earlier.map(|identity| match identity {
        Some(Identity::Settles { items: other, .. }) => other.in_common(items),
        _ => 0,
    });
    let taken = if seeded::is(Bug::SettledInGroup) {
        0
    } else {
        taken.sum()
    };
    let state = shared.state.lock();
    if items.end() > state.next_seq {
        return Err(Error::invalid(format!(
            "no item has a sequence number of {} or more yet",
            state.next_seq
        )));
    }
    state.identities.settled().known(items, taken)
}

/// Creates the streams that the batch needs and fits its columns to them.
fn prepare(shared: &Shared, request: &mut Request, next_seq: u64) -> Result<()> {
    let stream = request.record.stream.clone();
    let missing = |name: &Name| !shared.state.lock().streams.contains_key(name);
    // A batch without events does not determine the kind of its stream.
    let has_events = request.record.events.num_rows() > 0;
    if has_events && missing(&stream) {
        shared.create_stream(&stream, request.record.kind, next_seq)?;
    }
    if !request.record.ranks.is_empty() {
        let quarantine = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
        if missing(&quarantine) {
            shared.create_stream(&quarantine, StreamKind::Quarantine, next_seq)?;
        }
    }
    if !has_events {
        return Ok(());
    }
    let columns_max = shared.options.config.columns_max;
    let mut state = shared.state.lock();
    let streams = Arc::make_mut(&mut state.streams);
    let meta = streams
        .get_mut(&stream)
        .expect("BUG: the stream was created above");
    if let Some(fitted) = schema_evolution::reconcile(meta, &request.record, columns_max)? {
        request.record.events = fitted;
        request.payload = request.record.encode();
    }
    Ok(())
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

fn ack_of(record: &Record, first_seq: u64, duplicate: bool) -> Ack {
    let items = record.items();
    Ack {
        accepted: record.events.num_rows() as u64,
        quarantined: record.ranks.len() as u64,
        first_seq: (items > 0).then_some(first_seq),
        last_seq: (items > 0).then(|| first_seq + items - 1),
        duplicate,
    }
}

/// Makes a written group visible in one change of the state, then replies.
fn publish(
    shared: &Shared,
    entries: Vec<GroupEntry>,
    next_seq: u64,
    waiters: &Sender<Vec<Waiter>>,
) {
    let mut answers = Vec::with_capacity(entries.len());
    {
        let mut state = shared.state.lock();
        let mut gathered = InterleavedColumn::default();
        for p in entries {
            let record = &p.request.record;
            let outcome = match p.outcome {
                Outcome::First(seq) => state.apply(&mut gathered, record, seq),
                Outcome::Duplicate(ack) => {
                    let counters = state.counters_of(&record.stream);
                    counters.received += record.items();
                    counters.duplicate += record.items();
                    Ok(ack)
                }
                Outcome::Refused(error) => {
                    answers.push((p.request, Err(error)));
                    continue;
                }
            };
            answers.push((p.request, outcome));
        }
        state.next_seq = next_seq;
        if let Err(error) = gathered.append_to(&mut state.memtable) {
            // The group is in the journal but cannot be shown: only a restart can tell what is
            // there.
            shared.poison(&error);
        }
    }
    let mut waiting = Vec::new();
    for (request, outcome) in answers {
        match outcome {
            Err(error) => refuse(shared, request, error),
            Ok(ack) if request.concern.j => {
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
    if !waiting.is_empty() {
        // The waiters are sent together, so that one sync acknowledges them all. The sync thread
        // outlives the log thread; without it, dropping the waiters would answer them.
        let _ignored = waiters.send(waiting);
    }
}

fn refuse(shared: &Shared, request: Request, error: Error) {
    let items = request.record.items();
    let mut state = shared.state.lock();
    let counters = state.counters_of(&request.record.stream);
    counters.received += items;
    counters.refused += items;
    drop(state);
    request.reply.send(Err(error));
}

/// Name under which batches to unknown streams are counted. Clients choose stream names, and each
/// would otherwise add a metric series for ever.
static UNKNOWN_STREAM: LazyLock<Name> =
    LazyLock::new(|| Name::new("_unknown").expect("BUG: a name"));

impl State {
    /// Returns the counters of a known stream, or those of all unknown streams together.
    pub(super) fn counters_of(&mut self, stream: &Name) -> &mut Counters {
        let name = match self.streams.contains_key(stream) {
            true => stream,
            false => &UNKNOWN_STREAM,
        };
        self.counters.entry(name.clone()).or_default()
    }

    fn apply(
        &mut self,
        gathered: &mut InterleavedColumn,
        record: &Record,
        first_seq: u64,
    ) -> Result<Ack> {
        let into = &mut Intake {
            memtable: &mut self.memtable,
            gathered,
            streams: Arc::make_mut(&mut self.streams),
            identities: &mut self.identities,
        };
        let ack = apply(into, record, first_seq)?;
        if record.items() == 0 && self.empty_from.is_none() {
            self.empty_from = self.segments.last().map(|(segment, _)| *segment);
        }
        let counters = self.counters_of(&record.stream);
        counters.received += ack.accepted + ack.quarantined;
        counters.stored += ack.accepted;
        counters.quarantined += ack.quarantined;
        if !self.followers.is_empty() && ack.accepted > 0 {
            let (seqs, _) = record.sequence(first_seq);
            let events = Chunk::new(&record.events, seqs)?.events;
            let arrived = Arrived {
                stream: record.stream.clone(),
                events,
            };
            self.followers.retain(|f| {
                !matches!(
                    f.try_send(arrived.clone()),
                    Err(TrySendError::Disconnected(_))
                )
            });
        }
        Ok(ack)
    }
}

/// Syncs at once for `j` writes, and every interval for the others. While a sync is under way the
/// next `j` writes gather in the queue, and one sync acknowledges them all.
pub(super) fn sync_loop(shared: &Arc<Shared>, waiting: &Receiver<Vec<Waiter>>) {
    let interval = Duration::from_millis(shared.options.config.sync_interval_ms.max(1));
    loop {
        let mut gathered = Vec::new();
        match waiting.recv_timeout(interval) {
            Ok(first) => gathered.extend(first),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        gathered.extend(waiting.try_iter().flatten());
        // The lock is checked after each sync, also after an interval without writes.
        let synced = shared.syncer.sync_written();
        match synced.and_then(|durable| shared.check_lock().map(|()| durable)) {
            Ok(durable) => {
                for waiter in gathered {
                    debug_assert!(
                        waiter.until <= durable,
                        "BUG: a waiter comes after its write"
                    );
                    waiter.reply.send(Ok(waiter.ack));
                }
            }
            Err(error) => {
                shared.poison(&error);
                for waiter in gathered {
                    waiter.reply.send(Err(Error::Unknown {
                        what: error.to_string(),
                    }));
                }
                // The journal promises nothing any more; dropping the remaining waiters answers
                // them.
                break;
            }
        }
    }
}
