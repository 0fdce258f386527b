//! Partitions that give no record although their broker has more.
//!
//! librdkafka can stop to fetch a partition without an error, among others where its leader moves
//! while a request is under way. A seek makes it begin anew.

use std::time::{Duration, Instant};

use super::GroupSession;
use crate::kafka::partition::{Partition, Phase};

/// Time without a record after which the broker is asked whether there are more.
const SILENT: Duration = Duration::from_secs(30);
/// Time for its answer: the other partitions wait meanwhile.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

impl GroupSession<'_> {
    /// Begins a partition again that gives no record although its broker has more.
    pub(super) fn check_silent(&mut self) {
        let now = Instant::now();
        for i in 0..self.partitions.len() {
            if !is_silent(&self.partitions[i], now) {
                continue;
            }
            let Ok((_, end)) = self.ends(i, ANSWER_WITHIN) else {
                // A broker that does not answer holds up the partitions of others.
                let all = self.partitions.iter_mut();
                all.for_each(|partition| partition.heard = now);
                return;
            };
            let partition = &mut self.partitions[i];
            partition.heard = now;
            let position = partition.chain.end();
            if end <= position || !partition.stalls.may_seek(end) {
                continue;
            }
            partition.reset(Duration::ZERO);
            let (name, topic, number) = (&self.source.name, &partition.topic, partition.number);
            tracing::info!(
                "kafka.{name}: {topic}/{number}: no record came for {SILENT:?}, and the partition ends at {end}, behind the position {position}; read again from the stored position"
            );
        }
    }
}

/// Checks whether a partition that is read has given no record for long.
fn is_silent(partition: &Partition, now: Instant) -> bool {
    partition.phase == Phase::Reading
        && partition.under_way == 0
        && now.saturating_duration_since(partition.heard) >= SILENT
}
