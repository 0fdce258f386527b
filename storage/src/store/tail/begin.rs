//! The start of a writer: its fence, the check of the journal, and the messages before.

use std::io::{Error as IoError, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::{Effect, READ_PAUSE, READ_WAIT, Tail};
use crate::env::host_name;
use crate::error::{Error, Result};
use crate::record::Shapes;
use crate::seeded::{self, Bug};
use crate::shared_journal::{Fence, JournalPosition, RULES, checksum, encode_fence};
use crate::store::Shared;

/// Reads without a message after which a start gives up: a minute.
const START_TRIES: u32 = 600;
/// Time after which the fence is appended again: it may have been lost.
const FENCE_AGAIN: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 5_000 });

impl Tail {
    /// Takes the journal over: appends a fence, and decides about everything before it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the journal is not the one that the manifest goes on with;
    /// [`Error::Unknown`] if another writer has taken over meanwhile; an error of the journal.
    pub(in crate::store) fn take_over(shared: &Arc<Shared>) -> Result<Arc<Self>> {
        let journal = shared.options.journal.clone();
        let journal = journal.expect("BUG: a store without a journal of its own has a shared one");
        let manifest = Arc::clone(&shared.state.lock().committed.manifest);
        let tail = Arc::new(Self {
            journal,
            store_id: manifest.store_id.clone(),
            epoch: shared.epoch,
            nonce: rand::random(),
            losses: crossbeam_channel::unbounded(),
            pending: Mutex::default(),
            has_others: AtomicBool::new(false),
            changed: Condvar::new(),
        });
        let mut shapes = Shapes::default();
        let tail_begins = tail.position(shared).next_seq;
        tail.append_fence();
        tail.check_goes_on(shared)?;
        let (mut idle, mut fenced) = (0, Instant::now());
        let mut begun = seeded::is(Bug::FenceIgnored);
        while !begun {
            // Others may write meanwhile, so that messages come and the fence does not.
            if fenced.elapsed() >= FENCE_AGAIN {
                tail.append_fence();
                fenced = Instant::now();
            }
            match tail.read(shared) {
                Ok(messages) if messages.is_empty() => tail.wait_again(&mut idle, None)?,
                Ok(messages) => {
                    idle = 0;
                    for (offset, bytes) in messages {
                        begun |= tail.follow(shared, offset, &bytes, &mut shapes)? == Effect::Begun;
                    }
                }
                Err(error @ Error::Corrupt { .. }) => return Err(error),
                Err(error) => tail.wait_again(&mut idle, Some(error))?,
            }
        }
        let next_seq = shared.state.lock().next_seq;
        if next_seq < manifest.next_seq && !seeded::is(Bug::FenceIgnored) {
            return Err(tail.corrupt(
                0,
                &format!(
                    "it ends at sequence {next_seq}, and events up to {} were acknowledged: the brokers have lost some",
                    manifest.next_seq
                ),
            ));
        }
        let replayed = next_seq - tail_begins;
        shared.replayed.store(replayed, Ordering::Relaxed);
        Ok(tail)
    }

    /// Appends the fence of this writer. The outcome does not matter: it is read back, or appended
    /// again.
    fn append_fence(&self) {
        let fence = Fence {
            rules: RULES,
            nonce: self.nonce,
            host: host_name(),
        };
        let message = encode_fence(self.head(0), &fence);
        if let Err(error) = self.journal.append(message, Box::new(|_| ())) {
            tracing::warn!(%error, "could not append the fence to the shared journal; trying again");
        }
    }

    /// Notes a read of a start that brought nothing, and pauses after one that failed.
    ///
    /// # Errors
    /// If that was the last attempt.
    fn wait_again(&self, idle: &mut u32, failed: Option<Error>) -> Result<()> {
        *idle += 1;
        let is_last = *idle >= START_TRIES;
        match failed {
            Some(error) if is_last => Err(error),
            None if is_last => {
                let what = "nothing that was appended can be read back; start again when the brokers answer";
                Err(self.io("read", IoError::other(what)))
            }
            Some(_) => {
                std::thread::sleep(READ_PAUSE);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Checks that the last message that was read is still the same, if it is still there. The
    /// fence is behind it, or in its place if it was lost.
    fn check_goes_on(&self, shared: &Shared) -> Result<()> {
        let position = self.position(shared);
        let Some(last) = position.next_offset.checked_sub(1) else {
            return Ok(());
        };
        let mut idle = 0;
        loop {
            match self.journal.read(last, READ_WAIT) {
                Ok(messages) => match messages.first() {
                    Some((offset, bytes)) => {
                        return self.check_last(position, (last, *offset), bytes);
                    }
                    None => self.wait_again(&mut idle, None)?,
                },
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return self.check_oldest(position);
                }
                Err(error) => self.wait_again(&mut idle, Some(self.io("read", error)))?,
            }
        }
    }

    /// Checks the message at the offset `last`, where one with the offset `found` was read.
    fn check_last(
        &self,
        position: JournalPosition,
        (last, found): (u64, u64),
        bytes: &Bytes,
    ) -> Result<()> {
        if (found, checksum(bytes)) == (last, position.crc) {
            return Ok(());
        }
        Err(self.corrupt(
            last,
            "the message there is another than the one that was read before; the topic was created again, or has lost messages",
        ))
    }

    /// Checks that everything behind the last message that was read is still there: retention may
    /// have deleted that one.
    fn check_oldest(&self, position: JournalPosition) -> Result<()> {
        let oldest = self.journal.oldest().map_err(|e| self.io("read", e))?;
        let next = position.next_offset;
        match oldest == next {
            true => Ok(()),
            false => Err(self.corrupt(
                next,
                &format!("the store goes on there, and the oldest message has the offset {oldest}: messages are gone"),
            )),
        }
    }
}
