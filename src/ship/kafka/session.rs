//! A session: one connection to a cluster, from the end of the session before it to batches in the
//! topic.

mod open;
mod reports;

use std::time::{Duration, Instant};

use ingest::{BlockRecords, LINE_BYTES_MAX, Multiline};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use xxhash_rust::xxh3::xxh3_64;

use self::reports::Reports;
use super::failures::{again, of_code, refused};
use super::positions::{BatchPlace, Positions, RangePlace, range_of, value_of};
use crate::client::{IngestAnswer, Refusal};
use crate::librdkafka::explained;
use crate::ship::KafkaTarget;
use crate::ship::send::RangeBatch;

/// Time for one answer of the cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time for the records of one batch.
const BATCH_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of a line end, which a batch leaves out where it was taken before.
const LINE_END_MAX: u64 = 2;
/// The partition of the positions.
const POSITIONS_PARTITION: i32 = 0;

/// A record, with the number of its transaction.
type TopicRecord<'r> = BaseRecord<'r, str, [u8], usize>;

/// A connection with what the cluster has of this shipper.
pub(super) struct TopicSession {
    producer: ThreadedProducer<Reports>,
    positions: Positions,
    /// Partitions of the topic.
    partitions: u64,
}

impl TopicSession {
    pub(super) fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Takes a batch, or recognises it as one that the topic has.
    ///
    /// # Errors
    /// [`Refusal::Again`] if the outcome is not known; [`Refusal::TooLarge`] and
    /// [`Refusal::Invalid`] if the topic has nothing of it, and the session goes on.
    pub(super) fn deliver(
        &mut self,
        target: &KafkaTarget,
        rule: Option<&Multiline>,
        batch: &RangeBatch<'_>,
    ) -> Result<IngestAnswer, Refusal> {
        let (producer, from, last) = range_of(&batch.identity);
        match self.positions.place(producer, from, last) {
            RangePlace::Next => {}
            RangePlace::Known => {
                return Ok(IngestAnswer {
                    // A duplicate without a number is one that could not be compared.
                    first_seq: Some(0),
                    duplicate: true,
                    ..IngestAnswer::default()
                });
            }
            RangePlace::Conflict(why) => return Err(Refusal::Invalid(why)),
        }
        // A line beyond the limit of blocks is cut there, and its range is not.
        let bytes = last.to.saturating_sub(from);
        if !batch.body.is_empty() && bytes > batch.body.len() as u64 + LINE_END_MAX {
            return Err(Refusal::Final(format!(
                "{}: line {} has {bytes} bytes; a record of a topic has at most {LINE_BYTES_MAX}",
                batch.source, batch.line
            )));
        }
        self.begin()?;
        let states = self.positions.behind(producer, last);
        // A file stays in one partition, so its lines stay in order.
        let partition = xxh3_64(producer.as_bytes()) % self.partitions;
        let partition = i32::try_from(partition).expect("BUG: a number of a partition");
        let sent = self.send_records(target, rule, batch, partition);
        let sent = sent.and_then(|answer| {
            // The position comes behind the records, so that it has their place, and a broker that
            // shows what was aborted shows no position without its records.
            let offsets = self.flush()?;
            let value = value_of(&states, BatchPlace { partition, offsets });
            self.send_position(target, producer, &value)?;
            self.flush()?;
            Ok(answer)
        });
        let answer = match sent {
            Ok(answer) => answer,
            Err(refusal) => return Err(self.abort(refusal)),
        };
        self.commit()?;
        self.positions.set(producer.to_owned(), states);
        Ok(answer)
    }

    fn begin(&self) -> Result<(), Refusal> {
        self.producer.context().begin();
        let begun = self.producer.begin_transaction();
        begun.map_err(|e| refused("a transaction cannot begin", &e))
    }

    /// Hands the records of a batch to the producer. Empty lines are left out, as everywhere.
    fn send_records(
        &self,
        target: &KafkaTarget,
        rule: Option<&Multiline>,
        batch: &RangeBatch<'_>,
        partition: i32,
    ) -> Result<IngestAnswer, Refusal> {
        let mut answer = IngestAnswer::default();
        let mut records = BlockRecords::new(batch.body, rule);
        while let Some((_, record)) = records.next() {
            if record.is_empty() {
                answer.empty += 1;
                continue;
            }
            answer.accepted += 1;
            let line = (batch.line + records.lines_before()).to_string();
            let header = |key, value| Header {
                key,
                value: Some(value),
            };
            let headers = OwnedHeaders::new_with_capacity(2)
                .insert(header("source", batch.source))
                .insert(header("line", &line));
            let sent = self.record(&target.topic, partition);
            self.send(sent.payload(record).headers(headers))?;
        }
        Ok(answer)
    }

    fn send_position(&self, target: &KafkaTarget, key: &str, value: &str) -> Result<(), Refusal> {
        let record = self.record(&target.positions, POSITIONS_PARTITION);
        self.send(record.key(key).payload(value.as_bytes()))
    }

    /// Begins a record of the transaction under way.
    fn record<'r>(&self, topic: &'r str, partition: i32) -> TopicRecord<'r> {
        let transaction = self.producer.context().transaction();
        TopicRecord::with_opaque_to(topic, transaction).partition(partition)
    }

    /// Hands a record to the producer, when its queue has room.
    fn send(&self, mut record: TopicRecord<'_>) -> Result<(), Refusal> {
        let until = Instant::now() + BATCH_WITHIN;
        loop {
            let (error, refused_record) = match self.producer.send(record) {
                Ok(()) => {
                    self.producer.context().sent();
                    return Ok(());
                }
                Err(refused) => refused,
            };
            let code = error.rdkafka_error_code();
            if code != Some(RDKafkaErrorCode::QueueFull) || Instant::now() >= until {
                return Err(refused("a record is not taken", &error));
            }
            record = refused_record;
            // Its thread takes the reports meanwhile.
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the brokers have every record of the transaction; returns the offsets of the
    /// first one and of the last.
    fn flush(&self) -> Result<Option<(i64, i64)>, Refusal> {
        let reported = self.producer.context().wait(BATCH_WITHIN);
        reported.map_err(|(code, why)| of_code(code, format!("a record is not taken: {why}")))
    }

    /// Commits the transaction, whose records the brokers have.
    ///
    /// # Errors
    /// After each of them the outcome is not known, or the transaction was aborted.
    fn commit(&self) -> Result<(), Refusal> {
        let until = Instant::now() + BATCH_WITHIN;
        // A call that finds reports under way sleeps a tenth of a second.
        while self.producer.in_flight_count() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        loop {
            let Err(error) = self.producer.commit_transaction(ANSWER_WITHIN) else {
                return Ok(());
            };
            let may_repeat =
                matches!(&error, KafkaError::Transaction(inner) if inner.is_retriable());
            if !may_repeat || Instant::now() >= until {
                return Err(match refused("a transaction is not committed", &error) {
                    // The records have arrived: this says nothing about them.
                    Refusal::TooLarge(why) | Refusal::Invalid(why) => again(why),
                    refusal => refusal,
                });
            }
        }
    }

    /// Aborts the transaction after a refusal. Returns it, or its cause, if the session can go on
    /// after it; otherwise one that ends the session.
    fn abort(&self, refusal: Refusal) -> Refusal {
        let refusal = self.cause(refusal);
        match (self.producer.abort_transaction(ANSWER_WITHIN), refusal) {
            (Err(error), Refusal::TooLarge(why) | Refusal::Invalid(why)) => {
                again(format!("{why}; and not undone: {}", explained(&error)))
            }
            (_, refusal) => refusal,
        }
    }

    /// Returns the refusal that the cause of a failed transaction means. Its records tell no more
    /// than that they were purged, or that the transaction has failed.
    fn cause(&self, refusal: Refusal) -> Refusal {
        let Refusal::Again { .. } = refusal else {
            return refusal;
        };
        // In a failed transaction this changes nothing, and returns the error that it failed with
        // (`rd_kafka_txn_require_state` of librdkafka); in another it is the wrong moment.
        let Err(error) = self.producer.begin_transaction() else {
            return refusal;
        };
        match error.rdkafka_error_code() {
            None | Some(RDKafkaErrorCode::State) => refusal,
            Some(_) => refused("the transaction fails", &error),
        }
    }
}
