//! The names under which the store knows partitions, and their positions there.

use storage::SourcePosition;

use crate::intake::Intake;

/// A partition of a topic, as one stream reads it.
///
/// The name of the stream is part of it: two sources may read one topic into two streams. A topic
/// that was created anew has offsets of its own, and so a name of its own: a generation is added.
/// (Kafka has ids of topics for that, which rdkafka does not tell.)
#[derive(Debug, Clone)]
pub(super) struct PartitionName {
    name: String,
    generation: u32,
}

/// The first generation, which names do not show.
const FIRST: u32 = 1;

impl PartitionName {
    /// Returns the latest generation of a partition that the store knows.
    ///
    /// # Errors
    /// As [`Intake::producers`].
    pub(super) fn latest(
        intake: &dyn Intake,
        (cluster, topic, partition): (&str, &str, i32),
        stream: &str,
    ) -> storage::Result<Self> {
        // No part has a slash, but for the cluster's id in theory.
        let cluster = cluster.replace('/', "_");
        let name = format!("kafka/{cluster}/{topic}/{partition}/{stream}");
        let later = format!("{name}/");
        let generations = intake.producers(&later)?.into_iter();
        let generations = generations.filter_map(|known| known[later.len()..].parse().ok());
        Ok(Self {
            name,
            generation: generations.max().unwrap_or(FIRST),
        })
    }

    /// Returns the name of the ordered source.
    pub(super) fn producer(&self) -> String {
        match self.generation {
            FIRST => self.name.clone(),
            later => format!("{}/{later}", self.name),
        }
    }

    /// Returns whether the topic was not created anew since it is read.
    pub(super) fn is_first(&self) -> bool {
        self.generation == FIRST
    }

    /// Begins the next generation, of which the store knows nothing.
    pub(super) fn renew(&mut self) {
        self.generation += 1;
    }

    /// Returns the position in the store.
    ///
    /// # Errors
    /// As [`Intake::positions`].
    pub(super) fn position(&self, intake: &dyn Intake) -> storage::Result<Option<SourcePosition>> {
        Ok(intake.positions(&self.producer())?.pop())
    }
}
