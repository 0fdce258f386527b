//! The append thread: groups requests into messages and appends them to the shared journal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::pendings::LostMessage;
use super::{Tail, not_taken};
use crate::apply::ack_of;
use crate::error::{Error, Result};
use crate::seeded::{self, Bug};
use crate::shared_journal::{GROUP_BYTES, RECORD_BYTES, encode_group, encode_resumption};
use crate::store::Shared;
use crate::store::log::{
    AdmittedGroup, Command, Decision, GROUP_BATCHES_MAX, GROUP_BYTES_MAX, Request, bytes_of,
    check_reserve, refuse, refuse_all, wait_for_memtable,
};

/// Bytes that may be on their way to the journal; more requests wait.
const UNDER_WAY_BYTES_MAX: usize = 64 << 20;
/// Longest wait of a store that closes for messages that it has appended.
const CLOSE_WAIT: Duration = Duration::from_secs(15);
/// Interval at which a writer whose last message was lost tries whether the journal takes one.
const PROBE: Duration = Duration::from_millis(if cfg!(test) { 5 } else { 500 });

/// Runs the append thread.
pub(in crate::store) fn append_loop(
    shared: &Arc<Shared>,
    tail: &Arc<Tail>,
    inbox: &Receiver<Command>,
) {
    let run = AssertUnwindSafe(|| Appender::new(shared, tail).run(inbox));
    if catch_unwind(run).is_err() {
        shared.thread_died("append");
        // As in the log thread: dropping a request answers it.
        inbox.iter().for_each(drop);
    }
    tail.close();
}

impl Tail {
    /// Ends the tail thread.
    fn close(&self) {
        let mut pending = self.pending.lock();
        pending.is_closed = true;
        let left = pending.take_before(u64::MAX);
        drop(pending);
        // Dropping a request answers it.
        drop(left);
    }

    /// Checks that the journal has taken the last message.
    fn check_taken(&self) -> Result<()> {
        match &self.pending.lock().failed {
            None => Ok(()),
            Some((_, why)) => Err(Error::Overloaded {
                what: format!("{} cannot be written: {why}", self.name().display()),
            }),
        }
    }

    /// Waits until few bytes are on their way, or the store closes.
    fn wait_for_room(&self, shared: &Shared) -> Result<()> {
        let mut pending = self.pending.lock();
        while pending.bytes >= UNDER_WAY_BYTES_MAX && !pending.is_closed {
            self.changed.wait_for(&mut pending, PROBE);
            let is_closing =
                parking_lot::MutexGuard::unlocked(&mut pending, || shared.state.lock().closing);
            if is_closing {
                return Err(Error::Closed);
            }
        }
        Ok(())
    }
}

struct Appender<'a> {
    shared: &'a Arc<Shared>,
    tail: &'a Arc<Tail>,
    /// Number of the last message.
    number: u64,
    /// The last attempt to append after one that failed.
    probed: Instant,
}

impl<'a> Appender<'a> {
    fn new(shared: &'a Arc<Shared>, tail: &'a Arc<Tail>) -> Self {
        Self {
            shared,
            tail,
            number: 0,
            probed: Instant::now(),
        }
    }

    fn run(&mut self, inbox: &Receiver<Command>) {
        loop {
            match inbox.recv_timeout(PROBE) {
                Ok(Command::Write(mut group)) => {
                    let cut = gather(&mut group, inbox);
                    self.write(group);
                    if let Some(done) = cut {
                        let _ignored = done.send(());
                    }
                }
                // The journal is cut where it is sealed; there is nothing to do.
                Ok(Command::Cut(done)) => {
                    let _ignored = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            // Not only when nothing comes: clients that are refused come again.
            self.probe();
        }
    }

    /// Waits until every message is read back or lost.
    fn finish(&mut self) {
        let until = Instant::now() + CLOSE_WAIT;
        loop {
            {
                let mut pending = self.tail.pending.lock();
                if pending.groups.is_empty() || pending.is_closed || Instant::now() >= until {
                    return;
                }
                self.tail.changed.wait_for(&mut pending, PROBE);
            }
            self.probe();
        }
    }

    /// Tries whether the journal takes messages again.
    fn probe(&mut self) {
        if self.probed.elapsed() < PROBE || self.tail.check_taken().is_ok() {
            return;
        }
        self.probed = Instant::now();
        self.number += 1;
        let message = encode_resumption(self.tail.head(self.number));
        // It is read back, or the next one is.
        let _ignored = self.tail.journal.append(message, Box::new(|_| ()));
    }

    fn write(&mut self, group: Vec<Request>) {
        let shared = self.shared;
        let mut fitting = Vec::new();
        let max = self.tail.journal.message_bytes_max();
        for request in group {
            let len = request.payload.len();
            let is_too_long = GROUP_BYTES + RECORD_BYTES + len > max;
            let created = match is_too_long {
                true => Err(Error::invalid(format!(
                    "a batch of {len} bytes does not fit into a message of {max} bytes; send fewer events in one request, or raise max.message.bytes of the journal's topic"
                ))),
                false => shared.create_missing(&request.record, 0),
            };
            match created {
                Ok(()) => fitting.push(request),
                Err(error) => refuse(shared, request, error),
            }
        }
        let ready = check_reserve(shared)
            .and_then(|()| wait_for_memtable(shared))
            .and_then(|()| shared.check_lock())
            .and_then(|()| self.tail.check_taken())
            .and_then(|()| shared.syncer.check().map_err(|_| not_taken()));
        if let Err(error) = ready {
            return refuse_all(shared, fitting, &error);
        }
        let mut message = Vec::new();
        let mut len = GROUP_BYTES;
        for request in fitting {
            let more = RECORD_BYTES + request.payload.len();
            if len + more > max && !message.is_empty() {
                self.append(std::mem::take(&mut message));
                len = GROUP_BYTES;
            }
            len += more;
            message.push(request);
        }
        if !message.is_empty() {
            self.append(message);
        }
    }

    fn append(&mut self, mut group: Vec<Request>) {
        let (shared, tail) = (self.shared, self.tail);
        if let Err(error) = tail.wait_for_room(shared) {
            return refuse_all(shared, group, &error);
        }
        self.number += 1;
        let number = self.number;
        let records = group.iter().map(|request| request.payload.as_slice());
        let message = encode_group(tail.head(number), records);
        if seeded::is(Bug::AckedOnDelivery) {
            group = acknowledged_early(shared, group);
        }
        // It may be read back before the call below returns.
        let added = tail.pending.lock().add(number, group);
        if let Err(group) = added {
            return refuse_all(shared, group, &not_taken());
        }
        let losses = tail.losses.0.clone();
        let done = Box::new(move |outcome: std::io::Result<u64>| {
            if let Err(error) = outcome {
                // The store has ended if nobody hears it.
                let why = error.to_string();
                let _ignored = losses.send(LostMessage { number, why });
            }
        });
        if let Err(error) = tail.journal.append(message, done) {
            let mut pending = tail.pending.lock();
            let group = pending.take(number).unwrap_or_default();
            pending.fail(number, error.to_string());
            drop(pending);
            refuse_all(shared, group, &not_taken());
        }
    }
}

/// Adds the requests that have arrived meanwhile to a group. Returns the sender of a cut that came
/// behind them.
fn gather(
    group: &mut Vec<Request>,
    inbox: &Receiver<Command>,
) -> Option<crossbeam_channel::Sender<()>> {
    let mut bytes = bytes_of(group);
    while bytes < GROUP_BYTES_MAX && group.len() < GROUP_BATCHES_MAX {
        match inbox.try_recv() {
            Ok(Command::Write(next)) => {
                bytes += bytes_of(&next);
                group.extend(next);
            }
            Ok(Command::Cut(done)) => return Some(done),
            Err(_) => break,
        }
    }
    None
}

/// Answers requests by the state of now, as a seeded bug does.
fn acknowledged_early(shared: &Shared, group: Vec<Request>) -> Vec<Request> {
    let next_seq = shared.state.lock().next_seq;
    let admitted = AdmittedGroup::of(shared, group, next_seq);
    let mut group = Vec::new();
    for entry in admitted.entries {
        group.push(Request::of_another(entry.request.record.clone()));
        if let Decision::First(seq) = entry.decision {
            let ack = ack_of(&entry.request.record, seq);
            entry.request.reply.send(Ok(ack));
        }
    }
    group
}
