//! The reading side of a journal.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::context::JournalContext;
use super::failure;
use crate::librdkafka::explained;

/// Bytes behind which a read returns.
const READ_BYTES: usize = 8 << 20;
/// Time for the ends of the partition.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// A consumer of one partition, with the place where it stands.
pub(super) struct PartitionReader {
    consumer: BaseConsumer<JournalContext>,
    topic: String,
    partition: i32,
    /// Offset behind the last message that was returned, or the one that was asked for; `None` to
    /// begin anew.
    next: Option<u64>,
    /// Nothing has come since the beginning at an offset, which may be out of range.
    is_unproven: bool,
    /// An error behind the messages of the last read.
    failed: Option<KafkaError>,
}

impl PartitionReader {
    pub(super) fn new(consumer: BaseConsumer<JournalContext>, topic: &str, partition: i32) -> Self {
        Self {
            consumer,
            topic: topic.to_owned(),
            partition,
            next: None,
            is_unproven: false,
            failed: None,
        }
    }

    /// Returns messages from `offset` on, as [`storage::SharedJournal::read`] does.
    pub(super) fn read(&mut self, offset: u64, wait: Duration) -> io::Result<Vec<(u64, Bytes)>> {
        if self.next != Some(offset) {
            self.begin(offset)?;
        }
        let messages = match self.failed {
            None => self.poll(offset, wait),
            Some(_) => Vec::new(),
        };
        if !messages.is_empty() {
            return Ok(messages);
        }
        let outcome = match self.failed.take() {
            Some(error) => Err(self.explain(offset, &error)),
            None => self.prove(offset),
        };
        if outcome.is_err() {
            self.next = None;
        }
        outcome.map(|()| messages)
    }

    fn begin(&mut self, offset: u64) -> io::Result<()> {
        let start = match i64::try_from(offset) {
            Ok(0) => Offset::Beginning,
            Ok(offset) => Offset::Offset(offset),
            Err(_) => return Err(self.failure(io::ErrorKind::NotFound, "no offset is so large")),
        };
        (self.next, self.failed) = (None, None);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, self.partition, start)
            .and_then(|()| self.consumer.assign(&list))
            .map_err(|error| self.failure(io::ErrorKind::Other, &explained(&error)))?;
        self.next = Some(offset);
        // Offset 0 is the beginning, wherever that is.
        self.is_unproven = offset > 0;
        Ok(())
    }

    /// Waits for the first message, then takes those that are there.
    fn poll(&mut self, offset: u64, wait: Duration) -> Vec<(u64, Bytes)> {
        let until = Instant::now() + wait;
        let (mut messages, mut bytes, mut wanted) = (Vec::new(), 0, offset);
        while bytes < READ_BYTES {
            let left = match messages.is_empty() {
                true => until.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            match self.consumer.poll(left) {
                Some(Ok(message)) => {
                    // An earlier one is of a reading before this.
                    let at = u64::try_from(message.offset());
                    if let Some(at) = at.ok().filter(|at| *at >= wanted) {
                        let payload = message.payload().unwrap_or_default();
                        bytes += payload.len();
                        messages.push((at, Bytes::copy_from_slice(payload)));
                        wanted = at + 1;
                    }
                }
                Some(Err(error)) if passes(&error) => {}
                Some(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
                // Something else may have ended the wait.
                None if messages.is_empty() && Instant::now() < until => {}
                None => break,
            }
        }
        if !messages.is_empty() {
            self.is_unproven = false;
            self.next = Some(wanted);
        }
        messages
    }

    /// Compares an offset at which nothing comes with the ends of the partition, once: not every
    /// broker refuses one behind the end.
    fn prove(&mut self, offset: u64) -> io::Result<()> {
        if !self.is_unproven {
            return Ok(());
        }
        // Without an answer it is asked again after the next wait.
        let Some((low, high)) = self.ends() else {
            return Ok(());
        };
        self.is_unproven = false;
        match (low..=high).contains(&offset) {
            true => Ok(()),
            false => Err(self.gone(offset, Some((low, high)))),
        }
    }

    fn ends(&self) -> Option<(u64, u64)> {
        let client = self.consumer.client();
        let ends = client.fetch_watermarks(&self.topic, self.partition, ENDS_WITHIN);
        let (low, high) = ends.ok()?;
        Some((u64::try_from(low).ok()?, u64::try_from(high).ok()?))
    }

    /// Returns the error that one of the consumer means for who reads at `offset`.
    fn explain(&self, offset: u64, error: &KafkaError) -> io::Error {
        use RDKafkaErrorCode as Code;
        let other = |why: &str| self.failure(io::ErrorKind::Other, why);
        match error.rdkafka_error_code() {
            // Also when the brokers do not tell where the beginning is.
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation)
                if offset > 0 =>
            {
                let ends = self.ends();
                // A reader that went on may have been at a message that is another one now. One
                // that begins at an offset in range had the error of one before it.
                match ends.filter(|(low, high)| (*low..=*high).contains(&offset)) {
                    Some(_) if self.is_unproven => other(&explained(error)),
                    _ => self.gone(offset, ends),
                }
            }
            Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
                other("it does not exist, or not any more; what the store had not sealed was there")
            }
            _ => other(&explained(error)),
        }
    }

    fn gone(&self, offset: u64, ends: Option<(u64, u64)>) -> io::Error {
        let has = match ends {
            Some((low, high)) => format!("; the partition has those from {low} to before {high}"),
            None => String::new(),
        };
        let why = format!("there is no message at offset {offset}{has}");
        self.failure(io::ErrorKind::NotFound, &why)
    }

    fn failure(&self, kind: io::ErrorKind, why: &str) -> io::Error {
        failure(&self.topic, self.partition, kind, why)
    }
}

/// Returns whether a consumer goes on by itself after an error, without a gap.
fn passes(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(error, KafkaError::PartitionEOF(_))
        || matches!(
            error.rdkafka_error_code(),
            Some(
                Code::BrokerTransportFailure
                    | Code::AllBrokersDown
                    | Code::Resolve
                    | Code::OperationTimedOut
                    // Of the group, which nobody joins.
                    | Code::GroupAuthorizationFailed
                    | Code::CoordinatorNotAvailable
                    | Code::CoordinatorLoadInProgress
                    | Code::NotCoordinator
                    | Code::WaitingForCoordinator
            )
        )
}
