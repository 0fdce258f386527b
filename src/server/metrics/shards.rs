//! The shards of a cluster, as this server has seen them last.

use query::ShardState;

use super::Exposition;

/// Writes the shards; nothing for a server that is in no cluster.
pub(super) fn write(text: &mut Exposition, shards: &[ShardState]) {
    if shards.is_empty() {
        return;
    }
    type Value = fn(&ShardState) -> Option<u64>;
    let families: [(&str, &str, Value); 4] = [
        (
            "up",
            "1 while the shard has a server that takes batches.",
            |shard| Some(u64::from(shard.error.is_none())),
        ),
        ("epoch", "Starts and take-overs of the shard.", |shard| {
            shard.epoch.map(u64::from)
        }),
        (
            "unsealed",
            "Sequence numbers of the shard that are not sealed.",
            |shard| shard.unsealed,
        ),
        (
            "behind",
            "Messages of the shard's journal that a start would read.",
            |shard| shard.behind,
        ),
    ];
    for (name, help, value) in families {
        text.family(&format!("logmill_cluster_shard_{name}"), "gauge", help);
        for shard in shards {
            if let Some(value) = value(shard) {
                text.sample(&[("shard", &shard.shard.to_string())], value);
            }
        }
    }
}
