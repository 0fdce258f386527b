//! The link to the server: every call is repeated until its outcome is known.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ingest::Format;
use parking_lot::Mutex;
use storage::{Identity, SourcePosition};

use super::backoff::Backoff;
use crate::client::{IngestAnswer, Refusal};
use crate::failure::{FAILED, Failure, Result};
use crate::interrupt::Interrupt;
use crate::ship::follow::ShipPosition;
use crate::ship::seeded::{self, ShipBug};
use crate::source_id::SourceMemory;

/// Longest sleep without a look at the interrupt.
const SLICE: Duration = Duration::from_millis(50);
/// A machine that loses its power takes longer than this to serve again.
const AWAY_UNNOTICED: Duration = Duration::from_secs(2);
/// Failures of one call are logged at most this often.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// Whole lines of a file, with their range.
pub(crate) struct RangeBatch<'a> {
    /// The path of the file.
    pub(crate) source: &'a str,
    /// Number of the first line, from 1.
    pub(crate) line: u64,
    /// The format of the first line; `auto` where the server decides.
    pub(crate) format: Format,
    pub(crate) identity: Identity,
    pub(crate) body: &'a [u8],
}

/// A server or a topic, as a shipper calls it.
pub(crate) trait Receiver: Sync {
    /// Returns the producers whose names begin with `prefix`.
    fn names(&self, prefix: &str) -> Result<Vec<String>, Refusal>;
    /// Returns the remembered states of a producer, the newest last.
    fn states(&self, producer: &str) -> Result<Vec<SourcePosition>, Refusal>;
    /// Takes a batch, or recognises it as one that it has taken.
    fn deliver(&self, batch: &RangeBatch<'_>) -> Result<IngestAnswer, Refusal>;
    /// Names what to raise so that longer lines are taken.
    fn limit(&self) -> &'static str;
}

/// The outcome of a batch.
pub(crate) enum BatchOutcome {
    /// The server has it, once.
    Stored(IngestAnswer),
    /// The server's position is another: the file is to be recognised anew.
    Conflict,
    /// It is too large for the server, which stored nothing of it.
    TooLarge,
}

/// The shipper is to end: by a signal, or by the failure that the link keeps.
#[derive(Debug)]
pub(crate) struct Ended;

/// The reason why a step of a file came to nothing.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The shipper is to end.
    Ended,
    /// The file cannot be read.
    File(Failure),
}

impl From<Ended> for Trouble {
    fn from(Ended: Ended) -> Self {
        Self::Ended
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::File(failure)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::File(error.into())
    }
}

impl From<ingest::Error> for Trouble {
    fn from(error: ingest::Error) -> Self {
        Self::File(error.into())
    }
}

/// A server with the state of the connection to it.
pub(crate) struct Link<'a> {
    receiver: &'a dyn Receiver,
    interrupt: Interrupt,
    /// The longest time without an answer; for ever without it.
    patience: Option<Duration>,
    /// Number of times that the server may have lost batches that it had not synced: calls that
    /// failed, and silences in which it may have been away.
    disturbances: AtomicU64,
    retries: AtomicU64,
    has_ended: AtomicBool,
    failure: Mutex<Option<Failure>>,
    /// Time of the last answer to a batch.
    answered: Mutex<Instant>,
    /// It waits between attempts.
    is_paced: bool,
}

impl<'a> Link<'a> {
    pub(crate) fn new(
        receiver: &'a dyn Receiver,
        interrupt: Interrupt,
        patience: Option<Duration>,
    ) -> Self {
        Self {
            receiver,
            interrupt,
            patience,
            disturbances: AtomicU64::new(1),
            retries: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            failure: Mutex::new(None),
            answered: Mutex::new(Instant::now()),
            is_paced: true,
        }
    }

    /// Tries again at once.
    #[cfg(test)]
    pub(crate) fn unpaced(self) -> Self {
        Self {
            is_paced: false,
            ..self
        }
    }

    /// Names what to raise so that longer lines are taken.
    pub(crate) fn limit(&self) -> &'static str {
        self.receiver.limit()
    }

    /// Returns whether the shipper is to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.interrupt.is_set() || self.has_ended.load(Ordering::SeqCst)
    }

    /// Ends the shipper.
    pub(crate) fn end(&self, failure: Option<Failure>) -> Ended {
        if let Some(failure) = failure {
            self.failure.lock().get_or_insert(failure);
        }
        self.has_ended.store(true, Ordering::SeqCst);
        Ended
    }

    /// Returns the failure that ended the shipper.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.lock().take()
    }

    /// Returns the number of the last disturbance, for positions that the server confirms now.
    pub(crate) fn disturbance(&self) -> u64 {
        self.disturbances.load(Ordering::SeqCst)
    }

    /// Returns the number of failed calls.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.load(Ordering::SeqCst)
    }

    /// Delivers a batch that follows a position.
    pub(crate) fn deliver(
        &self,
        batch: &RangeBatch<'_>,
        position: &mut ShipPosition,
    ) -> Result<BatchOutcome, Ended> {
        let outcome = self.persist(|| {
            self.note_silence();
            let disturbance = self.disturbance();
            if position.confirmed != disturbance {
                if !self.has_kept(position, batch)? {
                    return Ok(BatchOutcome::Conflict);
                }
                position.confirmed = disturbance;
            }
            match self.receiver.deliver(batch) {
                Ok(answer) => {
                    *self.answered.lock() = Instant::now();
                    Ok(stored(answer, batch))
                }
                Err(Refusal::TooLarge(_)) => Ok(BatchOutcome::TooLarge),
                Err(Refusal::Again { .. }) if seeded::is(ShipBug::UnknownIsStored) => {
                    Ok(BatchOutcome::Stored(IngestAnswer::default()))
                }
                Err(Refusal::Invalid(why)) => match self.is_at(position)? {
                    // The range fits, so the request does not.
                    true => Err(Refusal::Final(why)),
                    false => Ok(BatchOutcome::Conflict),
                },
                Err(refusal) => Err(refusal),
            }
        });
        outcome.map_err(|failure| self.end(failure))
    }

    /// Counts a silence after which every position has to be confirmed again: the server may have
    /// been away, unnoticed.
    fn note_silence(&self) {
        let mut answered = self.answered.lock();
        if answered.elapsed() > AWAY_UNNOTICED {
            *answered = Instant::now();
            self.disturbances.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Checks that the server still has everything before a position. A server that lost its power
    /// may have lost batches that it acknowledged without `--journal`.
    fn has_kept(&self, position: &ShipPosition, batch: &RangeBatch<'_>) -> Result<bool, Refusal> {
        if position.at == 0 {
            return Ok(true);
        }
        let states = self.receiver.states(&position.producer)?;
        let Some(last) = states.last() else {
            // A copy goes on under a new name where it was recognised by another.
            return Ok(position.is_unsent);
        };
        let end = match batch.identity {
            Identity::Range { to, .. } => to,
            Identity::Key { .. } | Identity::Settles { .. } => position.at,
        };
        Ok(last.to == position.at || last.to == end)
    }

    fn is_at(&self, position: &ShipPosition) -> Result<bool, Refusal> {
        let states = self.receiver.states(&position.producer)?;
        Ok(states.last().is_none_or(|last| last.to == position.at))
    }

    /// Repeats a call until it succeeds or never will. The error is empty after a signal.
    fn persist<T>(
        &self,
        mut call: impl FnMut() -> Result<T, Refusal>,
    ) -> Result<T, Option<Failure>> {
        let mut backoff = Backoff::default();
        let mut logged: Option<Instant> = None;
        let began = Instant::now();
        loop {
            if self.has_ended() {
                return Err(None);
            }
            let (after, why) = match call() {
                Ok(done) => {
                    if logged.is_some() {
                        tracing::info!("the server takes lines again");
                    }
                    return Ok(done);
                }
                Err(Refusal::Again { after, why }) => (after, why),
                Err(Refusal::TooLarge(why) | Refusal::Invalid(why) | Refusal::Final(why)) => {
                    return Err(Some(Failure::new(FAILED, why)));
                }
            };
            self.disturbances.fetch_add(1, Ordering::SeqCst);
            self.retries.fetch_add(1, Ordering::SeqCst);
            let waited = began.elapsed();
            if self.patience.is_some_and(|patience| waited >= patience) {
                let why = format!("{why}; given up after {} s", waited.as_secs());
                return Err(Some(Failure::new(FAILED, why)));
            }
            let pause = backoff.pause(after, rand::random());
            if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
                logged = Some(Instant::now());
                tracing::warn!("{why}; trying again, next in {} ms", pause.as_millis());
            }
            self.sleep(pause);
        }
    }

    /// Sleeps, but not on when the shipper is to end.
    fn sleep(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while self.is_paced && !self.has_ended() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    /// Gives the error of a call to code that knows failures alone.
    fn ended(&self, failure: Option<Failure>) -> Failure {
        self.end(failure);
        Failure::new(FAILED, "the shipper ends")
    }
}

/// A duplicate that the server cannot compare any more is not known to be this batch.
fn stored(answer: IngestAnswer, batch: &RangeBatch<'_>) -> BatchOutcome {
    let is_blank = batch.body.iter().all(|b| matches!(b, b'\n' | b'\r'));
    let is_uncounted = answer.accepted + answer.quarantined == 0;
    match answer.duplicate && answer.first_seq.is_none() && is_uncounted && !is_blank {
        true => BatchOutcome::Conflict,
        false => BatchOutcome::Stored(answer),
    }
}

impl SourceMemory for Link<'_> {
    fn source_names(&self, prefix: &str) -> Result<Vec<String>> {
        let names = self.persist(|| self.receiver.names(prefix));
        names.map_err(|failure| self.ended(failure))
    }

    fn source_states(&self, producer: &str) -> Result<Vec<SourcePosition>> {
        let states = self.persist(|| self.receiver.states(producer));
        states.map_err(|failure| self.ended(failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::follow::Guard;
    use crate::source_id::{KnownSource, SourceReader};

    /// A server that has nothing any more, and takes every batch.
    struct Restored;

    impl Receiver for Restored {
        fn names(&self, _: &str) -> Result<Vec<String>, Refusal> {
            Ok(Vec::new())
        }

        fn states(&self, _: &str) -> Result<Vec<SourcePosition>, Refusal> {
            Ok(Vec::new())
        }

        fn deliver(&self, _: &RangeBatch<'_>) -> Result<IngestAnswer, Refusal> {
            Ok(IngestAnswer {
                first_seq: Some(1),
                ..IngestAnswer::default()
            })
        }

        fn limit(&self) -> &'static str {
            "nothing"
        }
    }

    #[test]
    fn after_a_silence_the_server_is_asked_about_every_file() {
        let link = Link::new(&Restored, Interrupt::default(), None);
        let content: SourceReader = Box::new(std::io::empty());
        let known = KnownSource::nothing(content, &Format::Auto);
        let mut first = ShipPosition::of(&known, Guard::default(), link.disturbance());
        (first.at, first.is_unsent) = (100, false);
        let mut second = first.clone();
        let batch = RangeBatch {
            source: "a.log",
            line: 1,
            format: Format::Auto,
            identity: Identity::Range {
                producer: "file:access::1-0".to_owned(),
                from: 100,
                to: 102,
                content: 0,
            },
            body: b"a\n",
        };
        let is_taken = |position: &mut ShipPosition| {
            let outcome = link.deliver(&batch, position).expect("an outcome");
            matches!(outcome, BatchOutcome::Stored(_))
        };
        assert!(is_taken(&mut first), "there was no silence");
        let past = Instant::now().checked_sub(2 * AWAY_UNNOTICED);
        *link.answered.lock() = past.expect("a past");
        assert!(!is_taken(&mut first), "the server lacks what is before it");
        // The answers about the first file say nothing about another one.
        assert!(!is_taken(&mut second), "of another file as well");
        assert_eq!(link.retries(), 0);
    }
}
