//! Reading: records of a partition's queue, and errors there.

use std::time::{Duration, Instant};

use rdkafka::Message;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;

use super::{AGAIN_AFTER, GroupSession};
use crate::config::kafka::WhenGone;
use crate::kafka::chain::{Arrival, Chain};
use crate::kafka::partition::{BATCH_BYTES, Partition, Phase};
use crate::kafka::records::{Records, fingerprint_of};
use crate::librdkafka::explained;
use crate::serve::SourceBoard;

/// Records of one partition that are read before those of the next one.
const TURN: usize = 1000;

/// Why a record could not be taken.
enum Trouble {
    Kafka(KafkaError),
    /// The last record that the store has is another one.
    Foreign,
}

impl GroupSession<'_> {
    /// Reads some records of a partition. Returns whether there may be more.
    pub(super) fn read(&mut self, i: usize) -> Result<bool, String> {
        let partition = &mut self.partitions[i];
        if partition.phase != Phase::Reading {
            return Ok(false);
        }
        match take_turn(partition, &self.source.serving.sources) {
            Ok(is_busy) => Ok(is_busy),
            Err(Trouble::Foreign) => {
                let why = "another record is where the last stored one was: the topic was deleted and created anew, or its end was lost by a broker";
                self.gone(i, why)?;
                Ok(false)
            }
            Err(Trouble::Kafka(error)) => {
                self.failed(i, &error)?;
                Ok(false)
            }
        }
    }

    /// Handles an error on the queue of a partition.
    fn failed(&mut self, i: usize, error: &KafkaError) -> Result<(), String> {
        let is_gone = matches!(
            error.rdkafka_error_code(),
            Some(
                RDKafkaErrorCode::AutoOffsetReset
                    | RDKafkaErrorCode::OffsetOutOfRange
                    | RDKafkaErrorCode::LogTruncation
            )
        );
        if !is_gone {
            self.again(i, &explained(error), AGAIN_AFTER);
            return Ok(());
        }
        let gone = "the broker has no record at the stored position: retention removed it before it was read, or the topic was deleted and created anew";
        self.gone(i, gone)?;
        match self.source.kafka.when_gone {
            WhenGone::Stop => Ok(()),
            // librdkafka does not seek a partition that failed so.
            WhenGone::Restart => Err(gone.to_owned()),
        }
    }

    /// Ends a partition whose records are gone, or begins its next generation.
    pub(super) fn gone(&mut self, i: usize, why: &str) -> Result<(), String> {
        let partition = &mut self.partitions[i];
        let (name, topic, number) = (&self.source.name, &partition.topic, partition.number);
        partition.attempt += 1;
        partition.records.clear(BATCH_BYTES);
        partition.since = None;
        let error = match self.source.kafka.when_gone {
            WhenGone::Restart => {
                tracing::warn!(
                    "kafka.{name}: {topic}/{number} is read anew from its oldest record: {why}"
                );
                partition.place.renew();
                partition.stored = None;
                partition.phase = Phase::Waiting(Instant::now());
                None
            }
            WhenGone::Stop => {
                let error = format!(
                    "{topic}/{number} stopped: {why}. If what is lost may be lost, set when_gone = \"restart\" in [kafka.{name}] and restart: the partition is then read anew from its oldest record"
                );
                tracing::error!("kafka.{name}: {error}");
                partition.phase = Phase::Stopped;
                Some(error)
            }
        };
        partition.report(name, &self.source.serving.sources, |report| {
            report.errors += 1;
            report.error = error;
        });
        Ok(())
    }

    /// Begins a partition again at its stored position.
    pub(super) fn again(&mut self, i: usize, why: &str, wait: Duration) {
        let partition = &mut self.partitions[i];
        let (name, topic, number) = (&self.source.name, &partition.topic, partition.number);
        tracing::warn!(
            "kafka.{name}: {topic}/{number}: {why}; read again from the stored position"
        );
        partition.reset(wait);
        partition.report(name, &self.source.serving.sources, |report| {
            report.errors += 1;
            report.error = Some(why.to_owned());
        });
    }
}

/// Takes records of a partition for one turn. Returns whether there may be more.
fn take_turn(partition: &mut Partition, board: &SourceBoard) -> Result<bool, Trouble> {
    let mut repeated = 0;
    let mut is_busy = true;
    for _ in 0..TURN {
        if partition.records.size() >= BATCH_BYTES {
            break;
        }
        match partition.queue.poll(Duration::ZERO) {
            None => {
                is_busy = false;
                break;
            }
            Some(Err(error)) => return Err(Trouble::Kafka(error)),
            Some(Ok(message)) => {
                partition.heard = Instant::now();
                let Partition {
                    chain,
                    records,
                    since,
                    ..
                } = partition;
                repeated += u64::from(!take(chain, records, &message)?);
                if !records.is_empty() {
                    since.get_or_insert_with(Instant::now);
                }
            }
        }
    }
    if repeated > 0 {
        board.change(&partition.place.producer(), |report| {
            report.repeated += repeated
        });
    }
    Ok(is_busy)
}

/// Takes a record. Returns false for one that came before.
fn take(
    chain: &mut Chain,
    records: &mut Records,
    message: &BorrowedMessage<'_>,
) -> Result<bool, Trouble> {
    let offset = message.offset().cast_unsigned();
    match chain.arrives(offset, || fingerprint_of(offset, message)) {
        Arrival::New => {
            records.add(offset, message);
            Ok(true)
        }
        Arrival::Known => Ok(true),
        Arrival::Repeated => Ok(false),
        Arrival::Foreign => Err(Trouble::Foreign),
    }
}
