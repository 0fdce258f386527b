//! A session: one connection to a cluster, from its assignments to batches in the store.
//!
//! Each partition has a queue of its own. So an error belongs to a partition (rdkafka does not name
//! it), and one that is not read costs no more than its queue.

mod begin;
mod read;
mod stall;
mod submit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use rdkafka::consumer::Consumer;
use rdkafka::consumer::base_consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};

use self::submit::StoreAnswer;
use super::KafkaSource;
use super::batch::BatchMaker;
use super::chain::Chain;
use super::client::{Context, Reassignment};
use super::flow::Flow;
use super::partition::{BATCH_BYTES, LINGER, Partition, Phase};
use super::position::PartitionName;
use super::records::Records;
use super::stalls::Stalls;
use crate::librdkafka::explained;
use crate::serve::FINISH_WITHIN;

/// Time for an answer of the cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The longest sleep.
const SLEEP: Duration = Duration::from_millis(250);
/// Interval of commits to the broker, and of reports.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// Time before a partition is begun again, after an error of its records.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A connection to a cluster.
pub(super) struct GroupSession<'a> {
    source: &'a KafkaSource,
    cluster: String,
    // Before the consumer: their queues are parts of it.
    partitions: Vec<Partition>,
    consumer: Arc<BaseConsumer<Context>>,
    flow: Arc<Flow>,
    outcomes: (Sender<StoreAnswer>, Receiver<StoreAnswer>),
    next_id: u64,
    committed: Instant,
    /// The report on the source has an error of its connection.
    is_troubled: bool,
}

impl<'a> GroupSession<'a> {
    /// Connects to a cluster and joins the group.
    ///
    /// # Errors
    /// If no broker answers in time, or the client cannot be made.
    pub(super) fn open(source: &'a KafkaSource) -> Result<Self, String> {
        let context = Context::new(&source.name);
        let flow = Arc::clone(&context.flow);
        let consumer = source.client.create_with_context(context);
        let mut consumer: BaseConsumer<Context> = consumer.map_err(|e| explained(&e))?;
        let to_wake = Arc::clone(&flow);
        consumer.set_nonempty_callback(move || to_wake.wake());
        let cluster = consumer.client().fetch_cluster_id(ANSWER_WITHIN);
        let Some(cluster) = cluster.filter(|id| !id.is_empty()) else {
            return Err(format!(
                "no broker of {} answers with the id of its cluster within {ANSWER_WITHIN:?}; check brokers and options",
                source.kafka.brokers.join(", ")
            ));
        };
        let topics: Vec<&str> = source.kafka.topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics).map_err(|e| explained(&e))?;
        source.report(None);
        tracing::info!(
            "kafka.{}: connected to cluster {cluster}, group {}",
            source.name,
            source.kafka.group_of(&source.name)
        );
        Ok(Self {
            source,
            cluster,
            partitions: Vec::new(),
            consumer: Arc::new(consumer),
            flow,
            outcomes: crossbeam_channel::unbounded(),
            next_id: 0,
            committed: Instant::now(),
            is_troubled: false,
        })
    }

    /// Reads until the server stops.
    ///
    /// # Errors
    /// If the session cannot go on and another one may.
    pub(super) fn run(&mut self, batches: &mut BatchMaker) -> Result<(), String> {
        let bytes_max = usize::try_from(self.source.kafka.bytes_max.0).unwrap_or(usize::MAX);
        while !self.source.serving.stop.is_set() {
            self.hear(batches)?;
            self.take_outcomes();
            self.begin_due(batches);
            let (mut is_busy, mut is_full) = (false, false);
            for i in 0..self.partitions.len() {
                let waiting: usize = self.partitions.iter().map(|p| p.records.size()).sum();
                is_full = self.flow.bytes() + waiting >= bytes_max;
                if is_full {
                    break;
                }
                is_busy |= self.read(i)?;
            }
            // The last ones have their turn when memory was short, too.
            if !self.partitions.is_empty() {
                self.partitions.rotate_left(1);
            }
            let now = Instant::now();
            for i in 0..self.partitions.len() {
                if self.partitions[i].is_due(now) {
                    self.send(i, batches);
                }
            }
            self.commit(false);
            // Otherwise records may wait that were not read.
            if !is_full {
                self.check_silent();
            }
            if !is_busy {
                self.flow.wait(self.sleep(now));
            }
        }
        self.flow.wait_empty(FINISH_WITHIN);
        self.take_outcomes();
        self.commit(true);
        Ok(())
    }

    /// Returns the time until a batch is due or a partition is to begin.
    fn sleep(&self, now: Instant) -> Duration {
        let times = self.partitions.iter().flat_map(|p| {
            let begins = match p.phase {
                Phase::Waiting(until) if p.under_way == 0 => Some(until),
                _ => None,
            };
            [p.since.map(|since| since + LINGER), begins]
        });
        let until = times
            .flatten()
            .map(|time| time.saturating_duration_since(now));
        until.min().unwrap_or(SLEEP).min(SLEEP)
    }

    /// Takes what librdkafka tells about the group and the connection.
    fn hear(&mut self, batches: &BatchMaker) -> Result<(), String> {
        // A record here came before the partition's queue was ours, and is read again.
        while let Some(heard) = self.consumer.poll(Duration::ZERO) {
            let Err(error) = heard else {
                continue;
            };
            if let KafkaError::MessageConsumptionFatal(_) = error {
                return Err(explained(&error));
            }
            let why = explained(&error);
            tracing::warn!("kafka.{}: {why}", self.source.name);
            self.source.report(Some(why));
            self.is_troubled = true;
        }
        for change in self.consumer.context().changes() {
            match change {
                Reassignment::Assigned(partitions) => {
                    for (topic, number) in partitions {
                        self.add(topic, number, batches)?;
                    }
                    self.source.report(None);
                }
                Reassignment::Revoked(partitions) => self.remove(&partitions),
            }
        }
        Ok(())
    }

    fn add(&mut self, topic: String, number: i32, batches: &BatchMaker) -> Result<(), String> {
        let queue = self.consumer.split_partition_queue(&topic, number);
        let mut queue = queue.ok_or_else(|| format!("there is no queue for {topic}/{number}"))?;
        let to_wake = Arc::clone(&self.flow);
        queue.set_nonempty_callback(move || to_wake.wake());
        self.next_id += 1;
        let serving = &self.source.serving;
        let named = (&*self.cluster, &*topic, number);
        let place = PartitionName::latest(&*serving.intake, named, batches.stream.as_str());
        self.partitions.push(Partition {
            id: self.next_id,
            place: place.map_err(|error| error.to_string())?,
            source: format!("kafka/{}/{topic}/{number}", self.source.name).into(),
            topic,
            number,
            queue,
            phase: Phase::Waiting(Instant::now()),
            chain: Chain::unknown(),
            records: Records::default(),
            since: None,
            attempt: 0,
            under_way: 0,
            stored: None,
            heard: Instant::now(),
            stalls: Stalls::default(),
            committed: None,
        });
        Ok(())
    }

    fn remove(&mut self, revoked: &[(String, i32)]) {
        self.take_outcomes();
        self.commit(true);
        let (name, board) = (&self.source.name, &self.source.serving.sources);
        self.partitions.retain(|partition| {
            let is_of = |(topic, number): &(String, i32)| {
                *topic == partition.topic && *number == partition.number
            };
            let stays = !revoked.iter().any(is_of);
            if !stays {
                partition.report(name, board, |report| {
                    report.state = "idle";
                    report.lag = None;
                });
            }
            stays
        });
    }

    /// Tells the broker the positions, for tools that show the lag of a group, and reports them.
    fn commit(&mut self, is_now: bool) {
        if !is_now && self.committed.elapsed() < COMMIT_EVERY {
            return;
        }
        self.committed = Instant::now();
        let mut offsets = TopicPartitionList::new();
        for partition in &mut self.partitions {
            let (name, board) = (&self.source.name, &self.source.serving.sources);
            let end = self
                .consumer
                .context()
                .end_of(&partition.topic, partition.number);
            partition.report(name, board, |report| {
                let lag = end
                    .zip(partition.stored)
                    .map(|(end, at)| end.saturating_sub(at));
                report.lag = lag.or(report.lag);
            });
            let Some(stored) = partition
                .stored
                .filter(|at| partition.committed != Some(*at))
            else {
                continue;
            };
            let offset = Offset::Offset(stored.cast_signed());
            let added = offsets.add_partition_offset(&partition.topic, partition.number, offset);
            if added.is_ok() {
                partition.committed = Some(stored);
            }
        }
        if offsets.count() > 0
            && let Err(error) = self
                .consumer
                .commit(&offsets, rdkafka::consumer::CommitMode::Async)
        {
            tracing::debug!("kafka.{}: {}", self.source.name, explained(&error));
        }
    }
}
