//! The topic of a journal: its existence, its replicas and its configuration.

use std::time::Duration;

use futures::executor::block_on;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use storage::Replication;

use super::context::JournalContext;
use crate::config::Cluster;
use crate::librdkafka::explained;

/// Time for the first answer of a broker.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Time for a further answer. Not all clusters tell the configuration of a topic, nor to everybody.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of a batch, whatever the topic takes: librdkafka reads answers of 100 MB.
const FETCHABLE: usize = 64 << 20;
/// The broker's default for `max.message.bytes`, as older ones have it.
const BATCH_BYTES_MAX: usize = 1_000_012;

/// All that a journal needs to know of its topic.
#[derive(Debug)]
pub(super) struct TopicFacts {
    /// Id of the cluster.
    pub(super) cluster: String,
    pub(super) replication: Replication,
    /// The topic's `max.message.bytes`.
    pub(super) batch_bytes_max: usize,
}

impl TopicFacts {
    /// Asks the brokers; `common` are the options of a client that only asks.
    ///
    /// # Errors
    /// If no broker answers, or the topic does not suit, with the remedy.
    pub(super) fn learn(
        cluster: &Cluster,
        partition: i32,
        common: &ClientConfig,
        consumer: &BaseConsumer<JournalContext>,
    ) -> Result<Self, String> {
        let replicas = replicas_of(cluster, partition, consumer)?;
        let id = consumer.client().fetch_cluster_id(ANSWER_WITHIN);
        let id = id.ok_or("the brokers do not tell the id of their cluster")?;
        let topic = &cluster.kafka_topic;
        let told = described(topic, common);
        if let Err(why) = &told {
            tracing::info!(
                "topic {topic}: the brokers do not tell its configuration: {why}; [cluster] kafka_min_insync_replicas and kafka_syncs count"
            );
        }
        let told = told.ok();
        let value = |name: &str| {
            let entry = told.as_ref()?.get(name)?;
            entry.value.as_deref()
        };
        if value("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
            return Err(format!(
                "topic {topic} is compacted, and events would be lost; set its cleanup.policy to delete, or name another topic"
            ));
        }
        if value("unclean.leader.election.enable") == Some("true") {
            tracing::warn!(
                "topic {topic}: unclean.leader.election.enable is true: acknowledged events may be lost when brokers fail; set it to false"
            );
        }
        let configured = Some(cluster.kafka_min_insync_replicas).filter(|copies| *copies > 0);
        let min_insync = value("min.insync.replicas").and_then(|copies| copies.parse().ok());
        let batch_bytes_max = value("max.message.bytes").and_then(|bytes| bytes.parse().ok());
        Ok(Self {
            cluster: id,
            replication: Replication {
                replicas,
                min_insync: min_insync.or(configured),
                syncs: value("flush.messages").map_or(cluster.kafka_syncs, |every| every == "1"),
            },
            // The consumer could not fetch what is much larger.
            batch_bytes_max: batch_bytes_max
                .map_or(BATCH_BYTES_MAX, |max: usize| max.min(FETCHABLE)),
        })
    }
}

/// Returns the number of replicas of the partition.
fn replicas_of(
    cluster: &Cluster,
    partition: i32,
    consumer: &BaseConsumer<JournalContext>,
) -> Result<u32, String> {
    let topic = &cluster.kafka_topic;
    let metadata = consumer.fetch_metadata(Some(topic), CONNECT_WITHIN);
    let metadata = metadata.map_err(|error| unanswered(cluster, consumer, &error))?;
    let found = metadata.topics().iter().find(|t| t.name() == topic);
    let error = found.and_then(|t| t.error()).map(RDKafkaErrorCode::from);
    use RDKafkaErrorCode as Code;
    match error {
        None => {}
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition) => return Err(missing(cluster)),
        Some(code) => return Err(format!("topic {topic}: {code}")),
    }
    let partitions = found.map(|t| t.partitions()).unwrap_or_default();
    if partitions.is_empty() {
        return Err(missing(cluster));
    }
    let Some(found) = partitions.iter().find(|p| p.id() == partition) else {
        return Err(format!(
            "topic {topic} has {} partitions and no number {partition}; {}",
            partitions.len(),
            match cluster.shards {
                0 => "set kafka_partition of [cluster] to one below",
                _ => "each shard needs the partition of its number",
            }
        ));
    };
    Ok(u32::try_from(found.replicas().len()).unwrap_or(u32::MAX))
}

/// Returns how the missing topic is created. Nothing here creates it: the number of replicas is an
/// operator's decision.
fn missing(cluster: &Cluster) -> String {
    let topic = &cluster.kafka_topic;
    let brokers = cluster.kafka.as_deref().unwrap_or_default();
    let partitions = match cluster.shards {
        0 => u64::from(cluster.kafka_partition) + 1,
        shards => shards.into(),
    };
    format!(
        "topic {topic} does not exist; create it: kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} --partitions {partitions} --replication-factor 3 --config min.insync.replicas=2 --config max.message.bytes=34000000 --config retention.ms=604800000"
    )
}

/// Returns the reason for which there is no answer, with the last error of the connections.
fn unanswered(
    cluster: &Cluster,
    consumer: &BaseConsumer<JournalContext>,
    error: &KafkaError,
) -> String {
    // The context hears of errors while the consumer is polled.
    while consumer.poll(Duration::ZERO).is_some() {}
    let brokers = cluster.kafka.as_deref().unwrap_or_default();
    let why = format!("no broker of {brokers} answers: {}", explained(error));
    consumer.context().with_last_error(&why)
}

/// Returns the configuration of a topic.
fn described(topic: &str, common: &ClientConfig) -> Result<ConfigResource, String> {
    let admin: KafkaResult<AdminClient<JournalContext>> =
        common.create_with_context(JournalContext::default());
    let admin = admin.map_err(|error| explained(&error))?;
    let options = AdminOptions::new().request_timeout(Some(ANSWER_WITHIN));
    let asked = [ResourceSpecifier::Topic(topic)];
    let told = block_on(admin.describe_configs(&asked, &options));
    let told = told.map_err(|error| error.to_string())?.into_iter().next();
    told.ok_or("an empty answer")?
        .map_err(|code| code.to_string())
}
