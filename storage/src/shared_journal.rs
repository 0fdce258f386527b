//! A journal that is not on this machine: one partition of a replicated log, to which writers
//! append and which all read in one order. Kafka's is in the server's crate; this one knows only
//! the few calls.
//!
//! # Invariants
//! 1. The log decides. A writer appends a message first, and decides about its batches when it has
//!    read the message back, in the order of the log. A decision follows from the messages before
//!    it (`store/log/admit.rs`), so every reader of the log makes the same.
//! 2. A message counts or is void, by the messages before it alone ([`JournalPosition::takes`]): it
//!    counts if its writer has the highest epoch of all fences before it, and its number follows
//!    that of the last message that counts. So a message that a client library sends twice counts
//!    once, one that comes after a fence of a later writer never counts, and behind a lost message
//!    none does, so that the batches of a source which does not wait for answers stay in order. A
//!    writer goes on with a *resumption*, whose number may leave others out: when it is read back,
//!    what was not seen before it never counts.
//!    Messages of others in the same partition are void, too.
//! 3. The position of a version of the manifest is that of its sealed events, its identities and
//!    its columns: replay from there leads to the state of a writer that ran on, with the same
//!    sequence numbers.

mod message;

pub(crate) use message::{
    Fence, GROUP_BYTES, JournalMessage, MessageHead, Payload, RECORD_BYTES, checksum, encode_fence,
    encode_group, encode_resumption,
};

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::concern::{Copies, Durability, WriteConcern};
use crate::error::{Error, Result};
use crate::seeded::{self, Bug};

/// Number of the rules by which this program decides about batches. A fence carries it: from there
/// on the log is decided by those rules, and a program that does not know them stops.
pub(crate) const RULES: u32 = 1;

/// Where a log is: the partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPlace {
    /// Id of the Kafka cluster.
    pub cluster: String,
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: u32,
}

/// The replication of a log, of which its write concerns follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replication {
    /// Number of replicas of the partition.
    pub replicas: u32,
    /// Minimum number of replicas that have a message before it can be read: the topic's
    /// `min.insync.replicas`. `None` if the brokers do not tell.
    pub min_insync: Option<u32>,
    /// True if every message is on the replicas' disks before it can be read: `flush.messages=1`.
    pub syncs: bool,
}

impl Replication {
    /// Returns the durability of a batch for a concern. A message that was read back is on all
    /// replicas in sync, so `w=1` is that already.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the topic does not promise what the concern asks for: a write
    /// concern is never downgraded.
    pub fn gives(&self, concern: WriteConcern) -> Result<Durability> {
        let wanted = match concern.w {
            Copies::None => 0,
            Copies::AtLeast(copies) => copies,
            Copies::Majority => self.replicas / 2 + 1,
        };
        if wanted > 1 && self.min_insync.is_none_or(|copies| copies < wanted) {
            let told = match self.min_insync {
                Some(copies) => format!("min.insync.replicas of the journal's topic is {copies}"),
                None => {
                    "the brokers do not tell min.insync.replicas of the journal's topic".to_owned()
                }
            };
            return Err(Error::invalid(format!(
                "w={} needs {wanted} replicas that have each message, and {told}; set it there, or ask for w=1",
                concern.w
            )));
        }
        if concern.j && !self.syncs {
            return Err(Error::invalid(
                "j=true needs brokers that sync each message (flush.messages=1 of the journal's topic), and these do not; ask for w=1 or w=majority, which are on all replicas in sync",
            ));
        }
        Ok(match (concern.j, wanted) {
            (true, _) => Durability::Synced,
            (false, 0) => Durability::Unacknowledged,
            (false, _) => Durability::Written,
        })
    }
}

/// Receives the offset of an appended message, or the reason for which it is not known to be in
/// the log: it may be there, come later, or never.
pub type Appended = Box<dyn FnOnce(io::Result<u64>) + Send>;

/// A partition of a replicated log. Messages have offsets that rise and may have gaps.
pub trait SharedJournal: Send + Sync + Debug {
    /// Returns its place.
    fn place(&self) -> &JournalPlace;

    /// Returns its replication.
    fn replication(&self) -> Replication;

    /// Returns the maximum length of a message, bytes.
    fn message_bytes_max(&self) -> usize;

    /// Appends a message behind those of earlier calls. Returns at once, or when there is room;
    /// `done` is called once, from any thread, within a bounded time.
    ///
    /// # Errors
    /// If nothing was appended and never will be; then `done` is not called.
    fn append(&self, message: Vec<u8>, done: Appended) -> io::Result<()>;

    /// Returns messages that all replicas in sync have, from `offset` on, in order, with their
    /// offsets; none if there are none within `wait`. Offset 0 means the oldest message.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there are no messages at `offset` and never will be: the
    /// log begins behind it, or ends before it. Others may pass.
    fn read(&self, offset: u64, wait: Duration) -> io::Result<Vec<(u64, Bytes)>>;

    /// Returns the offset of the oldest message that is there, or the end if there is none.
    ///
    /// # Errors
    /// If it cannot be learnt.
    fn oldest(&self) -> io::Result<u64>;
}

/// A position in a shared log, with what decides there which messages count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalPosition {
    /// Offset behind the last message that was read.
    pub next_offset: u64,
    /// Sequence number of the next item.
    pub next_seq: u64,
    /// Highest epoch of all fences before.
    pub epoch: u32,
    /// Number of the last message that counts, in that epoch.
    pub number: u64,
    /// Checksum in the last message, by which a topic that was created again, or lost messages, is
    /// recognised.
    pub crc: u32,
}

impl JournalPosition {
    /// Returns the position behind a message if it counts, and `None` if it is void.
    pub(crate) fn takes(&self, message: &JournalMessage) -> Option<Self> {
        let counts = match message.payload {
            Payload::Fence(_) => message.epoch > self.epoch,
            Payload::Group(_) => {
                let next = self.number + 1;
                let is_again = message.number < next && seeded::is(Bug::RetryTaken);
                self.is_of(message) && (message.number == next || is_again)
            }
            Payload::Resumption => self.is_of(message) && message.number > self.number,
        };
        counts.then_some(Self {
            epoch: message.epoch,
            number: message.number,
            ..*self
        })
    }

    /// Returns whether a message is of the writer with the highest epoch.
    fn is_of(&self, message: &JournalMessage) -> bool {
        let bugs = [Bug::LateMessageTaken, Bug::FenceIgnored];
        message.epoch == self.epoch || bugs.into_iter().any(seeded::is)
    }

    /// Returns the position behind the message at `offset`, whose checksum is `crc`.
    pub(crate) fn behind(self, offset: u64, crc: u32) -> Self {
        Self {
            next_offset: offset + 1,
            crc,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(
        replication: Replication,
        w: &str,
        j: bool,
    ) -> std::result::Result<Durability, String> {
        let concern = WriteConcern::parse(Some(w), Some(j)).expect("a concern");
        replication.gives(concern).map_err(|e| e.to_string())
    }

    #[test]
    fn a_concern_is_given_as_far_as_the_topic_promises_it_and_else_refused() {
        let of = |replicas, min_insync, syncs| Replication {
            replicas,
            min_insync,
            syncs,
        };
        let three = of(3, Some(2), false);
        assert_eq!(given(three, "0", false), Ok(Durability::Unacknowledged));
        for w in ["1", "2", "majority"] {
            assert_eq!(given(three, w, false), Ok(Durability::Written), "{w}");
        }
        for (replication, w, why) in [
            (
                three,
                "3",
                "min.insync.replicas of the journal's topic is 2",
            ),
            (of(5, Some(2), false), "majority", "needs 3 replicas"),
            (of(3, Some(1), false), "majority", "needs 2 replicas"),
            (of(3, None, false), "2", "do not tell"),
        ] {
            let told = given(replication, w, false).expect_err(w);
            assert!(told.contains(why), "{told}");
        }
        // One replica is a majority of one.
        assert_eq!(
            given(of(1, None, false), "majority", false),
            Ok(Durability::Written)
        );
        for w in ["0", "1", "majority"] {
            let told = given(three, w, true).expect_err(w);
            assert!(told.contains("flush.messages=1"), "{told}");
            assert_eq!(given(of(3, Some(2), true), w, true), Ok(Durability::Synced));
        }
    }

    #[test]
    fn a_message_counts_when_its_number_follows_or_resumes_in_the_highest_epoch() {
        let fence = || {
            Payload::Fence(Fence {
                rules: RULES,
                nonce: 0,
                host: String::new(),
            })
        };
        let group = || Payload::Group(Vec::new());
        let mut at = JournalPosition::default();
        for (epoch, number, payload, counts) in [
            (4, 0, fence(), true),
            (4, 1, group(), true),
            // The second is late, and until then the third does not count.
            (4, 3, group(), false),
            (4, 2, group(), true),
            (4, 2, group(), false),
            (4, 3, group(), true),
            (4, 7, Payload::Resumption, true),
            (4, 4, group(), false),
            (4, 7, Payload::Resumption, false),
            (4, 8, group(), true),
            (4, 0, fence(), false),
            (3, 0, fence(), false),
            (6, 0, fence(), true),
            (4, 9, group(), false),
            (4, 99, Payload::Resumption, false),
            (6, 1, group(), true),
        ] {
            let message = JournalMessage {
                crc: 0,
                epoch,
                number,
                payload,
            };
            let taken = at.takes(&message);
            assert_eq!(taken.is_some(), counts, "{message:?} behind {at:?}");
            at = taken.unwrap_or(at);
        }
    }
}
