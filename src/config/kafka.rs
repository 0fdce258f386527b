//! The sections `[kafka.NAME]`: topics that a server reads.

mod options;

use std::str::FromStr;

use chrono::DateTime;
use serde::{Deserialize, Deserializer};
use storage::Name;

use super::{Config, StreamFormat, StreamValue};
use crate::units::Bytes;
pub(in crate::config) use options::OwnOption;
pub(crate) use options::{KafkaOptions, Setting, is_secret};

/// Maximum length of a topic's name, in Kafka itself.
pub(super) const TOPIC_BYTES_MAX: usize = 249;

/// Options that decide what is stored, with the reason why they cannot be set.
const OWN: [OwnOption; 13] = [
    ("bootstrap.servers", "write brokers instead"),
    ("metadata.broker.list", "write brokers instead"),
    ("group.id", "write group instead"),
    ("client.id", "it is \"logmill\""),
    ("enable.auto.commit", "positions are kept in the store"),
    (
        "enable.auto.offset.store",
        "positions are kept in the store",
    ),
    ("auto.offset.reset", "write start and when_gone instead"),
    ("isolation.level", "aborted records are never stored"),
    ("check.crcs", "damaged records are never stored"),
    ("statistics.interval.ms", "the lag is measured with it"),
    ("log.queue", "the log of the server has its messages"),
    ("enable.partition.eof", "it changes nothing"),
    ("plugin.library.paths", "the server loads no other code"),
];

/// `[kafka.NAME]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kafka {
    /// Some brokers of the cluster, each as `HOST:PORT`.
    pub(crate) brokers: Vec<String>,
    pub(crate) topics: Vec<String>,
    /// The consumer group; without it `logmill-NAME`. It belongs to one store.
    pub(crate) group: Option<String>,
    /// The stream of the records.
    pub(crate) stream: String,
    /// The format of the records; without it that of the stream.
    pub(crate) format: Option<StreamFormat>,
    /// The first record of a partition that the store has no position of.
    #[serde(default)]
    pub(crate) start: Start,
    /// The answer to records that are gone, or a topic that was created anew.
    #[serde(default)]
    pub(crate) when_gone: WhenGone,
    /// Maximum bytes of records that are read and not acknowledged by the store.
    #[serde(default = "bytes_max_default")]
    pub(crate) bytes_max: Bytes,
    /// KafkaOptions of librdkafka.
    #[serde(default)]
    pub(crate) options: KafkaOptions,
}

/// The first record that is read of a new partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Start {
    /// The oldest record that there is.
    #[default]
    Earliest,
    /// The first one behind those that exist when the partition is first read.
    Latest,
    /// The first one with this timestamp or a later one, in milliseconds since 1970.
    Time(i64),
}

/// The answer to records that are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhenGone {
    /// The partition stops until an operator decides.
    #[default]
    Stop,
    /// The partition is read anew from its oldest record.
    Restart,
}

fn bytes_max_default() -> Bytes {
    Bytes(32 << 20)
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            time => match DateTime::parse_from_rfc3339(time) {
                Ok(time) => Ok(Self::Time(time.timestamp_millis())),
                Err(_) => Err(format!(
                    "{text:?} is no start: write \"earliest\", \"latest\" or a time such as \"2026-10-10T00:00:00Z\""
                )),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Config {
    pub(super) fn kafka_problems(&self, problems: &mut Vec<String>) {
        for (name, source) in &self.kafka {
            let mut add = |key: &str, why: String| {
                problems.push(format!("[kafka.{name}] {key}: {why}"));
            };
            if cfg!(not(feature = "kafka")) {
                add("brokers", "this program was built without Kafka; build it with `--features kafka`, or remove the section".into());
            }
            if let Err(why) = Name::new(name) {
                add("brokers", format!("the name of the source: {why}"));
            }
            for (key, why) in source.problems() {
                add(key, why);
            }
            if let Some(StreamValue(Ok(format))) = &source.format {
                let (selection, anonymiser) = (
                    self.selection(&source.stream),
                    self.anonymiser(&source.stream),
                );
                if let Err(why) = format.check(&selection, &anonymiser) {
                    add("format", why.to_string());
                }
            }
        }
    }
}

impl Kafka {
    /// Returns the consumer group.
    pub(crate) fn group_of(&self, name: &str) -> String {
        self.group
            .clone()
            .unwrap_or_else(|| format!("logmill-{name}"))
    }

    /// Returns what is wrong, each with its key.
    fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.brokers.is_empty() {
            problems.push(("brokers", "name at least one broker".to_owned()));
        }
        if let Some(wrong) = self.brokers.iter().find(|broker| !is_broker(broker)) {
            let why = format!("{wrong:?} is no broker; write HOST:PORT, as in \"kafka1:9092\"");
            problems.push(("brokers", why));
        }
        if self.topics.is_empty() {
            problems.push(("topics", "name at least one topic".to_owned()));
        }
        if let Some(wrong) = self.topics.iter().find(|topic| !is_topic(topic)) {
            let why = format!(
                "{wrong:?} is no topic: 1 to {TOPIC_BYTES_MAX} of a-z, A-Z, 0-9, '.', '_' and '-'; patterns are not supported"
            );
            problems.push(("topics", why));
        }
        let mut topics = self.topics.clone();
        topics.sort_unstable();
        if let Some(twice) = topics.windows(2).find(|pair| pair[0] == pair[1]) {
            problems.push(("topics", format!("{:?} is named twice", twice[0])));
        }
        if self.group.as_ref().is_some_and(String::is_empty) {
            problems.push((
                "group",
                "an empty name; leave it out or name a group".into(),
            ));
        }
        match Name::new(&self.stream) {
            Err(why) => problems.push(("stream", why.to_string())),
            Ok(name) if name.as_str() == storage::QUARANTINE => {
                let why = "the quarantine is written by the store itself; name another stream";
                problems.push(("stream", why.to_owned()));
            }
            Ok(_) => {}
        }
        if let Some(StreamValue(Err(why))) = &self.format {
            problems.push(("format", why.clone()));
        }
        if self.bytes_max.0 == 0 {
            problems.push(("bytes_max", "0 would read nothing".into()));
        }
        problems.extend(self.options.problems(&OWN).map(|why| ("options", why)));
        problems
    }
}

/// Returns whether a text is `HOST:PORT`.
pub(super) fn is_broker(broker: &str) -> bool {
    broker.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

/// Returns whether Kafka takes a text as the name of a topic.
pub(super) fn is_topic(topic: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=TOPIC_BYTES_MAX).contains(&topic.len())
        && topic.bytes().all(fits)
        && !matches!(topic, "." | "..")
}

#[cfg(all(test, feature = "kafka"))]
mod tests;
