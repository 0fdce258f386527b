//! A partition in memory: messages come late, twice or never, answers are lost or slow, and a
//! reader may be held at the messages of one moment.
//!
//! # Invariants
//! 1. An append that reports an offset has its message there; one that returns an error has left
//!    nothing. All others are open: the message is there, comes later, or never.
//! 2. Every append is answered once: at once, on any later call of any process, or when its own
//!    process is killed.

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::shared_journal::{Appended, JournalPlace, Replication, SharedJournal};
use crate::sim::Random;

/// Longest wait of a read: a history has many, and none waits for a real network.
const WAIT_MAX: Duration = Duration::from_millis(2);
/// Offset of a process that is not held.
const FREE: u64 = u64::MAX;

/// The answer to an append that has not been given yet.
struct OwedAnswer {
    process: u64,
    done: Appended,
    outcome: io::Result<u64>,
}

impl fmt::Debug for OwedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} for process {}", self.outcome, self.process)
    }
}

impl OwedAnswer {
    /// Gives the answer. No lock of the topic is held, since the receiver may append.
    fn give(self) {
        (self.done)(self.outcome);
    }
}

#[derive(Debug)]
struct SimTopic {
    messages: Vec<(u64, Bytes)>,
    /// Offset before which messages were deleted.
    start: u64,
    /// Offset of the next message.
    end: u64,
    /// Messages that have not arrived yet.
    late: Vec<Bytes>,
    owed: Vec<OwedAnswer>,
    /// Decides about appends.
    random: Random,
    /// Decides about reads, whose number depends on the speed of threads.
    reads: Random,
    /// One of so many calls goes wrong; 0 for none.
    one_in: u64,
    /// Offsets that may be left out between two messages.
    gap: u64,
    processes: u64,
}

impl SimTopic {
    fn is(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    /// Decides whether a read fails. There are many, and the store pauses after each that does.
    fn fails_to_read(&mut self) -> bool {
        self.one_in > 0 && self.reads.below(self.one_in * 8) == 0
    }

    fn add(&mut self, message: Bytes) -> u64 {
        let offset = self.end + self.random.below(self.gap + 1);
        self.messages.push((offset, message));
        self.end = offset + 1;
        offset
    }

    /// Lets a late message arrive.
    fn arrive(&mut self) {
        if !self.late.is_empty() {
            let which = self.random.below(self.late.len() as u64) as usize;
            let message = self.late.swap_remove(which);
            self.add(message);
        }
    }

    /// Appends a message, or not, and returns what is reported.
    fn take(&mut self, message: Bytes) -> io::Result<u64> {
        if !self.is(self.one_in) {
            return Ok(self.add(message));
        }
        let timeout = Err(ErrorKind::TimedOut.into());
        match self.random.below(5) {
            // It is lost.
            0 => timeout,
            // It comes later.
            1 => {
                self.late.push(message);
                timeout
            }
            // Its answer is lost.
            2 => {
                self.add(message);
                timeout
            }
            // A client library sends it again, since the first answer was lost.
            3 => {
                self.add(message.clone());
                Ok(self.add(message))
            }
            // It arrives now and later.
            _ => {
                self.late.push(message.clone());
                Ok(self.add(message))
            }
        }
    }

    /// Returns the messages from `offset` on that are there below `limit`: at least one if there is
    /// any, and a random number of them.
    fn from(&mut self, offset: u64, limit: u64) -> Vec<(u64, Bytes)> {
        let first = self.messages.partition_point(|(at, _)| *at < offset);
        let last = self.messages.partition_point(|(at, _)| *at < limit);
        let there = self.messages.get(first..last).unwrap_or_default();
        let count = match there.len() as u64 {
            0 => 0,
            many => 1 + self.reads.below(many),
        };
        there[..count as usize].to_vec()
    }
}

/// The partition as one process reaches it.
#[derive(Debug, Clone)]
pub(super) struct SimJournal {
    topic: Arc<(Mutex<SimTopic>, Condvar)>,
    place: Arc<JournalPlace>,
    message_bytes_max: usize,
    process: u64,
    /// False once the process has been killed.
    lives: Arc<AtomicBool>,
    /// The process sees no message from this offset on.
    held_at: Arc<AtomicU64>,
}

impl SimJournal {
    /// Returns an empty partition; one of `one_in` calls goes wrong.
    pub(super) fn new(seed: u64, one_in: u64) -> Self {
        let mut random = Random::new(seed);
        let topic = SimTopic {
            messages: Vec::new(),
            start: 0,
            end: 0,
            late: Vec::new(),
            owed: Vec::new(),
            reads: Random::new(random.next_u64()),
            one_in,
            gap: random.below(3),
            processes: 0,
            random,
        };
        let place = JournalPlace {
            cluster: "sim".into(),
            topic: "store".into(),
            partition: 0,
        };
        Self {
            topic: Arc::new((Mutex::new(topic), Condvar::new())),
            place: Arc::new(place),
            // A small one divides groups.
            message_bytes_max: [4096, 1 << 20][random.below(2) as usize],
            process: 0,
            lives: Arc::new(AtomicBool::new(true)),
            held_at: Arc::new(AtomicU64::new(FREE)),
        }
    }

    /// Returns it as another process reaches it.
    pub(super) fn for_process(&self) -> Self {
        let mut topic = self.topic.0.lock();
        topic.processes += 1;
        Self {
            process: topic.processes,
            lives: Arc::new(AtomicBool::new(true)),
            held_at: Arc::new(AtomicU64::new(FREE)),
            ..self.clone()
        }
    }

    /// Ends the process: it appends and reads nothing any more. Its threads must end, so they are
    /// told that there will never be a message.
    pub(super) fn kill(&self) {
        self.lives.store(false, Ordering::SeqCst);
        let mut topic = self.topic.0.lock();
        let is_own = |owed: &mut OwedAnswer| owed.process == self.process;
        let own: Vec<OwedAnswer> = topic.owed.extract_if(.., is_own).collect();
        drop(topic);
        self.topic.1.notify_all();
        for owed in own {
            (owed.done)(Err(ErrorKind::ConnectionRefused.into()));
        }
    }

    /// Shows the process no messages beyond those that are there now.
    pub(super) fn hold(&self) {
        let topic = self.topic.0.lock();
        self.held_at.store(topic.end, Ordering::SeqCst);
    }

    /// Shows the process all messages.
    pub(super) fn release(&self) {
        self.held_at.store(FREE, Ordering::SeqCst);
        self.topic.1.notify_all();
    }

    pub(super) fn is_held(&self) -> bool {
        self.held_at.load(Ordering::SeqCst) != FREE
    }

    /// Lets each late message arrive or not, and makes no more faults.
    pub(super) fn settle(&self) {
        let mut topic = self.topic.0.lock();
        topic.one_in = 0;
        while !topic.late.is_empty() {
            match topic.is(2) {
                true => topic.arrive(),
                false => _ = topic.late.pop(),
            }
        }
        drop(topic);
        self.topic.1.notify_all();
        self.answer_all();
    }

    /// Adds a message of somebody else.
    pub(super) fn add(&self, message: Vec<u8>) {
        self.topic.0.lock().add(message.into());
    }

    /// Deletes all messages, as retention does.
    pub(super) fn delete_all(&self) {
        let mut topic = self.topic.0.lock();
        topic.messages.clear();
        topic.start = topic.end;
    }

    /// Loses the last messages, as an election of a replica that does not have them; the next one
    /// gets the offset of the first of them.
    pub(super) fn lose(&self, count: usize) {
        let mut topic = self.topic.0.lock();
        let from = topic.messages.len() - count;
        topic.end = topic.messages[from].0;
        topic.messages.truncate(from);
    }

    /// Is a topic that was created again.
    pub(super) fn create_again(&self) {
        let mut topic = self.topic.0.lock();
        topic.messages.clear();
        (topic.start, topic.end) = (0, 0);
    }

    fn answer_all(&self) {
        let owed = std::mem::take(&mut self.topic.0.lock().owed);
        owed.into_iter().for_each(OwedAnswer::give);
    }

    fn reach(&self) -> io::Result<MutexGuard<'_, SimTopic>> {
        let topic = self.topic.0.lock();
        match self.lives.load(Ordering::SeqCst) {
            true => Ok(topic),
            false => Err(ErrorKind::NotFound.into()),
        }
    }
}

impl SharedJournal for SimJournal {
    fn place(&self) -> &JournalPlace {
        &self.place
    }

    fn replication(&self) -> Replication {
        Replication {
            replicas: 3,
            min_insync: Some(2),
            syncs: true,
        }
    }

    fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    fn append(&self, message: Vec<u8>, done: Appended) -> io::Result<()> {
        let len = message.len();
        assert!(len <= self.message_bytes_max, "a message of {len} bytes");
        let mut topic = self.reach()?;
        if topic.is(4) {
            topic.arrive();
        }
        let one_in = topic.one_in * 8;
        if topic.is(one_in) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut owed = std::mem::take(&mut topic.owed);
        let answer = OwedAnswer {
            process: self.process,
            outcome: topic.take(message.into()),
            done,
        };
        match topic.is(3) {
            true => topic.owed.push(answer),
            false => owed.push(answer),
        }
        drop(topic);
        owed.into_iter().for_each(OwedAnswer::give);
        self.topic.1.notify_all();
        Ok(())
    }

    fn read(&self, offset: u64, wait: Duration) -> io::Result<Vec<(u64, Bytes)>> {
        self.answer_all();
        let until = Instant::now() + wait.min(WAIT_MAX);
        let mut topic = self.reach()?;
        if topic.fails_to_read() {
            return Err(ErrorKind::TimedOut.into());
        }
        let is_gone = offset > 0 && offset < topic.start;
        if is_gone || offset > topic.end {
            return Err(ErrorKind::NotFound.into());
        }
        loop {
            let found = topic.from(offset, self.held_at.load(Ordering::SeqCst));
            if !found.is_empty() || self.topic.1.wait_until(&mut topic, until).timed_out() {
                return Ok(found);
            }
            if !self.lives.load(Ordering::SeqCst) {
                return Err(ErrorKind::NotFound.into());
            }
        }
    }

    fn oldest(&self) -> io::Result<u64> {
        let mut topic = self.reach()?;
        match topic.fails_to_read() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(topic.start),
        }
    }
}
