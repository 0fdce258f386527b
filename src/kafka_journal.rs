//! The journal of a store in a partition of Kafka: the client behind [`storage::SharedJournal`].
//!
//! # Invariants
//! 1. A message is acknowledged when all replicas in sync have it (`acks=all`), and only such are
//!    read.
//! 2. Messages stay in the order of their calls: one request is under way at a time. A request
//!    whose answer was lost is sent again, so a message may come twice; the store knows it by its
//!    number (`storage/src/shared_journal.rs`). Idempotence of the producer would add nothing: its
//!    memory ends with the process.
//! 3. No message is passed over: an error at one begins the reading anew where the store has read
//!    to.
//! 4. The topic is never created, and its messages are not those of a compacted one.

mod client;
mod context;
mod reader;
mod topic;

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use storage::{Appended, JournalPlace, Replication, SharedJournal};

use self::client::JournalClients;
use self::context::{JournalContext, PendingAppend};
use self::reader::PartitionReader;
use self::topic::TopicFacts;
use crate::config::Cluster;
use crate::librdkafka::explained;

pub(crate) use self::client::{check, common};

/// Time for room in the producer's queue: by default, that of a message that cannot be delivered.
const ROOM_WITHIN: Duration = Duration::from_secs(10);
/// Time for the ends of the partition.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a batch of one message beside the message, and some to spare: the brokers limit the
/// batch.
const BATCH_BYTES: usize = 512;

/// A message on its way to the producer.
type JournalRecord<'m> = BaseRecord<'m, (), [u8], Box<PendingAppend>>;

/// A partition of a topic as the journal of a store.
pub(crate) struct PartitionJournal {
    place: JournalPlace,
    partition: i32,
    replication: Replication,
    message_bytes_max: usize,
    producer: ThreadedProducer<JournalContext>,
    reader: Mutex<PartitionReader>,
}

/// The clients of a section, with their secrets.
#[derive(Debug)]
pub(crate) struct JournalSettings<'c> {
    cluster: &'c Cluster,
    clients: JournalClients,
}

impl<'c> JournalSettings<'c> {
    /// Reads the settings of a section that names brokers.
    ///
    /// # Errors
    /// If a secret cannot be read, or librdkafka does not take an option.
    pub(crate) fn of(cluster: &'c Cluster) -> Result<Self, String> {
        let clients = client::of(cluster)?;
        Ok(Self { cluster, clients })
    }
}

impl PartitionJournal {
    /// Connects to the cluster and checks the topic, within about 15 seconds.
    ///
    /// # Errors
    /// If no broker answers, or the topic does not suit, with the remedy.
    pub(crate) fn open(settings: JournalSettings<'_>) -> Result<Self, String> {
        let JournalSettings { cluster, clients } = settings;
        let topic = &cluster.kafka_topic;
        let number = i32::try_from(cluster.partition())
            .map_err(|_| format!("{} is no number of a partition", cluster.partition()))?;
        let consumer: KafkaResult<BaseConsumer<JournalContext>> = clients
            .consumer
            .create_with_context(JournalContext::default());
        let consumer = consumer.map_err(|e| explained(&e))?;
        let facts = TopicFacts::learn(cluster, number, &clients.common, &consumer)?;
        let producer = clients.producer_of(facts.batch_bytes_max);
        let producer: KafkaResult<ThreadedProducer<JournalContext>> =
            producer.create_with_context(JournalContext::default());
        let producer = producer.map_err(|e| explained(&e))?;
        Ok(Self {
            place: JournalPlace {
                cluster: facts.cluster,
                topic: topic.clone(),
                partition: cluster.partition(),
            },
            partition: number,
            replication: facts.replication,
            message_bytes_max: facts.batch_bytes_max.saturating_sub(BATCH_BYTES),
            producer,
            reader: Mutex::new(PartitionReader::new(consumer, topic, number)),
        })
    }

    /// Names the journal in front of the reason for which something failed.
    fn failed(&self, kind: io::ErrorKind, why: &str) -> io::Error {
        failure(&self.place.topic, self.partition, kind, why)
    }
}

/// Returns an error of a partition.
fn failure(topic: &str, partition: i32, kind: io::ErrorKind, why: &str) -> io::Error {
    io::Error::new(
        kind,
        format!("the journal in Kafka (topic {topic}, partition {partition}): {why}"),
    )
}

impl SharedJournal for PartitionJournal {
    fn place(&self) -> &JournalPlace {
        &self.place
    }

    fn replication(&self) -> Replication {
        self.replication
    }

    fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    fn append(&self, message: Vec<u8>, done: Appended) -> io::Result<()> {
        let too_large = || {
            let (len, max) = (message.len(), self.message_bytes_max);
            let why = format!(
                "a message of {len} bytes is too large, the limit is {max}; raise max.message.bytes of the topic and start again"
            );
            self.failed(io::ErrorKind::InvalidInput, &why)
        };
        if message.len() > self.message_bytes_max {
            return Err(too_large());
        }
        let pending = Box::new(PendingAppend::new(done));
        let record = JournalRecord::with_opaque_to(&self.place.topic, pending);
        let mut record = record.partition(self.partition).payload(&message);
        let until = Instant::now() + ROOM_WITHIN;
        loop {
            let (error, refused) = match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::QueueFull) if Instant::now() < until => {}
                Some(RDKafkaErrorCode::QueueFull) => {
                    let why = self.producer.context().with_last_error(
                        "the brokers do not take what was appended before; nothing was appended",
                    );
                    return Err(self.failed(io::ErrorKind::TimedOut, &why));
                }
                Some(RDKafkaErrorCode::MessageSizeTooLarge) => return Err(too_large()),
                _ => return Err(self.failed(io::ErrorKind::Other, &explained(&error))),
            }
            record = refused;
            // The producer's thread takes the reports meanwhile.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn read(&self, offset: u64, wait: Duration) -> io::Result<Vec<(u64, Bytes)>> {
        self.reader.lock().read(offset, wait)
    }

    fn oldest(&self) -> io::Result<u64> {
        let client = self.producer.client();
        let ends = client.fetch_watermarks(&self.place.topic, self.partition, ENDS_WITHIN);
        let (low, _) =
            ends.map_err(|error| self.failed(io::ErrorKind::Other, &explained(&error)))?;
        u64::try_from(low).map_err(|_| {
            self.failed(
                io::ErrorKind::Other,
                "the brokers do not tell where it begins",
            )
        })
    }
}

impl fmt::Debug for PartitionJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionJournal")
            .field("place", &self.place)
            .field("replication", &self.replication)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
