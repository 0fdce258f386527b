//! The consumer group that assigns shards to nodes: a shard is a partition of the journal's topic.
//! Its members read nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::base_consumer::BaseConsumer;
use rdkafka::consumer::{Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::processes::ShardProcesses;
use crate::config::Cluster;
use crate::kafka_journal;
use crate::librdkafka::{FOREIGN_OPTION, accept, explained, is_warning, release, take};

/// Defaults that differ from those of librdkafka; options may change them.
const DEFAULTS: [(&str, &str); 2] = [
    // The shards of a node that has gone are assigned to others after this time.
    ("session.timeout.ms", "6000"),
    ("heartbeat.interval.ms", "1000"),
];
/// Values that a member needs.
const FIXED: [(&str, &str); 5] = [
    // A shard that stays where it is goes on.
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "latest"),
    ("queued.min.messages", "1"),
];

/// The options of a member.
pub(super) type GroupSettings = ClientConfig;

/// Returns the options of a member.
///
/// # Errors
/// If a secret cannot be read, or librdkafka does not take an option.
pub(super) fn settings(cluster: &Cluster) -> Result<GroupSettings, String> {
    let mut settings = kafka_journal::common(cluster)?;
    for (option, value) in DEFAULTS {
        if settings.get(option).is_none() {
            settings.set(option, value);
        }
    }
    for (option, value) in FIXED {
        settings.set(option, value);
    }
    settings.set("group.id", cluster.group.as_deref().unwrap_or_default());
    take(&settings)?;
    Ok(settings)
}

/// Returns the time after which the group takes a silent member for gone.
pub(super) fn session_timeout(settings: &GroupSettings) -> Duration {
    let written = settings.get("session.timeout.ms");
    let millis = written.and_then(|millis| millis.parse().ok());
    Duration::from_millis(millis.unwrap_or(0))
}

/// The membership of a node in the group.
pub(super) struct Membership {
    consumer: BaseConsumer<Ear>,
}

impl Membership {
    /// Joins the group. The shards that it assigns are taken and given up in `processes`.
    ///
    /// # Errors
    /// If the client cannot be made.
    pub(super) fn of(
        settings: &GroupSettings,
        topic: &str,
        shards: u16,
        processes: &Arc<ShardProcesses>,
    ) -> Result<Self, String> {
        let ear = Ear {
            shards,
            processes: Arc::clone(processes),
        };
        let consumer: KafkaResult<BaseConsumer<Ear>> = settings.create_with_context(ear);
        let consumer = consumer.map_err(|e| explained(&e))?;
        consumer.subscribe(&[topic]).map_err(|e| explained(&e))?;
        Ok(Self { consumer })
    }

    /// Waits for changes, for some time.
    ///
    /// # Errors
    /// If the client cannot go on.
    pub(super) fn hear(&self, wait: Duration) -> Result<(), String> {
        if let Some(Err(error)) = self.consumer.poll(wait) {
            tracing::debug!(error = explained(&error), "the group of the nodes");
        }
        match self.consumer.client().fatal_error() {
            Some((_, why)) => Err(why),
            None => Ok(()),
        }
    }

    /// Gives all shards up and leaves the group, within some time.
    pub(super) fn leave(self, within: Duration) {
        let until = Instant::now() + within;
        self.consumer.unsubscribe();
        let holds = |consumer: &BaseConsumer<Ear>| {
            let assigned = consumer.assignment();
            assigned.is_ok_and(|assigned| assigned.count() > 0)
        };
        while holds(&self.consumer) && Instant::now() < until {
            let _message = self.consumer.poll(Duration::from_millis(50));
        }
    }
}

/// Hears which shards the group assigns.
#[derive(Debug)]
struct Ear {
    /// Number of the shards: further partitions are no shards.
    shards: u16,
    processes: Arc<ShardProcesses>,
}

impl ClientContext for Ear {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if is_warning(level) && facility != FOREIGN_OPTION {
            tracing::warn!("the group of the nodes: librdkafka: {facility} {message}");
        } else {
            tracing::debug!("the group of the nodes: librdkafka: {facility} {message}");
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("the group of the nodes: {}: {reason}", explained(&error));
    }
}

impl ConsumerContext for Ear {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let numbers = partitions.elements();
        let numbers = numbers.iter().map(|element| element.partition());
        let numbers = numbers.filter_map(|number| u16::try_from(number).ok());
        let shards: Vec<u16> = numbers.filter(|shard| *shard < self.shards).collect();
        let done = match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                self.processes.take(&shards);
                // Nothing is read of them.
                let accepted = accept(consumer, partitions, Offset::End);
                accepted.and_then(|()| consumer.pause(partitions))
            }
            _ => {
                self.processes.give_up(&shards);
                release(consumer, partitions)
            }
        };
        if let Err(error) = done {
            let why = explained(&error);
            tracing::warn!(why, "a change of the group of the nodes failed");
        }
    }
}
