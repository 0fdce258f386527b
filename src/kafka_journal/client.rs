//! The options of the clients.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::config::Cluster;
use crate::config::kafka::Setting;
use crate::librdkafka::{take, value_of};

/// Defaults that differ from those of librdkafka; options may change them.
const DEFAULTS: [(&str, &str); 1] = [
    // Batches wait for a broker that comes back.
    ("reconnect.backoff.max.ms", "1000"),
];
const DEFAULTS_OF_PRODUCER: [(&str, &str); 4] = [
    ("compression.type", "lz4"),
    // The store has gathered what it appends.
    ("linger.ms", "0"),
    // Until then a batch is not answered, if the brokers are away.
    ("message.timeout.ms", "10000"),
    ("queue.buffering.max.kbytes", "65536"),
];
const DEFAULTS_OF_CONSUMER: [(&str, &str); 5] = [
    ("fetch.wait.max.ms", "100"),
    ("fetch.min.bytes", "1"),
    ("fetch.message.max.bytes", "4194304"),
    ("queued.max.messages.kbytes", "16384"),
    // A replay finds the queue full often; by default it would wait for a second then.
    ("fetch.queue.backoff.ms", "10"),
];
/// Values that the invariants of the journal need.
const FIXED: [(&str, &str); 2] = [
    ("client.id", "logmill"),
    ("allow.auto.create.topics", "false"),
];
const FIXED_OF_PRODUCER: [(&str, &str); 3] = [
    ("acks", "all"),
    ("enable.idempotence", "false"),
    ("max.in.flight", "1"),
];
const FIXED_OF_CONSUMER: [(&str, &str); 6] = [
    // Assigned partitions need a name of a group, which nobody joins.
    ("group.id", "logmill-journal"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("auto.offset.reset", "error"),
    ("isolation.level", "read_uncommitted"),
    ("check.crcs", "true"),
];
/// Second names of options that have a default here: an option would stand beside it.
const ALIASES: [(&str, &str); 4] = [
    ("compression.codec", "compression.type"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("max.partition.fetch.bytes", "fetch.message.max.bytes"),
];
/// Bounds of librdkafka for `message.max.bytes`.
const MESSAGE_BYTES: (usize, usize) = (1000, 1_000_000_000);

/// Configurations of the clients of a journal.
#[derive(Debug)]
pub(super) struct JournalClients {
    /// Of a client that only asks.
    pub(super) common: ClientConfig,
    pub(super) consumer: ClientConfig,
    producer: ClientConfig,
}

impl JournalClients {
    /// Returns the producer's configuration for a topic that takes batches of so many bytes.
    pub(super) fn producer_of(&self, batch_bytes_max: usize) -> ClientConfig {
        let (least, most) = MESSAGE_BYTES;
        let mut producer = self.producer.clone();
        let bytes = batch_bytes_max.clamp(least, most);
        producer.set("message.max.bytes", bytes.to_string());
        producer
    }
}

/// Checks the options that are no secrets.
///
/// # Errors
/// The message of librdkafka about an option.
pub(crate) fn check(cluster: &Cluster) -> Result<(), String> {
    let value = |_: &str, setting: &Setting| match setting {
        Setting::Value(value) => Ok(Some(value.clone())),
        Setting::File(_) | Setting::Variable(_) => Ok(None),
    };
    with(cluster, value).map(drop)
}

/// Returns the options that all clients of a section have, with their secrets.
///
/// # Errors
/// If a secret cannot be read, or librdkafka does not take an option.
pub(crate) fn common(cluster: &Cluster) -> Result<ClientConfig, String> {
    of(cluster).map(|clients| clients.common)
}

/// Returns the clients of a section, with their secrets.
///
/// # Errors
/// If a secret cannot be read, or librdkafka does not take an option.
pub(super) fn of(cluster: &Cluster) -> Result<JournalClients, String> {
    with(cluster, |option, setting| {
        value_of(option, setting).map(Some)
    })
}

fn with(
    cluster: &Cluster,
    value: impl Fn(&str, &Setting) -> Result<Option<String>, String>,
) -> Result<JournalClients, String> {
    let mut clients = JournalClients {
        common: base(cluster, &[], &[]),
        consumer: base(cluster, &DEFAULTS_OF_CONSUMER, &FIXED_OF_CONSUMER),
        producer: base(cluster, &DEFAULTS_OF_PRODUCER, &FIXED_OF_PRODUCER),
    };
    let JournalClients {
        common,
        consumer,
        producer,
    } = &mut clients;
    for (option, setting) in cluster.kafka_options.iter() {
        let Some(value) = value(option, setting)? else {
            continue;
        };
        if ["message.timeout.ms", "delivery.timeout.ms"].contains(&option) && value == "0" {
            return Err(format!(
                "{option}: a batch would wait for ever; write the milliseconds after which it fails"
            ));
        }
        let alias = ALIASES.iter().find(|(alias, _)| *alias == option);
        for client in [&mut *common, consumer, producer] {
            if let Some((_, default)) = alias {
                client.remove(default);
            }
            client.set(option, &value);
        }
    }
    for client in [common, consumer, producer] {
        if client.get("debug").is_some() {
            client.set_log_level(RDKafkaLogLevel::Debug);
        }
        take(client)?;
    }
    Ok(clients)
}

fn base(cluster: &Cluster, defaults: &[(&str, &str)], fixed: &[(&str, &str)]) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set_log_level(RDKafkaLogLevel::Warning);
    for (option, value) in DEFAULTS.iter().chain(&FIXED).chain(defaults).chain(fixed) {
        client.set(*option, *value);
    }
    if let Some(brokers) = &cluster.kafka {
        client.set("bootstrap.servers", brokers);
    }
    client
}
