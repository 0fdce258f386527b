//! The section `[cluster]`.

mod node;
mod own_shard;

use std::path::PathBuf;

use query::SHARDS_MAX;
use serde::{Deserialize, Serialize};

use super::host::Authority;
use super::kafka::{KafkaOptions, OwnOption, TOPIC_BYTES_MAX, is_broker, is_topic};

/// The first key of the section: an error about another key lists the known ones in their order.
pub(super) const FIRST_KEY: &str = "peers";

/// Options of librdkafka that decide what is in the journal, or comes from elsewhere, with the
/// reason why they cannot be set.
const OWN: [OwnOption; 27] = [
    ("bootstrap.servers", "write kafka of [cluster] instead"),
    ("metadata.broker.list", "write kafka of [cluster] instead"),
    ("client.id", "it is \"logmill\""),
    ("acks", ACKNOWLEDGED),
    ("request.required.acks", ACKNOWLEDGED),
    ("enable.idempotence", IN_ORDER),
    ("enable.gapless.guarantee", IN_ORDER),
    ("max.in.flight", IN_ORDER),
    ("max.in.flight.requests.per.connection", IN_ORDER),
    ("transactional.id", "the journal has no transactions"),
    ("isolation.level", "the journal has no transactions"),
    ("message.max.bytes", "the topic tells it: max.message.bytes"),
    ("group.id", NO_GROUP),
    ("group.instance.id", NO_GROUP),
    ("group.protocol", NO_GROUP),
    ("enable.auto.commit", NO_GROUP),
    ("auto.commit.enable", NO_GROUP),
    ("enable.auto.offset.store", NO_GROUP),
    (
        "auto.offset.reset",
        "what is gone from the journal is an error",
    ),
    ("check.crcs", "damaged messages are never taken"),
    ("allow.auto.create.topics", "an operator creates the topic"),
    (
        "client.rack",
        "the journal is read from the leader of its partition",
    ),
    ("statistics.interval.ms", "nobody reads the statistics"),
    ("log.queue", "the log of the server has its messages"),
    ("enable.partition.eof", "it changes nothing"),
    ("test.mock.num.brokers", "the journal is in a real cluster"),
    ("plugin.library.paths", "the server loads no other code"),
];
const ACKNOWLEDGED: &str = "a batch is acknowledged when all replicas in sync have it";
const IN_ORDER: &str = "messages stay in order, and the journal knows those that come twice";
const NO_GROUP: &str = "the journal is read without a group";

/// `[cluster]`
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cluster {
    /// URLs of the servers whose stores take part in the questions of this one:
    /// `http://host:7070`.
    pub(crate) peers: Vec<String>,
    /// A file with the token that every peer gets, or with lines of a URL and its token.
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates in PEM that https peers are trusted by, instead of the public authorities.
    pub(crate) ca_file: Option<PathBuf>,
    /// Number of the shards of the cluster, for ever; 0: the server is in none.
    pub(crate) shards: u16,
    /// The shard of this server, from 0.
    #[serde(with = "own_shard")]
    pub(crate) shard: Option<u16>,
    /// The consumer group of the nodes: a server with it is a node, and runs a server for each
    /// shard that the group assigns to it.
    pub(crate) group: Option<String>,
    /// The host name or address at which other nodes reach the shards of this one; by default that
    /// of `server.http`.
    pub(crate) address: Option<String>,
    /// The port of the first shard on each node. That of shard N is N higher.
    pub(crate) shard_ports: u16,
    /// URL at which others reach the server of a node's shard; set by `serve` alone.
    #[serde(skip)]
    pub(crate) url: Option<String>,
    /// The directory of the node whose shard the server has; set by `serve` alone.
    #[serde(skip)]
    pub(crate) node: Option<PathBuf>,
    /// Some brokers of a Kafka cluster, `HOST:PORT,HOST:PORT`: the journal is in it, in place of
    /// the data directory.
    pub(crate) kafka: Option<String>,
    /// The topic of the journal, which belongs to one store.
    pub(crate) kafka_topic: String,
    /// Number of the partition of that topic.
    pub(crate) kafka_partition: u32,
    /// The topic's `min.insync.replicas`, where the brokers do not tell it; 0: unknown.
    pub(crate) kafka_min_insync_replicas: u32,
    /// Brokers sync each message before they acknowledge it, as with `flush.messages=1`; used where
    /// they do not tell.
    pub(crate) kafka_syncs: bool,
    /// Options of librdkafka for the journal.
    pub(crate) kafka_options: KafkaOptions,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            peers: Vec::new(),
            token_file: None,
            ca_file: None,
            shards: 0,
            shard: None,
            group: None,
            address: None,
            shard_ports: 7100,
            url: None,
            node: None,
            kafka: None,
            kafka_topic: "logmill.journal".to_owned(),
            kafka_partition: 0,
            kafka_min_insync_replicas: 0,
            kafka_syncs: false,
            kafka_options: KafkaOptions::default(),
        }
    }
}

impl Cluster {
    /// Replaces the peers by those of the command line.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub(crate) fn name_peers(&mut self, peers: Vec<String>) -> Result<(), String> {
        self.peers = peers;
        self.wrong_peers().next().map_or(Ok(()), Err)
    }

    /// Adds what is wrong; `has_objects` if sealed files are kept in an object store.
    pub(super) fn problems(&self, has_objects: bool, problems: &mut Vec<String>) {
        let wrong = self.wrong_peers();
        problems.extend(wrong.map(|why| format!("[cluster] peers: {why}")));
        let wrong = self.wrong_shards();
        problems.extend(wrong.map(|(key, why)| format!("[cluster] {key}: {why}")));
        let wrong = self.wrong_journal(has_objects).into_iter();
        problems.extend(wrong.map(|(key, why)| format!("[cluster] {key}: {why}")));
        // Secrets are refused even where nothing uses them: `config show` shows the options.
        let wrong = self.kafka_options.problems(&OWN);
        problems.extend(wrong.map(|why| format!("[cluster] kafka_options: {why}")));
    }

    /// Returns the partition of the journal's topic: the number of the shard in a cluster. A node
    /// looks at the last one, without which the topic has too few.
    pub(crate) fn partition(&self) -> u32 {
        match self.shard {
            Some(shard) => shard.into(),
            None if self.is_node() => u32::from(self.shards) - 1,
            None => self.kafka_partition,
        }
    }

    /// Returns the first thing that is wrong with the shards, with its key.
    fn wrong_shards(&self) -> impl Iterator<Item = (&'static str, String)> {
        let wrong = match (self.shards, self.shard) {
            _ if self.group.is_some() => self.wrong_node(),
            (0, None) => None,
            (0, Some(shard)) => Some((
                "shard",
                format!("{shard} needs the number of all shards; set shards"),
            )),
            (shards, _) if !(2..=SHARDS_MAX).contains(&shards) => {
                let why = format!("{shards}: write a number from 2 to {SHARDS_MAX}");
                Some(("shards", why))
            }
            (shards, None) => Some((
                "shards",
                format!(
                    "set shard, too: the number of this server's own, from 0 to {}",
                    shards - 1
                ),
            )),
            (shards, Some(shard)) if shard >= shards => Some((
                "shard",
                format!(
                    "{shard} is none of {shards} shards: write a number from 0 to {}",
                    shards - 1
                ),
            )),
            (shards, _) if self.peers.len() + 1 < usize::from(shards) => {
                let (others, named) = (shards - 1, self.peers.len());
                let why =
                    format!("{named} are named; name the servers of the {others} other shards");
                Some(("peers", why))
            }
            _ if self.kafka_partition != 0 => Some((
                "kafka_partition",
                "a shard has the partition of its own number; leave it out".to_owned(),
            )),
            _ => None,
        };
        wrong.into_iter()
    }

    /// Returns what is wrong with the journal in Kafka, each with its key.
    fn wrong_journal(&self, has_objects: bool) -> Vec<(&'static str, String)> {
        let mut wrong = Vec::new();
        let Some(brokers) = &self.kafka else {
            return wrong;
        };
        if cfg!(not(feature = "kafka")) {
            wrong.push(("kafka", "this program was built without Kafka; build it with `--features kafka`, or remove the key".to_owned()));
        }
        if let Some(broker) = brokers.split(',').find(|broker| !is_broker(broker.trim())) {
            let why = format!(
                "{broker:?} is no broker; write HOST:PORT,HOST:PORT, as in \"kafka1:9092,kafka2:9092\""
            );
            wrong.push(("kafka", why));
        }
        if !has_objects {
            let why = "a journal in Kafka needs the sealed files in an object store; set objects of [storage]";
            wrong.push(("kafka", why.to_owned()));
        }
        if !is_topic(&self.kafka_topic) {
            let why = format!(
                "{:?} is no topic: 1 to {TOPIC_BYTES_MAX} of a-z, A-Z, 0-9, '.', '_' and '-'",
                self.kafka_topic
            );
            wrong.push(("kafka_topic", why));
        }
        if i32::try_from(self.kafka_partition).is_err() {
            let why = format!("{} is no number of a partition", self.kafka_partition);
            wrong.push(("kafka_partition", why));
        }
        wrong
    }

    fn wrong_peers(&self) -> impl Iterator<Item = String> {
        let bare = |url: &String| url.trim_end_matches('/').to_ascii_lowercase();
        self.peers.iter().enumerate().filter_map(move |(at, url)| {
            let is_again = self.peers[..at]
                .iter()
                .any(|other| bare(other) == bare(url));
            match check_peer(url) {
                Err(why) => Some(why),
                Ok(()) if is_again => Some(format!("{url} is named twice; name it once")),
                Ok(()) => None,
            }
        })
    }
}

fn check_peer(url: &str) -> Result<(), String> {
    // Before any message that has the URL in it.
    if url.contains('@') {
        return Err(
            "leave user and password out of the URL of a peer; write a token into a file, and its name into token_file of [cluster]"
                .into(),
        );
    }
    let host = url.strip_prefix("http://");
    let host = host.or_else(|| url.strip_prefix("https://"));
    let host = host.map(|host| host.strip_suffix('/').unwrap_or(host));
    match host.and_then(Authority::parse) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{url:?} is not the URL of a server: write it as http://host:7070 or https://host:7070"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(peers: &[&str]) -> Vec<String> {
        let peers = peers.iter().map(|url| (*url).to_owned()).collect();
        let cluster = Cluster {
            peers,
            ..Cluster::default()
        };
        cluster.wrong_peers().collect()
    }

    #[test]
    fn a_peer_is_the_url_of_a_server_and_is_named_once() {
        let good = ["http://a:7070", "https://b.example.org/", "http://[::1]:1"];
        assert_eq!(wrong(&good), Vec::<String>::new());
        for url in [
            "",
            "a:7070",
            "ftp://a",
            "http://",
            "http://a/b",
            "http://a:x",
        ] {
            let told = wrong(&[url]).concat();
            assert!(told.contains("write it as http://"), "{url}: {told}");
        }
        let told = wrong(&["http://a:1", "http://A:1/"]).concat();
        assert!(told.contains("named twice"), "{told}");
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let told = wrong(&["http://ann:secret@a:7070"]).concat();
        assert!(told.contains("token_file"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    fn wrong_journal(text: &str, has_objects: bool) -> Vec<String> {
        let cluster: Cluster = toml::from_str(text).expect("a section");
        let mut problems = Vec::new();
        cluster.problems(has_objects, &mut problems);
        problems
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn a_journal_in_kafka_needs_brokers_a_topic_and_an_object_store() {
        let good = "kafka = \"k1:9092, k2:9092\"\nkafka_topic = \"a.b\"\n";
        assert_eq!(wrong_journal(good, true), Vec::<String>::new());
        let told = wrong_journal(good, false);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("set objects of [storage]"), "{told:?}");
        for (text, key, right) in [
            ("kafka = \"\"", "kafka", "write HOST:PORT"),
            ("kafka = \"k1\"", "kafka", "write HOST:PORT"),
            ("kafka = \"k1:9092,,\"", "kafka", "write HOST:PORT"),
            ("kafka = \"k1:0\"", "kafka", "write HOST:PORT"),
            (
                "kafka = \"k:1\"\nkafka_topic = \"\"",
                "kafka_topic",
                "1 to 249",
            ),
            (
                "kafka = \"k:1\"\nkafka_topic = \"a/b\"",
                "kafka_topic",
                "1 to 249",
            ),
            (
                "kafka = \"k:1\"\nkafka_partition = 3000000000",
                "kafka_partition",
                "no number of a partition",
            ),
        ] {
            let told = wrong_journal(text, true);
            assert_eq!(told.len(), 1, "{text}: {told:?}");
            assert!(
                told[0].starts_with(&format!("[cluster] {key}: ")),
                "{told:?}"
            );
            assert!(told[0].contains(right), "{text}: {told:?}");
        }
        let long = format!("kafka = \"k:1\"\nkafka_topic = \"{}\"", "t".repeat(250));
        assert_eq!(wrong_journal(&long, true).len(), 1);
    }

    #[test]
    fn options_of_the_journal_are_checked_without_its_brokers_and_shown_without_secrets() {
        for (option, right) in [
            ("acks = 1", "acks cannot be set"),
            ("group.id = \"g\"", "group.id cannot be set"),
            ("max.in.flight = 5", "max.in.flight cannot be set"),
            (
                "sasl.password = \"geheim\"",
                "which the configuration must not contain",
            ),
        ] {
            let told = wrong_journal(&format!("[kafka_options]\n{option}\n"), true);
            assert_eq!(told.len(), 1, "{option}: {told:?}");
            assert!(told[0].starts_with("[cluster] kafka_options: "), "{told:?}");
            assert!(told[0].contains(right), "{told:?}");
            assert!(!told[0].contains("geheim"), "{told:?}");
        }
        let text = "[kafka_options]\nfetch.wait.max.ms = 4\nsasl.password = { file = \"/p\" }\n\
             sasl.username = { env = \"NAME\" }\nssl.key.password = \"geheim\"\n";
        let cluster: Cluster = toml::from_str(text).expect("a section");
        let shown = serde_json::to_value(&cluster).expect("JSON")["kafka_options"].take();
        let expected = serde_json::json!({
            "fetch.wait.max.ms": "4",
            "sasl.password": { "file": "/p" },
            "sasl.username": { "env": "NAME" },
        });
        assert_eq!(shown, expected);
    }
}
