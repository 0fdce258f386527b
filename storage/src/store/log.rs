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

/// A group is closed at this many bytes or batches: one write of a few megabytes.
const GROUP_BYTES_MAX: usize = 8 << 20;
const GROUP_BATCHES_MAX: usize = 1024;
/// With less room than this a disk on which a batch was refused is taken for full still.
pub(super) const GROUP_ROOM: u64 = 1 << 20;
/// How often a group that waits for a sync to end looks whether it has: a small part of the fastest.
const GATHER: Duration = Duration::from_micros(50);
/// The memtable may grow to this many times its limit while a seal is running.
const MEMTABLE_SLACK: usize = 2;

/// Answers a request exactly once; a request dropped unanswered is answered as of unknown outcome.
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

/// Somebody who waits until `seq` is synced.
#[derive(Debug)]
pub(super) struct Waiter {
    ack: Ack,
    until: u64,
    reply: Reply,
}

/// A batch on its way through a group.
struct Placed {
    request: Request,
    outcome: Outcome,
}

enum Outcome {
    /// Has a place in the group.
    First(u64),
    /// Stored before; to be answered once that is visible, or synced.
    Duplicate(Ack),
    Refused(Error),
}

/// The log thread.
pub(super) fn run_log(
    shared: &Arc<Shared>,
    journal: Journal,
    inbox: &Receiver<Command>,
    waiters: &Sender<Vec<Waiter>>,
) {
    let run = AssertUnwindSafe(|| log_loop(shared, journal, inbox, waiters));
    if catch_unwind(run).is_err() {
        shared.thread_died("log");
        // A bounded queue keeps what is in it when its receiver goes, and who sent it would wait for
        // ever. To be dropped is an answer.
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
        match keep_reserve(shared).and_then(|()| wait_for_room(shared)) {
            Ok(()) => write_group(shared, &mut journal, group, waiters),
            Err(error) => refuse_all(shared, group, &error),
        }
    }
    // The store is closing: after its last seal nothing before this segment is needed.
    let next_seq = shared.state.lock().next_seq;
    match cut_segment(shared, &mut journal, true, next_seq) {
        // Without room for another segment this one stays: the next start reads it.
        Ok(()) | Err(Error::DiskFull { .. } | Error::Overloaded { .. }) => {}
        Err(error) => shared.poison(&error),
    }
}

/// Adds to a group what has come meanwhile.
///
/// Who asks for `j` is answered by the sync after the one under way, whether written now or when that
/// has ended: until then more may join, and one write serves them all. Nobody else waits for it.
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

/// Nothing is taken while the reserve is given up (`reserve.rs`).
fn keep_reserve(shared: &Shared) -> Result<()> {
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

/// Back-pressure: while a seal is running and the memtable has grown to its slack, senders wait.
///
/// # Errors
/// When the memtable is that full because it cannot be sealed: senders are told, and not kept
/// waiting for somebody to make room on the disk. Writes resume by themselves once a seal succeeds.
fn wait_for_room(shared: &Shared) -> Result<()> {
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

/// The same refusal for every batch of a group.
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
    let mut placed = Vec::with_capacity(group.len());
    let (first_seq, rotate) = {
        let mut state = shared.state.lock();
        (state.next_seq, std::mem::take(&mut state.rotate))
    };
    let mut next_seq = first_seq;
    // Identities within the group: a copy may come in the same group as its first.
    let mut in_group: Vec<usize> = Vec::new();
    for mut request in group {
        let outcome = place(shared, &mut request, &placed, &in_group, &mut next_seq);
        if matches!(outcome, Outcome::First(_)) && request.record.identity.is_some() {
            in_group.push(placed.len());
        }
        placed.push(Placed { request, outcome });
    }
    let payloads: Vec<Vec<u8>> = placed
        .iter_mut()
        .filter(|p| matches!(p.outcome, Outcome::First(_)))
        .map(|p| std::mem::take(&mut p.request.payload))
        .collect();
    if !payloads.is_empty() {
        let written = cut_segment(shared, journal, rotate, first_seq)
            .and_then(|()| journal.append(first_seq, next_seq - first_seq, &payloads));
        shared.refuses_for_room.store(false, Ordering::SeqCst);
        if let Err(error) = written {
            // In both cases nothing has changed.
            if matches!(error, Error::DiskFull { .. } | Error::Overloaded { .. }) {
                let is_full = matches!(error, Error::DiskFull { .. });
                shared.refuses_for_room.store(is_full, Ordering::SeqCst);
                shared.state.lock().rotate |= rotate;
            } else {
                shared.poison(&error);
            }
            refuse_all(shared, placed.into_iter().map(|p| p.request), &error);
            return;
        }
    } else if rotate {
        shared.state.lock().rotate = true;
    }
    // Only the one writer answers what it has written (the first invariant of `lock.rs`).
    if let Err(error) = shared.check_lock() {
        refuse_all(shared, placed.into_iter().map(|p| p.request), &error);
        return;
    }
    publish(shared, placed, next_seq, waiters);
}

/// Decides what becomes of a batch: in journal order, once.
fn place(
    shared: &Shared,
    request: &mut Request,
    placed: &[Placed],
    in_group: &[usize],
    next_seq: &mut u64,
) -> Outcome {
    match known(shared, &request.record, placed, in_group) {
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

/// What an earlier copy of a batch was answered. The batches before it in its group count as well as
/// those that the state remembers: a source that does not wait sends its ranges one after the other.
fn known(
    shared: &Shared,
    record: &Record,
    placed: &[Placed],
    in_group: &[usize],
) -> Result<Option<Ack>> {
    let Some(identity) = &record.identity else {
        return Ok(None);
    };
    if let Identity::Settles { items, .. } = identity {
        return settled_before(shared, items, placed, in_group);
    }
    let mut pending_to = None;
    for earlier in in_group.iter().rev().map(|i| &placed[*i]) {
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

/// As [`known`], of a batch that settles items of the quarantine.
fn settled_before(
    shared: &Shared,
    items: &Ranges,
    placed: &[Placed],
    in_group: &[usize],
) -> Result<Option<Ack>> {
    let earlier = in_group.iter().map(|i| &placed[*i].request.record.identity);
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
    // A batch without an event does not say what its stream is to be.
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

/// Makes a written group visible in one change of the state, then answers.
fn publish(shared: &Shared, placed: Vec<Placed>, next_seq: u64, waiters: &Sender<Vec<Waiter>>) {
    let mut answers = Vec::with_capacity(placed.len());
    {
        let mut state = shared.state.lock();
        let mut gathered = InterleavedColumn::default();
        for p in placed {
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
            // It is in the journal and cannot be shown: only a new start can tell what there is.
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
        // Together, so that one sync answers them all. The sync thread outlives the log thread; were
        // it gone, the drop answers.
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

/// Counts what was sent to streams that there are not: senders choose names, and each would be a
/// series of figures for ever.
static UNKNOWN_STREAM: LazyLock<Name> =
    LazyLock::new(|| Name::new("_unknown").expect("BUG: a name"));

impl State {
    /// The counters of a stream that there is, or of all others together.
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

/// Syncs at once for those who wait, and every interval for the others. While a sync is under way
/// the next who wait gather in the queue: one sync answers them all.
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
        // Looked at after the sync, and after each interval in which nobody writes.
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
                // Nothing more can be promised; those who still wait are answered as they are dropped.
                break;
            }
        }
    }
}
