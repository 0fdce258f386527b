//! The begin of partitions: from the position in the store to the first record that is read.

use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::{Offset, TopicPartitionList};
use storage::SourcePosition;

use super::{BatchMaker, Chain, GroupSession, Phase, explained};
use crate::config::kafka::{Start, WhenGone};

/// Time for an answer about one partition: others wait meanwhile.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time until a partition is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Time for the store to note a first position.
const NOTED_WITHIN: Duration = Duration::from_secs(30);

/// The first record of a partition, as a seek takes it.
enum First {
    At(Chain, Offset),
    Gone(&'static str),
}

impl GroupSession<'_> {
    /// Begins the partitions whose time has come. After the first failure, the others wait as well.
    pub(super) fn begin_due(&mut self, batches: &BatchMaker) {
        let now = Instant::now();
        for i in 0..self.partitions.len() {
            if !self.partitions[i].is_to_begin(now) {
                continue;
            }
            if let Err(why) = self.begin(i, batches) {
                let partition = &mut self.partitions[i];
                let name = &self.source.name;
                tracing::warn!(
                    "kafka.{name}: {}/{}: {why}",
                    partition.topic,
                    partition.number
                );
                for partition in &mut self.partitions {
                    if partition.is_to_begin(now) {
                        partition.phase = Phase::Waiting(Instant::now() + AGAIN_AFTER);
                    }
                }
                self.partitions[i].report(name, &self.source.serving.sources, |report| {
                    report.errors += 1;
                    report.error = Some(why);
                });
                return;
            }
        }
    }

    fn begin(&mut self, i: usize, batches: &BatchMaker) -> Result<(), String> {
        let at = self.partitions[i]
            .place
            .position(&*self.source.serving.intake)
            .map_err(|error| error.to_string())?;
        let first = match at {
            Some(at) => self.behind(i, at)?,
            None => self.first_of_new(i, batches)?,
        };
        let (chain, offset) = match first {
            First::At(chain, offset) => (chain, offset),
            First::Gone(why) => return self.gone(i, why),
        };
        let partition = &mut self.partitions[i];
        let sought = self
            .consumer
            .seek(&partition.topic, partition.number, offset, ANSWER_WITHIN);
        sought.map_err(|error| explained(&error))?;
        partition.chain = chain;
        partition.stored = at.map(|at| at.to).or(partition.stored);
        partition.phase = Phase::Reading;
        partition.heard = Instant::now();
        partition.report(&self.source.name, &self.source.serving.sources, |report| {
            report.error = None;
        });
        Ok(())
    }

    /// Goes on behind a position. The record before it is read once more, if it is still there: if
    /// it is another one, the topic is another one.
    fn behind(&self, i: usize, at: SourcePosition) -> Result<First, String> {
        let (low, high) = self.ends(i, ANSWER_WITHIN)?;
        if low > at.to {
            return Ok(First::Gone("retention removed records that were not read"));
        }
        // Where a partition may be read anew, one with fewer records is. Otherwise the broker
        // decides: not every one tells this end right.
        if high < at.to && self.source.kafka.when_gone == WhenGone::Restart {
            return Ok(First::Gone(
                "the partition ends before the stored position: the topic was deleted and created anew, or its end was lost by a broker",
            ));
        }
        let known = Some(at.content).filter(|content| *content != 0 && low < at.to);
        let offset = at.to - u64::from(known.is_some());
        let chain = Chain::at(at.to, known);
        Ok(First::At(chain, Offset::Offset(offset.cast_signed())))
    }

    /// Finds the first record of a partition that the store has no position of.
    fn first_of_new(&mut self, i: usize, batches: &BatchMaker) -> Result<First, String> {
        let start = match self.partitions[i].place.is_first() {
            true => self.source.kafka.start,
            false => Start::Earliest,
        };
        let at = match start {
            Start::Earliest => return Ok(First::At(Chain::unknown(), Offset::Beginning)),
            Start::Latest => self.ends(i, ANSWER_WITHIN)?.1,
            Start::Time(ms) => self.at_time(i, ms)?,
        };
        // Noted in the store: what comes from now on is read, whatever happens before the first
        // batch.
        let batch = batches.note(self.partitions[i].place.producer(), at);
        let (send, receive) = crossbeam_channel::bounded(1);
        let reply = Box::new(move |outcome| {
            // A session that no longer waits reads the position again.
            let _ignored = send.send(outcome);
        });
        let intake = &self.source.serving.intake;
        let submitted = intake.submit(batch, batches.concern, reply);
        submitted.map_err(|error| error.to_string())?;
        match receive.recv_timeout(NOTED_WITHIN) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("the store did not note the first position in time".to_owned()),
        }
        self.partitions[i].stored = Some(at);
        let offset = Offset::Offset(at.cast_signed());
        Ok(First::At(Chain::at(at, None), offset))
    }

    /// Returns the first and the next offset of a partition.
    pub(super) fn ends(&self, i: usize, within: Duration) -> Result<(u64, u64), String> {
        let partition = &self.partitions[i];
        let (topic, number) = (&partition.topic, partition.number);
        let ends = self.consumer.fetch_watermarks(topic, number, within);
        let (low, high) = ends.map_err(|error| explained(&error))?;
        let known = u64::try_from(low).ok().zip(u64::try_from(high).ok());
        known.ok_or_else(|| "the broker does not tell the ends of the partition".to_owned())
    }

    /// Returns the offset of the first record with a timestamp or a later one.
    fn at_time(&self, i: usize, ms: i64) -> Result<u64, String> {
        let partition = &self.partitions[i];
        let mut wanted = TopicPartitionList::new();
        let added =
            wanted.add_partition_offset(&partition.topic, partition.number, Offset::Offset(ms));
        added.map_err(|error| explained(&error))?;
        let found = self.consumer.offsets_for_times(wanted, ANSWER_WITHIN);
        let found = found.map_err(|error| explained(&error))?;
        let found = found.elements().first().map(|element| {
            element.error()?;
            Ok(element.offset())
        });
        match found
            .transpose()
            .map_err(|error: rdkafka::error::KafkaError| explained(&error))?
        {
            Some(Offset::Offset(at)) => Ok(at.cast_unsigned()),
            // All records are older.
            _ => Ok(self.ends(i, ANSWER_WITHIN)?.1),
        }
    }
}
