//! The beginning of a session.

use std::time::{Duration, Instant};

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResourceResult, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::{ANSWER_WITHIN, POSITIONS_PARTITION, Reports, TopicSession};
use crate::client::Refusal;
use crate::interrupt::Interrupt;
use crate::librdkafka::explained;
use crate::ship::KafkaTarget;
use crate::ship::kafka::client::{of_consumer, of_producer};
use crate::ship::kafka::failures::{again, of_code, refused};
use crate::ship::kafka::positions::{PositionRecord, Positions, marker_key, parse};

/// Time for the next record of the positions: the cluster ends transactions that others left open
/// within a minute, and looks for them every ten seconds.
const POSITIONS_WITHIN: Duration = Duration::from_secs(90);
/// Time for the answer about the policy of a topic. Not all clusters give one, nor to everybody.
const POLICY_WITHIN: Duration = Duration::from_secs(2);

impl TopicSession {
    /// Connects, ends what earlier sessions left, and reads the positions.
    ///
    /// # Errors
    /// [`Refusal::Final`] if it would fail again.
    pub(in crate::ship::kafka) fn open(
        target: &KafkaTarget,
        client: &ClientConfig,
        interrupt: &Interrupt,
    ) -> Result<Self, Refusal> {
        let producer: KafkaResult<ThreadedProducer<Reports>> =
            of_producer(client, target).create_with_context(Reports::default());
        let producer = producer.map_err(|e| refused("the options of the producer", &e))?;
        let partitions = partitions_of(&producer, &target.topic)?;
        // A consumer does not create the topics that it asks for.
        let consumer: BaseConsumer = of_consumer(client)
            .create()
            .map_err(|e| refused("the options of the consumer", &e))?;
        make_compacted(target, client, &consumer)?;
        partitions_of(&producer, &target.positions)?;
        let begun = producer.init_transactions(ANSWER_WITHIN);
        begun.map_err(|e| refused("the cluster begins no transactions", &e))?;
        let mut session = Self {
            producer,
            positions: Positions::default(),
            partitions,
        };
        let marker = format!("{:016x}", rand::random::<u64>());
        session.mark(target, &marker)?;
        session.read(target, &consumer, interrupt, &marker)?;
        Ok(session)
    }

    /// Writes a marker behind all positions.
    fn mark(&self, target: &KafkaTarget, marker: &str) -> Result<(), Refusal> {
        self.begin()?;
        self.send_position(target, &marker_key(&target.shipper), marker)?;
        self.flush().map_err(|refusal| self.cause(refusal))?;
        self.commit()
    }

    /// Reads the positions of this shipper, up to its marker. Open transactions of others delay
    /// it, until the cluster ends them.
    fn read(
        &mut self,
        target: &KafkaTarget,
        consumer: &BaseConsumer,
        interrupt: &Interrupt,
        marker: &str,
    ) -> Result<(), Refusal> {
        let failed = |e: &KafkaError| refused(&format!("topic {}", target.positions), e);
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&target.positions, POSITIONS_PARTITION, Offset::Beginning)
            .and_then(|()| consumer.assign(&list))
            .map_err(|e| failed(&e))?;
        let prefix = format!("file:{}:{}:", target.topic, target.shipper);
        let mut until = Instant::now() + POSITIONS_WITHIN;
        let mut last_error = None;
        loop {
            if interrupt.is_set() {
                return Err(again("the shipper ends".to_owned()));
            }
            let record = match consumer.poll(ANSWER_WITHIN / 100) {
                Some(Ok(record)) => record,
                // The consumer goes on after an error of one broker or address.
                Some(Err(error)) if !ends_reading(&error) => {
                    last_error = Some(explained(&error));
                    continue;
                }
                Some(Err(error)) => return Err(failed(&error)),
                None if Instant::now() < until => continue,
                None => {
                    let why = last_error.unwrap_or_else(|| {
                        "a transaction of another shipper may be open".to_owned()
                    });
                    return Err(again(format!(
                        "topic {}: the marker of this shipper does not come: {why}",
                        target.positions
                    )));
                }
            };
            until = Instant::now() + POSITIONS_WITHIN;
            // Compaction removes earlier values in its own time, so the last one counts.
            let Some((key, value)) = record.key().zip(record.payload()) else {
                let key = record.key().unwrap_or_default();
                self.positions.remove(&String::from_utf8_lossy(key));
                continue;
            };
            let parsed = parse(key, value).map_err(|why| {
                Refusal::Final(format!(
                    "topic {}: the record at offset {} is no position of a shipper: {why}; name a topic of its own by --positions",
                    target.positions,
                    record.offset()
                ))
            })?;
            match parsed {
                PositionRecord::Marker(value) if value == marker => return Ok(()),
                PositionRecord::Position(producer, states) if producer.starts_with(&prefix) => {
                    self.positions.set(producer, states);
                }
                PositionRecord::Marker(_) | PositionRecord::Position(..) => {}
            }
        }
    }
}

/// Returns whether a consumer reads no more after an error.
fn ends_reading(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(error, KafkaError::MessageConsumptionFatal(_))
        || matches!(
            error.rdkafka_error_code(),
            Some(
                Code::TopicAuthorizationFailed
                    | Code::UnknownTopicOrPartition
                    | Code::UnknownTopic
                    | Code::UnknownPartition
                    | Code::AutoOffsetReset
                    | Code::OffsetOutOfRange
            )
        )
}

/// Returns the refusal of a cluster that does not answer, with the last error of its connections.
fn unanswered(producer: &ThreadedProducer<Reports>, error: &KafkaError) -> Refusal {
    match producer.context().last_error() {
        Some((Some(code), why)) => of_code(code, format!("no broker answers: {why}")),
        Some((None, why)) => again(format!("no broker answers: {why}")),
        None => refused("no broker answers", error),
    }
}

/// Returns the number of partitions of a topic.
fn partitions_of(producer: &ThreadedProducer<Reports>, topic: &str) -> Result<u64, Refusal> {
    let metadata = producer
        .client()
        .fetch_metadata(Some(topic), ANSWER_WITHIN)
        .map_err(|e| unanswered(producer, &e))?;
    let found = metadata.topics().iter().find(|t| t.name() == topic);
    let Some(found) = found else {
        return Err(again(format!(
            "topic {topic}: the brokers say nothing of it"
        )));
    };
    if let Some(error) = found.error() {
        let code = RDKafkaErrorCode::from(error);
        let doing = format!("topic {topic}");
        return Err(match code {
            RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition => {
                again(format!("{doing} does not exist; create it"))
            }
            _ => refused(&doing, &KafkaError::MetadataFetch(code)),
        });
    }
    match found.partitions().len() as u64 {
        0 => Err(again(format!("topic {topic} has no partition yet"))),
        partitions => Ok(partitions),
    }
}

/// Creates the topic of the positions, if there is none, and refuses one that forgets.
fn make_compacted(
    target: &KafkaTarget,
    client: &ClientConfig,
    consumer: &BaseConsumer,
) -> Result<(), Refusal> {
    let name = &target.positions;
    let metadata = consumer.fetch_metadata(Some(name), ANSWER_WITHIN);
    let metadata = metadata.map_err(|e| refused("no broker answers", &e))?;
    let found = metadata.topics().iter().find(|t| t.name() == name);
    let exists = found.is_some_and(|topic| topic.error().is_none());
    let admin: KafkaResult<AdminClient<DefaultClientContext>> = client.create();
    let admin = admin.map_err(|e| refused("the options", &e))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime =
        runtime.map_err(|e| again(format!("no thread for the cluster's answers: {e}")))?;
    if !exists {
        let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
        let topic = NewTopic::new(name, 1, TopicReplication::Fixed(-1));
        let topic = topic.set("cleanup.policy", "compact");
        let created = runtime.block_on(admin.create_topics([&topic], &options));
        return match created.as_deref() {
            Ok([Ok(_)]) => {
                tracing::info!("topic {name} was created; it keeps the positions of shippers");
                Ok(())
            }
            Ok([Err((_, RDKafkaErrorCode::TopicAlreadyExists))]) => Ok(()),
            Ok([Err((_, code))]) => Err(of_code(
                *code,
                format!(
                    "topic {name} cannot be created: {code}; create it with cleanup.policy=compact and one partition"
                ),
            )),
            other => Err(again(format!("topic {name} is not created: {other:?}"))),
        };
    }
    let options = AdminOptions::new().request_timeout(Some(POLICY_WITHIN));
    let resource = [ResourceSpecifier::Topic(name)];
    let described = runtime.block_on(admin.describe_configs(&resource, &options));
    match policy_of(described) {
        Some(policy) if policy != "compact" => Err(Refusal::Final(format!(
            "topic {name} forgets positions, and files would be sent again: its cleanup.policy is {policy:?}; set it to \"compact\""
        ))),
        Some(_) => Ok(()),
        None => {
            tracing::info!(
                "topic {name}: the brokers do not tell its cleanup.policy, which must be compact"
            );
            Ok(())
        }
    }
}

fn policy_of(described: KafkaResult<Vec<ConfigResourceResult>>) -> Option<String> {
    let resources = described.ok()?;
    let resource = resources.into_iter().next()?.ok()?;
    resource.get("cleanup.policy")?.value.clone()
}
