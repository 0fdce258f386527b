//! The part that all clients of Kafka share: values of options, and errors of librdkafka without
//! the secrets in them.

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::base_consumer::BaseConsumer;
use rdkafka::consumer::{Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::config::kafka::{Setting, is_secret};

/// Returns the value of an option; a secret is read from its place.
///
/// # Errors
/// If that place cannot be read.
pub(crate) fn value_of(option: &str, setting: &Setting) -> Result<String, String> {
    match setting {
        Setting::Value(value) => Ok(value.clone()),
        Setting::File(path) => match std::fs::read_to_string(path) {
            Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => Err(format!("{option}: {}: {error}", path.display())),
        },
        Setting::Variable(name) => std::env::var(name)
            .map_err(|_| format!("{option}: the environment has no variable {name}; set it")),
    }
}

/// Checks whether librdkafka takes the options.
///
/// # Errors
/// Its message about the first that it does not take.
pub(crate) fn take(client: &ClientConfig) -> Result<(), String> {
    let taken = client.create_native_config();
    taken.map(drop).map_err(|error| explained(&error))
}

/// Formats an error of librdkafka. Its own message has the value of a wrong option, which may be a
/// secret.
pub(crate) fn explained(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, why, option, _) if !is_secret(option) => {
            let hint = match option.as_str() {
                "security.protocol" | "sasl.mechanism" | "sasl.mechanisms" => {
                    "; a program with TLS is built with `--features kafka-tls`"
                }
                _ => "",
            };
            format!("{option}: {why}{hint}")
        }
        KafkaError::ClientConfig(_, _, option, _) => {
            format!("{option}: librdkafka does not take the value")
        }
        other => match other.rdkafka_error_code() {
            Some(code) => code.to_string(),
            None => other.to_string(),
        },
    }
}

/// Facility of complaints about options of other clients: where several clients are given the same.
pub(crate) const FOREIGN_OPTION: &str = "CONFWARN";

/// Returns whether a message of librdkafka is a warning for the log.
pub(crate) fn is_warning(level: RDKafkaLogLevel) -> bool {
    matches!(
        level,
        RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning
    )
}

/// Accepts partitions that a group assigns, from an offset on.
///
/// # Errors
/// If librdkafka does not take them.
pub(crate) fn accept<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &mut TopicPartitionList,
    from: Offset,
) -> KafkaResult<()> {
    partitions.set_all_offsets(from)?;
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_assign(partitions),
        _ => consumer.assign(partitions),
    }
}

/// Gives partitions back that a group takes away.
///
/// # Errors
/// If librdkafka does not take them back.
pub(crate) fn release<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
        _ => consumer.unassign(),
    }
}
