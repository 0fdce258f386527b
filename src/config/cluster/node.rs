//! The part of `[cluster]` that makes a server a node.

use query::SHARDS_MAX;

use super::super::host::check_host;
use super::super::kafka::is_topic;
use super::Cluster;

impl Cluster {
    /// Returns whether the server is a node of a cluster: it has no shard itself.
    pub(crate) fn is_node(&self) -> bool {
        self.group.is_some() && self.shard.is_none()
    }

    /// Returns whether the server of each shard tells its address in the object store.
    pub(crate) fn finds_shards(&self) -> bool {
        self.group.is_some()
    }

    /// Returns the port of a shard.
    pub(crate) fn port_of(&self, shard: u16) -> u16 {
        self.shard_ports.saturating_add(shard)
    }

    /// Returns the first thing that is wrong with a node, with its key.
    pub(super) fn wrong_node(&self) -> Option<(&'static str, String)> {
        let shards = self.shards;
        let wrong = |key, why: &str| Some((key, why.to_owned()));
        match &self.group {
            Some(group) if !is_topic(group) => {
                let why = format!("{group:?}: write a name of a-z, A-Z, 0-9, '.', '_' and '-'");
                return Some(("group", why));
            }
            _ if !(2..=SHARDS_MAX).contains(&shards) => {
                let why = format!("{shards}: write a number from 2 to {SHARDS_MAX}");
                return Some(("shards", why));
            }
            _ => {}
        }
        if self.shard.is_some() {
            return wrong(
                "shard",
                "the group assigns shards to its nodes; leave it out",
            );
        }
        if self.kafka.is_none() {
            let why = "the shards of a node need their journal in Kafka; set kafka";
            return wrong("group", why);
        }
        if self.shard_ports.checked_add(shards).is_none() || self.shard_ports == 0 {
            let most = u16::MAX - shards;
            let why =
                format!("{shards} shards need as many ports: write a number from 1 to {most}");
            return Some(("shard_ports", why));
        }
        if let Some(address) = &self.address
            && let Err(why) = check_host(address)
        {
            return Some(("address", why));
        }
        (self.kafka_partition != 0).then(|| {
            let why = "a shard has the partition of its own number; leave it out";
            ("kafka_partition", why.to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "group = \"g\"\nshards = 4\nkafka = \"k:9092\"\n";

    fn problems(text: &str) -> Vec<String> {
        let cluster: Cluster = toml::from_str(text).expect("a section");
        let mut problems = Vec::new();
        cluster.problems(true, &mut problems);
        problems
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn a_node_needs_a_group_shards_and_brokers_and_has_no_shard_itself() {
        assert_eq!(problems(GOOD), Vec::<String>::new());
        let more = "address = \"a.example.org\"\npeers = [\"http://old:7070\"]\n";
        assert_eq!(problems(&format!("{GOOD}{more}")), Vec::<String>::new());
        let wrong = [
            (
                "group = \"g\"\nkafka = \"k:1\"",
                "shards: 0: write a number",
            ),
            (
                "group = \"g\"\nshards = 4",
                "group: the shards of a node need",
            ),
            (
                "group = \"a b\"\nshards = 4\nkafka = \"k:1\"",
                "group: \"a b\": write",
            ),
            (&format!("{GOOD}shard = 1"), "shard: the group assigns"),
            (
                &format!("{GOOD}address = \"http://a\""),
                "address: \"http://a\" is not",
            ),
            (
                &format!("{GOOD}shard_ports = 65533"),
                "shard_ports: 4 shards need",
            ),
            (
                &format!("{GOOD}shard_ports = 0"),
                "shard_ports: 4 shards need",
            ),
            (
                &format!("{GOOD}kafka_partition = 1"),
                "kafka_partition: a shard has",
            ),
        ];
        for (text, right) in wrong {
            let told = problems(text);
            assert_eq!(told.len(), 1, "{text}: {told:?}");
            assert!(
                told[0].starts_with(&format!("[cluster] {right}")),
                "{told:?}"
            );
        }
    }
}
