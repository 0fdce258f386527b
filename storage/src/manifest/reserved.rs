//! Fields of the manifest that no store on a local disk has. They are part of format 1, so that a
//! shard of a cluster is a store of that format.

use serde::{Deserialize, Serialize};

use super::Manifest;

/// The Kafka partition that is the journal of a store in place of `journal/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaJournal {
    /// Id of the Kafka cluster.
    pub cluster: String,
    /// Id of the topic: a topic that was deleted and created again has another one.
    pub topic_id: String,
    /// Number of the partition.
    pub partition: u32,
    /// Offset of the first record that is not in parts and tiles: a replay begins there, with
    /// the sequence number `sealed_seq`.
    pub next_offset: u64,
}

impl Manifest {
    /// Checks that the fields of a cluster agree with the others.
    pub(super) fn check_reserved(&self) -> Result<(), String> {
        let salt = self.id_prefix()[4..].to_vec();
        if let Some(shard) = self.shard
            && salt != shard.to_be_bytes()
        {
            return Err(format!(
                "it is shard {shard}, and the ids of its events begin as those of another"
            ));
        }
        if let Some(commit) = &self.commit
            && (commit.len() != 32 || !commit.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            return Err(format!("{commit:?} is not the nonce of a commit"));
        }
        Ok(())
    }
}
