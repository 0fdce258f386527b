//! The client of a cluster: its configuration, and what librdkafka tells it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::consumer::base_consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::statistics::Statistics;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::flow::Flow;
use crate::config::kafka::{Kafka, Setting};
use crate::librdkafka::{accept, explained, is_warning, release, take, value_of};

/// KiB of records that wait to be read, of each partition.
pub(super) const QUEUE_KIB: u32 = 2 << 10;
/// Time that batches under way have when their partition is given away. What is acknowledged later
/// is stored all the same; the next reader of the partition begins behind what is stored then.
const REVOKE_WITHIN: Duration = Duration::from_secs(5);

/// Defaults that differ from those of librdkafka; options may change them.
const DEFAULTS: [(&str, &str); 4] = [
    // A member that was killed is not waited for three quarters of a minute.
    ("session.timeout.ms", "10000"),
    ("partition.assignment.strategy", "cooperative-sticky"),
    ("fetch.wait.max.ms", "100"),
    // Queues are short, and often full: a partition whose queue was full when its turn came is not
    // fetched for this time, by default for a second.
    ("fetch.queue.backoff.ms", "10"),
];
/// Values that the invariants of this source need.
const FIXED: [(&str, &str); 7] = [
    ("client.id", "logmill"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_committed"),
    ("check.crcs", "true"),
    ("statistics.interval.ms", "2000"),
];

/// Checks the options that are no secrets.
///
/// # Errors
/// The message of librdkafka about an option.
pub(super) fn check(kafka: &Kafka) -> Result<(), String> {
    let plain = kafka.options.iter().filter_map(|(name, setting)| {
        let value = match setting {
            Setting::Value(value) => value.clone(),
            Setting::File(_) | Setting::Variable(_) => return None,
        };
        Some((name.to_owned(), value))
    });
    let mut client = base();
    client.extend(plain);
    take(&client)
}

/// Returns the client of a source, with its secrets.
///
/// # Errors
/// If a secret cannot be read, or librdkafka does not take an option.
pub(super) fn of(name: &str, kafka: &Kafka) -> Result<ClientConfig, String> {
    let mut client = base();
    for (option, setting) in kafka.options.iter() {
        client.set(option, value_of(option, setting)?);
    }
    client.set("bootstrap.servers", kafka.brokers.join(","));
    client.set("group.id", kafka.group_of(name));
    take(&client)?;
    Ok(client)
}

fn base() -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set_log_level(RDKafkaLogLevel::Warning);
    client.set("queued.max.messages.kbytes", QUEUE_KIB.to_string());
    for (option, value) in DEFAULTS.into_iter().chain(FIXED) {
        client.set(option, value);
    }
    client
}

/// A change of the partitions that a session reads.
#[derive(Debug)]
pub(super) enum Reassignment {
    Assigned(Vec<(String, i32)>),
    Revoked(Vec<(String, i32)>),
}

/// The ear of a session for librdkafka.
#[derive(Debug)]
pub(super) struct Context {
    /// The source, for messages.
    name: String,
    pub(super) flow: Arc<Flow>,
    changes: Mutex<Vec<Reassignment>>,
    /// Ends of partitions by topic and number, by the last statistics.
    ends: Mutex<HashMap<(String, i32), u64>>,
}

impl Context {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            flow: Arc::default(),
            changes: Mutex::default(),
            ends: Mutex::default(),
        }
    }

    /// Takes the changes since the last call, in order.
    pub(super) fn changes(&self) -> Vec<Reassignment> {
        std::mem::take(&mut self.changes.lock())
    }

    /// Returns the end of a partition: behind the last record that may be read.
    pub(super) fn end_of(&self, topic: &str, partition: i32) -> Option<u64> {
        let ends = self.ends.lock();
        ends.get(&(topic.to_owned(), partition)).copied()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if is_warning(level) {
            tracing::warn!("kafka.{}: librdkafka: {facility} {message}", self.name);
        } else {
            tracing::debug!("kafka.{}: librdkafka: {facility} {message}", self.name);
        }
    }

    fn stats(&self, statistics: Statistics) {
        let mut ends = self.ends.lock();
        for (topic, of_topic) in statistics.topics {
            for (partition, of_partition) in of_topic.partitions {
                // The last stable offset is before the records of open transactions.
                let end = match of_partition.ls_offset {
                    unknown if unknown < 0 => of_partition.hi_offset,
                    stable => stable,
                };
                if let Ok(end) = u64::try_from(end) {
                    ends.insert((topic.clone(), partition), end);
                }
            }
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!("kafka.{}: {}: {reason}", self.name, explained(&error));
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        what: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let elements = partitions.elements();
        let named = elements
            .iter()
            .map(|e| (e.topic().to_owned(), e.partition()));
        let named: Vec<_> = named.collect();
        drop(elements);
        let done = if what == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.changes.lock().push(Reassignment::Assigned(named));
            // From their beginnings: the session finds its position and seeks it, once their queues
            // are its own. A record that comes in spite of the seek is then an earlier one, which
            // is left out. From the end it would be a later one, and all before it would be lost:
            // a real broker's answer about the end arrived behind the seek.
            accept(consumer, partitions, Offset::Beginning)
        } else {
            self.changes.lock().push(Reassignment::Revoked(named));
            self.flow.wait_empty(REVOKE_WITHIN);
            release(consumer, partitions)
        };
        if let Err(error) = done {
            let why = explained(&error);
            tracing::warn!("kafka.{}: a change of partitions failed: {why}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kafka(options: &str) -> Kafka {
        let text = format!(
            "brokers = [\"b:9092\"]\ntopics = [\"t\"]\nstream = \"s\"\n[options]\n{options}"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn options_are_checked_by_librdkafka_and_no_error_has_a_secret() {
        assert_eq!(check(&kafka("\"socket.timeout.ms\" = 9000")), Ok(()));
        let wrong = check(&kafka("\"socket.timeout\" = 9000")).unwrap_err();
        assert!(wrong.starts_with("socket.timeout: "), "{wrong}");
        let wrong = check(&kafka("\"fetch.wait.max.ms\" = \"soon\"")).unwrap_err();
        assert!(wrong.starts_with("fetch.wait.max.ms: "), "{wrong}");
        // Not an option that takes a value here, and so refused with it.
        let error = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value geheim".to_owned(),
            "ssl.key.password".to_owned(),
            "geheim".to_owned(),
        );
        assert!(!explained(&error).contains("geheim"));
    }

    #[test]
    fn secrets_come_from_files_and_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "geheim\n").unwrap();
        let option = format!("\"sasl.password\" = {{ file = {file:?} }}");
        let client = of("web", &kafka(&option)).unwrap();
        assert_eq!(client.get("sasl.password"), Some("geheim"));
        assert_eq!(client.get("group.id"), Some("logmill-web"));
        assert_eq!(client.get("auto.offset.reset"), Some("error"));

        std::fs::remove_file(&file).unwrap();
        let why = of("web", &kafka(&option)).unwrap_err();
        assert!(
            why.contains("sasl.password") && why.contains("No such file"),
            "{why}"
        );
        let why = of(
            "web",
            &kafka("\"sasl.password\" = { env = \"LM_NO_SUCH\" }"),
        )
        .unwrap_err();
        assert!(why.contains("LM_NO_SUCH"), "{why}");
    }
}
