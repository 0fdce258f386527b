//! Fields of the manifest that no store on a local disk has. They are part of format 1, so that a
//! shard of a cluster is a store of that format.

use serde::{Deserialize, Serialize};

use super::Manifest;
use crate::shared_journal::{JournalPlace, JournalPosition};

/// The Kafka partition that is the journal of a store in place of `journal/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaJournal {
    /// Id of the Kafka cluster.
    pub cluster: String,
    /// Name of the topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: u32,
    /// The position of what is sealed: a replay begins there.
    pub position: JournalPosition,
}

impl KafkaJournal {
    /// Returns the entry of a journal at a position.
    pub(crate) fn at(place: &JournalPlace, position: JournalPosition) -> Self {
        Self {
            cluster: place.cluster.clone(),
            topic: place.topic.clone(),
            partition: place.partition,
            position,
        }
    }

    /// Returns whether this is the journal at a place.
    pub(crate) fn is_at(&self, place: &JournalPlace) -> bool {
        (&self.cluster, &self.topic, self.partition)
            == (&place.cluster, &place.topic, place.partition)
    }

    /// Returns the name for messages.
    pub(crate) fn named(&self) -> String {
        format!(
            "partition {} of topic {} in the Kafka cluster {}",
            self.partition, self.topic, self.cluster
        )
    }
}

impl Manifest {
    /// Checks that `next` goes on with the journal of this version.
    pub(super) fn check_journal(&self, next: &Self) -> Result<(), String> {
        let Some(before) = &self.journal else {
            return Ok(());
        };
        let goes_on = next.journal.as_ref().is_some_and(|after| {
            let (a, b) = (&before.position, &after.position);
            after.named() == before.named()
                && a.next_offset <= b.next_offset
                && a.next_seq <= b.next_seq
                && a.epoch <= b.epoch
        });
        match goes_on {
            true => Ok(()),
            false => Err("the position in the shared journal would fall".into()),
        }
    }

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
        if let Some(journal) = &self.journal {
            let at = journal.position.next_seq;
            if at < self.sealed_seq || at > self.next_seq {
                return Err(format!(
                    "its journal is sealed up to {at}, its parts up to {}, of {}",
                    self.sealed_seq, self.next_seq
                ));
            }
        }
        if let Some(commit) = &self.commit
            && (commit.len() != 32 || !commit.bytes().all(|b| b.is_ascii_hexdigit()))
        {
            return Err(format!("{commit:?} is not the nonce of a commit"));
        }
        Ok(())
    }
}
