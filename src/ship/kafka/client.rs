//! The clients of a cluster: their options.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use crate::librdkafka::explained;
use crate::ship::KafkaTarget;

/// Defaults that differ from those of librdkafka; options may change them.
const DEFAULTS: [(&str, &str); 6] = [
    ("client.id", "logmill-ship"),
    ("compression.type", "lz4"),
    // A batch is sent as a whole: nothing comes that would be worth a longer wait.
    ("linger.ms", "1"),
    // Of one batch, and its records.
    ("queue.buffering.max.kbytes", "32768"),
    ("queue.buffering.max.messages", "50000"),
    // The longest line, with its headers.
    ("message.max.bytes", "16842752"),
];

/// Options that decide whether a line comes once, with the reason why they cannot be set.
const OWN: [(&str, &str); 16] = [
    ("bootstrap.servers", "write --kafka instead"),
    ("metadata.broker.list", "write --kafka instead"),
    ("transactional.id", "write --site instead"),
    ("enable.idempotence", ONCE),
    ("acks", ONCE),
    ("request.required.acks", ONCE),
    ("max.in.flight", ONCE),
    ("max.in.flight.requests.per.connection", ONCE),
    ("isolation.level", ONCE),
    ("group.id", "a shipper is in no group"),
    ("enable.auto.commit", "a shipper is in no group"),
    ("enable.auto.offset.store", "a shipper is in no group"),
    ("auto.offset.reset", "positions are read from the beginning"),
    ("log.queue", "the log of the shipper has its messages"),
    ("enable.partition.eof", "it changes nothing"),
    ("plugin.library.paths", "the shipper loads no other code"),
];
const ONCE: &str = "each line comes into the topic once, acknowledged by all replicas in sync";

/// Returns what the producer and the consumer of a target have in common.
///
/// # Errors
/// If an option cannot be set, or librdkafka does not take it. No message has a value in it, which
/// may be a secret.
pub(super) fn of(target: &KafkaTarget) -> Result<ClientConfig, String> {
    let mut client = ClientConfig::new();
    client.set_log_level(RDKafkaLogLevel::Warning);
    for (option, value) in DEFAULTS {
        client.set(option, value);
    }
    for (number, line) in (1..).zip(target.options.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("--kafka-options: line {number}");
        let Some((option, value)) = line.split_once('=') else {
            return Err(format!(
                "{place} has no '='; write an option of librdkafka as NAME=VALUE"
            ));
        };
        let (option, value) = (option.trim(), value.trim());
        if let Some((_, why)) = OWN.iter().find(|(own, _)| *own == option) {
            return Err(format!("{place}: {option} cannot be set: {why}"));
        }
        client.set(option, value);
        taken(&client).map_err(|why| format!("{place}: {why}"))?;
    }
    client.set("bootstrap.servers", &target.brokers);
    Ok(client)
}

/// Returns the options of the producer. The transactional id implies idempotence and `acks=all`.
pub(super) fn of_producer(common: &ClientConfig, target: &KafkaTarget) -> ClientConfig {
    let mut client = common.clone();
    // No topic's name has a colon, so no two pairs have one id.
    let id = format!("logmill-ship:{}:{}", target.topic, target.shipper);
    client.set("transactional.id", id);
    client
}

/// Returns the options of the consumer of the positions.
pub(super) fn of_consumer(common: &ClientConfig) -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set_log_level(RDKafkaLogLevel::Error);
    for (option, value) in common.config_map() {
        // librdkafka would complain about options of producers.
        let is_own = DEFAULTS[1..].iter().any(|(own, _)| *own == option);
        if !is_own {
            client.set(option, value);
        }
    }
    client.set("isolation.level", "read_committed");
    // Assigned partitions need a name of a group, which nobody joins.
    client.set("group.id", "logmill-ship");
    client.set("auto.offset.reset", "error");
    client.set("enable.auto.commit", "false");
    client.set("check.crcs", "true");
    client
}

fn taken(client: &ClientConfig) -> Result<(), String> {
    let taken = client.create_native_config();
    taken.map(drop).map_err(|error| explained(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(options: &str) -> KafkaTarget {
        KafkaTarget {
            brokers: "b:9092".to_owned(),
            topic: "logs".to_owned(),
            positions: "logs.positions".to_owned(),
            shipper: "web1".to_owned(),
            options: options.to_owned(),
        }
    }

    #[test]
    fn options_are_checked_and_no_error_has_a_secret() {
        let text = "# of the cluster\n\nsocket.timeout.ms = 9000\ncompression.type=zstd\n";
        let common = of(&target(text)).expect("options");
        let producer = of_producer(&common, &target(text));
        assert_eq!(producer.get("socket.timeout.ms"), Some("9000"));
        assert_eq!(producer.get("compression.type"), Some("zstd"));
        assert_eq!(
            producer.get("transactional.id"),
            Some("logmill-ship:logs:web1")
        );
        assert_eq!(of_consumer(&common).get("compression.type"), None);
        for (options, expected) in [
            ("acks=1", "line 1: acks cannot be set: each line"),
            ("\ntransactional.id=x", "line 2: transactional.id cannot"),
            ("sasl.password geheim", "line 1 has no '='"),
            ("socket.timeout=geheim", "line 1: socket.timeout: "),
            ("ssl.key.passwort=geheim", "line 1: ssl.key.passwort: "),
        ] {
            let why = of(&target(options)).expect_err(options);
            assert!(why.contains(expected), "{why}");
            assert!(!why.contains("geheim"), "{why}");
        }
    }
}
